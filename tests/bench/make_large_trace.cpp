// Writes a sound trace of any size: CALLS calls, the first VALUES of which keep a value of
// VALUE_BYTES bytes; the last one, in the module "probe", keeps 1,024 floats.
//   make_large_trace OUT CALLS VALUES VALUE_BYTES
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>

#include "src/digest/digest.h"
#include "src/format/trace_writer.h"

namespace {

using namespace goldentrace;

constexpr std::uint64_t kCallsAChunk = 8192;
constexpr std::uint64_t kProbeBytes = 4096;

struct Sizes {
  std::uint64_t calls = 0;
  std::uint64_t values = 0;
  std::uint64_t value_bytes = 0;
};

// Call `number` writes a new storage; `bytes` of it are kept when there are any.
void add_call(std::uint64_t number, bool probe, const Bytes& bytes, ProgramChunk& chunk,
              TraceWriter& writer) {
  const auto id = static_cast<std::uint32_t>(number);
  const std::uint32_t geometry = probe ? 1 : bytes.empty() ? 2 : 0;
  chunk.storages.push_back({geometry == 0 ? bytes.size() : kProbeBytes, 0});
  chunk.tensors.push_back({id, geometry, DType::kFloat32, 0, 0});
  Write write{id, 1, kWriteHashed, {number, 1}, 0};
  if (!bytes.empty()) {
    write.hash = hash_bytes(bytes);
    write.flags |= kWriteValue;
    (void)writer.write_value(write.hash, bytes, sizeof(float));  // latches
  }
  Call call{.op = 0, .scope = probe ? 1u : 0u, .results = 1, .writes = 1};
  call.first_node = call.first_result = static_cast<std::uint32_t>(chunk.nodes.size());
  call.end_node = call.first_node + 1;
  call.first_write = static_cast<std::uint32_t>(chunk.writes.size());
  chunk.nodes.push_back({NodeKind::kTensor, 1, id});
  chunk.writes.push_back(write);
  chunk.timings.push_back({0, number * 10, 5});
  chunk.calls.push_back(call);
}

Status write(const std::string& path, const Sizes& sizes) {
  auto sink = create_file(path);
  if (!sink.ok()) return sink.status();
  WriterOptions options;
  options.values = ValueCompression::kNone;
  auto writer = TraceWriter::create(std::move(*sink), Header(), options);
  if (!writer.ok()) return writer.status();
  ProgramChunk chunk;
  chunk.strings = {"cpu"};
  chunk.operators = {{"aten::mul", "Tensor"}};
  chunk.scopes = {"layers.0", "probe"};
  const auto elements = static_cast<std::int64_t>(sizes.value_bytes / sizeof(float));
  chunk.geometries = {{{elements}, {1}}, {{1024}, {1}}, {{32, 32}, {32, 1}}};
  chunk.ambients = {{}};
  Bytes value(sizes.value_bytes);
  const Bytes probe_bytes(kProbeBytes, std::byte{3});
  const Bytes nothing;
  for (std::uint64_t number = 0; number < sizes.calls; ++number) {
    const bool probe = number + 1 == sizes.calls;
    if (number < sizes.values) std::memcpy(value.data(), &number, sizeof(number));
    const Bytes& bytes = probe ? probe_bytes : number < sizes.values ? value : nothing;
    add_call(number, probe, bytes, chunk, **writer);
    if (chunk.calls.size() < kCallsAChunk && !probe) continue;
    (void)(*writer)->write_program(chunk);
    ProgramChunk next;
    next.base = chunk.next_base();
    chunk = std::move(next);
  }
  return (*writer)->close({{}, sizes.calls, 1000});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const Sizes sizes{std::stoull(argv[2]), std::stoull(argv[3]), std::stoull(argv[4]) & ~3ull};
  const Status status = write(argv[1], sizes);
  if (!status.ok()) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
