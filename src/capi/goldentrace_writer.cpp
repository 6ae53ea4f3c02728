// The writing half of goldentrace.h: every function is one guarded call of capi::Writer.
#include "src/capi/answer.h"
#include "src/capi/goldentrace.h"
#include "src/capi/writer.h"
#include "src/digest/digest.h"

using goldentrace::Status;
using goldentrace::capi::guarded;
using goldentrace::capi::invalid;

struct goldentrace_writer {
  std::unique_ptr<goldentrace::capi::Writer> inner;
};

namespace {

// `body` gets the capi::Writer.
template <typename Body>
goldentrace_status with_writer(goldentrace_writer* writer, Body body) noexcept {
  return guarded([&]() -> Status {
    if (writer == nullptr) return invalid("writer is NULL");
    return body(*writer->inner);
  });
}

}  // namespace

extern "C" {

size_t goldentrace_dtype_size(uint32_t dtype) {
  return dtype > 0xff ? 0 : goldentrace::item_size(static_cast<goldentrace::DType>(dtype));
}

const char* goldentrace_dtype_name(uint32_t dtype) {
  // The names are literals.
  const auto none = static_cast<goldentrace::DType>(0xff);
  return goldentrace::dtype_name(dtype > 0xff ? none : static_cast<goldentrace::DType>(dtype))
      .data();
}

goldentrace_status goldentrace_hash_bytes(const void* data, uint64_t size,
                                          goldentrace_hash128* hash) {
  return guarded([&]() -> Status {
    if (hash == nullptr) return invalid("hash is NULL");
    if (data == nullptr && size > 0) return invalid("data is NULL");
    const auto* bytes = static_cast<const std::byte*>(data);
    const goldentrace::Hash128 digest = goldentrace::hash_bytes({bytes, size});
    *hash = {digest.low, digest.high};
    return {};
  });
}

goldentrace_status goldentrace_writer_open(const char* path,
                                           const goldentrace_writer_options* options,
                                           goldentrace_writer** writer) {
  return guarded([&]() -> Status {
    if (writer == nullptr) return invalid("writer is NULL");
    *writer = nullptr;
    auto handle = std::make_unique<goldentrace_writer>();
    auto opened = goldentrace::capi::Writer::open(path, options);
    if (!opened.ok()) return opened.status();
    handle->inner = std::move(*opened);
    *writer = handle.release();
    return {};
  });
}

goldentrace_status goldentrace_writer_step(goldentrace_writer* writer, uint32_t step) {
  return with_writer(writer, [&](auto& inner) { return inner.set_step(step); });
}

goldentrace_status goldentrace_writer_tensor(goldentrace_writer* writer,
                                             const goldentrace_tensor* tensor, uint64_t* id) {
  return with_writer(writer, [&](auto& inner) { return inner.tensor(tensor, id); });
}

goldentrace_status goldentrace_writer_parameter(goldentrace_writer* writer,
                                                const goldentrace_parameter* parameter,
                                                uint64_t* id) {
  return with_writer(writer, [&](auto& inner) { return inner.parameter(parameter, id); });
}

goldentrace_status goldentrace_writer_request(goldentrace_writer* writer,
                                              const goldentrace_request* request) {
  return with_writer(writer, [&](auto& inner) { return inner.request(request); });
}

goldentrace_status goldentrace_writer_result(goldentrace_writer* writer,
                                             const goldentrace_result* result) {
  return with_writer(writer, [&](auto& inner) { return inner.result(result); });
}

goldentrace_status goldentrace_writer_logits(goldentrace_writer* writer,
                                             const goldentrace_logits* logits) {
  return with_writer(writer, [&](auto& inner) { return inner.logits(logits); });
}

goldentrace_status goldentrace_writer_cut_short(goldentrace_writer* writer, const char* why) {
  return with_writer(writer, [&](auto& inner) { return inner.cut_short(why); });
}

goldentrace_status goldentrace_writer_flush(goldentrace_writer* writer) {
  return with_writer(writer, [&](auto& inner) { return inner.flush(); });
}

goldentrace_status goldentrace_writer_close(goldentrace_writer* writer) {
  return with_writer(writer, [&](auto& inner) { return inner.close(); });
}

void goldentrace_writer_destroy(goldentrace_writer* writer) { delete writer; }

}  // extern "C"
