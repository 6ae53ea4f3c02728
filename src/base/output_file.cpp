#include "src/base/output_file.h"

#include <filesystem>
#include <utility>

namespace goldentrace {
namespace fs = std::filesystem;

Result<OutputFile> OutputFile::create(const std::string& path, const std::string& input) {
  std::error_code error;
  if (fs::equivalent(path, input, error)) {
    return Status(Code::kInvalidArgument, path + ": is the trace that is read: name another file");
  }
  const bool in_place = fs::exists(path, error) && !fs::is_regular_file(path, error);
  std::string partial = in_place ? "" : path + ".partial";
  auto sink = create_file(in_place ? path : partial);
  if (!sink.ok()) return sink.status();
  return OutputFile(path, std::move(partial), std::move(*sink));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, "")),
      sink_(std::move(other.sink_)) {}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (!partial_.empty()) fs::remove(partial_, ignored);
}

Status OutputFile::commit() {
  if (sink_ != nullptr) GOLDENTRACE_RETURN_IF_ERROR(sink_->close());
  if (partial_.empty()) return {};
  std::error_code error;
  fs::rename(partial_, path_, error);
  if (error) return {Code::kIo, path_ + ": can't create: " + error.message()};
  partial_.clear();
  return {};
}

}  // namespace goldentrace
