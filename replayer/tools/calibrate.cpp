#include "replayer/tools/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "replayer/tools/twin_distances.h"
#include "replayer/verdict/doubts.h"
#include "src/base/output_file.h"
#include "src/format/trace_writer.h"

namespace goldentrace {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

CalibrateReport::Measured describe(const std::string& name, TwinDistances distances) {
  CalibrateReport::Measured measured{name};
  std::erase_if(distances, [](float x) { return std::isnan(x); });
  measured.outputs = distances.size();
  if (distances.empty()) return measured;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  measured.median = *middle;
  measured.largest = *std::max_element(distances.begin(), distances.end());
  return measured;
}

// Copies a trace chunk by chunk; behind each of its program chunks stand the bands of its writes.
class Calibration {
 public:
  Calibration(const TraceReader& trace, const std::vector<TwinDistances>& twins,
              TraceWriter& writer, CalibrateReport& report)
      : trace_(trace), twins_(twins), writer_(writer), report_(report) {
    entries_.resize(trace.chunks().size());
    for (const ValueEntry& entry : trace.values()) {
      entries_[entry.chunk].push_back(
          {entry.hash, *trace.value_size(entry.hash), entry.offset, entry.length});
    }
  }

  Status run() {
    for (std::size_t i = 0; i < trace_.chunks().size(); ++i) {
      switch (trace_.chunks()[i].kind) {
        case ChunkKind::kHeader:
        case ChunkKind::kSummary:
        case ChunkKind::kBands:
          break;  // others are written in their place
        case ChunkKind::kProgram:
          GOLDENTRACE_RETURN_IF_ERROR(copy(i));
          GOLDENTRACE_RETURN_IF_ERROR(add_bands(i));
          break;
        default:
          GOLDENTRACE_RETURN_IF_ERROR(copy(i));
      }
    }
    return {};
  }

 private:
  Status copy(std::size_t i) {
    const auto found = trace_.read_stored(i);
    if (!found.ok()) return found.status();
    return writer_.copy_chunk(trace_.chunks()[i], found->header.item_size, found->stored,
                              entries_[i]);
  }

  Status add_bands(std::size_t i) {
    const auto raw = trace_.read_chunk(i);
    if (!raw.ok()) return raw.status();
    const auto chunk = decode_program(*raw);
    if (!chunk.ok()) return chunk.status();
    Bands bands;
    bands.base_calls = chunk->base.calls;
    bool any = false;
    for (std::size_t w = 0; w < chunk->writes.size(); ++w, ++write_) {
      std::vector<float> seen;
      for (const TwinDistances& twin : twins_) {
        if (write_ < twin.size() && std::isfinite(twin[write_])) seen.push_back(twin[write_]);
      }
      std::ranges::sort(seen);
      bands.typical.push_back(seen.empty() ? kNone : seen[(seen.size() - 1) / 2]);
      bands.largest.push_back(seen.empty() ? kNone : seen.back());
      ++report_.writes;
      if (seen.empty()) continue;
      any = true;
      ++report_.outputs;
    }
    return any ? writer_.write_bands(bands) : Status();
  }

  const TraceReader& trace_;
  const std::vector<TwinDistances>& twins_;
  TraceWriter& writer_;
  CalibrateReport& report_;
  std::vector<std::vector<ValuePart>> entries_;  // by chunk
  std::size_t write_ = 0;
};

Status write(const TraceReader& trace, const CalibrateOptions& options,
             const std::vector<TwinDistances>& twins, const std::string& names,
             CalibrateReport& report) {
  auto file = OutputFile::create(options.output, options.trace);
  if (!file.ok()) return file.status();
  Header header = trace.header();
  std::erase_if(header.environment, [](const auto& entry) { return entry.first == "calibration"; });
  header.environment.emplace_back("calibration", names);
  auto writer = TraceWriter::create(file->take_sink(), header);
  if (!writer.ok()) return writer.status();
  GOLDENTRACE_RETURN_IF_ERROR(Calibration(trace, twins, **writer, report).run());
  GOLDENTRACE_RETURN_IF_ERROR((*writer)->close(trace.summary()));
  return file->commit();
}

}  // namespace

Result<CalibrateReport> calibrate(const CalibrateOptions& options) {
  const auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  GOLDENTRACE_RETURN_IF_ERROR((*trace)->check_bytes());
  if (const std::string lack = incompleteness((*trace)->summary()); !lack.empty()) {
    return Status(Code::kInvalidArgument, options.trace + ": not whole: " + lack);
  }
  CalibrateReport report;
  std::vector<TwinDistances> twins;
  std::string names;
  const auto add = [&](const std::string& name, TwinDistances distances) {
    names += (names.empty() ? "" : "; ") + name;
    report.twins.push_back(describe(name, distances));
    twins.push_back(std::move(distances));
  };
  for (const Twin& twin : options.twins) {
    const auto opened = TraceReader::open(twin.trace);
    if (!opened.ok()) return opened.status();
    auto distances = twin_distances(**trace, **opened);
    if (!distances.ok()) return distances.status();
    add(twin.name, std::move(*distances));
  }
  if (!options.weights.empty()) {
    auto distances = options.float32_twin(**trace, options.weights);
    if (!distances.ok()) return distances.status();
    add("fp32", std::move(*distances));
  }
  const Status written = write(**trace, options, twins, names, report);
  return written.ok() ? Result<CalibrateReport>(std::move(report)) : written;
}

}  // namespace goldentrace
