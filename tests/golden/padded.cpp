#include "tests/golden/padded.h"

#include <flatbuffers/flatbuffers.h>

#include "src/digest/digest.h"
#include "tests/golden/padded_generated.h"
#include "tests/support/traces.h"

namespace goldentrace::testing {
namespace {

constexpr std::uint16_t kLaterMinor = 7;

// Reads `raw` by the schema with a field more in each table, lets `fill` fill them, writes it
// again.
template <typename Table, typename Fill>
Bytes pad(const Bytes& raw, Fill fill) {
  typename Table::NativeTableType table;
  flatbuffers::GetRoot<Table>(raw.data())->UnPackTo(&table);
  table.from_the_future = "new";
  fill(table);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &table));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

template <typename Items>
void pad_each(Items& items) {
  for (auto& item : items) item->from_the_future = "new here too";
}

Bytes padded_header() {
  Header header = sample_header();
  header.major = kFormatMajor;
  header.minor = kLaterMinor;
  header.environment.emplace_back("unknown_key", "value");
  header.warnings.emplace_back("unknown: kind of warning");
  return pad<padded::Header>(encode_header(header), [](padded::HeaderT& table) {
    pad_each(table.environment);
    pad_each(table.modules);
  });
}

Bytes padded_text() {
  return pad<padded::Text>(encode_text(sample_text()), [](padded::TextT& table) {
    pad_each(table.requests);
    for (auto& request : table.requests) pad_each(request->sampling);
    pad_each(table.steps);
    for (auto& step : table.steps) pad_each(step->rows);
  });
}

}  // namespace

Bytes padded() {
  const auto only = [](auto&) {};
  const Bytes value = to_bytes("twelve bytes");
  ProgramChunk chunk = rich_chunk();
  chunk.calls[0].flags |= 128;
  chunk.writes[0].flags |= 64;
  chunk.tensors[0].flags |= 32;
  FileBuilder builder(kLaterMinor);
  builder.add(ChunkKind::kHeader, padded_header());
  builder.add(static_cast<ChunkKind>(200), to_bytes("a chunk of an unknown kind"));
  builder.add_stored(static_cast<ChunkKind>(201), static_cast<Codec>(99), 0,
                     to_bytes("and of an unknown codec"), 1000);
  builder.add(
      ChunkKind::kValues,
      pad<padded::Values>(
          encode_values(std::vector<ValuePart>{{hash_bytes(value), 12, 0, 12}}, value), only));
  builder.index().values.push_back({hash_bytes(value), 0, 12, 3});
  builder.add(ChunkKind::kProgram,
              pad<padded::Program>(encode_program(chunk),
                                   [](padded::ProgramT& table) {
                                     pad_each(table.operators);
                                     pad_each(table.ambients);
                                   }),
              0, static_cast<std::uint32_t>(chunk.calls.size()));
  builder.add(ChunkKind::kTiming, pad<padded::Timing>(encode_timing(chunk), only), 0,
              static_cast<std::uint32_t>(chunk.timings.size()));
  builder.add(ChunkKind::kParameters,
              pad<padded::Parameters>(encode_parameters(sample_parameters()),
                                      [](padded::ParametersT& table) { pad_each(table.entries); }));
  builder.add(ChunkKind::kText, padded_text());
  Summary summary = sample_summary(3);
  summary.counters.push_back(
      {"unknown_counter", CounterSeverity::kInfo, CounterOrigin::kRecording, 3, "x"});
  builder.add(ChunkKind::kSummary,
              pad<padded::Summary>(encode_summary(summary),
                                   [](padded::SummaryT& table) { pad_each(table.counters); }));
  builder.pad_index = [&](const Bytes& raw) { return pad<padded::Index>(raw, only); };
  return builder.finish();
}

}  // namespace goldentrace::testing
