// The reading half of goldentrace.h: every function is one guarded call of capi::Reader.
#include <cstring>

#include "src/capi/answer.h"
#include "src/capi/goldentrace.h"
#include "src/capi/reader.h"

using goldentrace::Status;
using goldentrace::capi::guarded;
using goldentrace::capi::invalid;

struct goldentrace_reader {
  std::unique_ptr<goldentrace::capi::Reader> inner;
};

namespace {

// `*out` becomes what `body` answers for the capi::Reader: a Result of a pointer.
template <typename Item, typename Body>
goldentrace_status give(goldentrace_reader* reader, const Item** out, Body body) noexcept {
  return guarded([&]() -> Status {
    if (out == nullptr) return invalid("there is no place for the answer: a pointer is NULL");
    *out = nullptr;
    if (reader == nullptr) return invalid("reader is NULL");
    const auto answer = body(*reader->inner);
    if (answer.ok()) *out = *answer;
    return answer.status();
  });
}

}  // namespace

extern "C" {

goldentrace_status goldentrace_reader_open(const char* path, goldentrace_reader** reader) {
  return guarded([&]() -> Status {
    if (reader == nullptr) return invalid("reader is NULL");
    *reader = nullptr;
    auto handle = std::make_unique<goldentrace_reader>();
    auto opened = goldentrace::capi::Reader::open(path);
    if (!opened.ok()) return opened.status();
    handle->inner = std::move(*opened);
    *reader = handle.release();
    return {};
  });
}

void goldentrace_reader_destroy(goldentrace_reader* reader) { delete reader; }

const goldentrace_info* goldentrace_reader_info(const goldentrace_reader* reader) {
  return reader == nullptr ? nullptr : &reader->inner->info();
}

int goldentrace_reader_whole(const goldentrace_reader* reader) {
  return reader != nullptr && reader->inner->info().whole != 0 ? 1 : 0;
}

goldentrace_status goldentrace_reader_counter(const goldentrace_reader* reader, size_t index,
                                              const goldentrace_counter** counter) {
  return guarded([&]() -> Status {
    if (reader == nullptr || counter == nullptr) return invalid("reader or counter is NULL");
    *counter = reader->inner->counter(index);
    return {};
  });
}

goldentrace_status goldentrace_reader_request(goldentrace_reader* reader, size_t index,
                                              const goldentrace_request** request) {
  return give(reader, request, [&](auto& inner) { return inner.request(index); });
}

int goldentrace_request_forced(const goldentrace_request* request) {
  for (size_t i = 0; request != nullptr && i < request->sampling_count; ++i) {
    const goldentrace_setting& setting = request->sampling[i];
    if (setting.name != nullptr && setting.value != nullptr &&
        std::strcmp(setting.name, "forced") == 0 && std::strcmp(setting.value, "true") == 0) {
      return 1;
    }
  }
  return 0;
}

goldentrace_status goldentrace_reader_result(goldentrace_reader* reader, size_t index,
                                             const goldentrace_result** result) {
  return give(reader, result, [&](auto& inner) { return inner.result(index); });
}

goldentrace_status goldentrace_reader_parameter(goldentrace_reader* reader, size_t index,
                                                const goldentrace_parameter_record** parameter) {
  return give(reader, parameter, [&](auto& inner) { return inner.parameter(index); });
}

goldentrace_status goldentrace_reader_next(goldentrace_reader* reader,
                                           const goldentrace_record** record) {
  return give(reader, record, [&](auto& inner) { return inner.next(); });
}

goldentrace_status goldentrace_reader_rewind(goldentrace_reader* reader) {
  return guarded([&]() -> Status {
    if (reader == nullptr) return invalid("reader is NULL");
    reader->inner->rewind();
    return {};
  });
}

goldentrace_status goldentrace_reader_find(goldentrace_reader* reader,
                                           const goldentrace_query* query,
                                           const goldentrace_record** record) {
  return give(reader, record, [&](auto& inner) { return inner.find(query); });
}

goldentrace_status goldentrace_reader_value(goldentrace_reader* reader,
                                            const goldentrace_hash128* hash, void* memory,
                                            uint64_t size) {
  return guarded([&]() -> Status {
    if (reader == nullptr || hash == nullptr) return invalid("reader or hash is NULL");
    if (memory == nullptr && size > 0) return invalid("memory is NULL");
    return reader->inner->value(*hash, memory, size);
  });
}

}  // extern "C"
