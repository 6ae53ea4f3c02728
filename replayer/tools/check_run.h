// The rules of what a trace holds beside its program: parameters, text, timings, values.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "replayer/tools/check_program.h"
#include "replayer/tools/findings.h"
#include "src/digest/digest.h"

namespace goldentrace {

class ParameterCheck {
 public:
  ParameterCheck(ProgramCheck& program, CheckFindings& findings)
      : program_(program), findings_(findings) {}
  void add(const std::vector<Parameter>& parameters);
  void finish();
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  void check(const Parameter& parameter);

  ProgramCheck& program_;
  CheckFindings& findings_;
  std::uint64_t count_ = 0;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<std::string, std::string>> tied_;  // parameter, the one it is tied to
  std::uint64_t last_call_ = 0;
  std::string last_name_;  // of the parameter that is put in place last
};

class TextCheck {
 public:
  explicit TextCheck(CheckFindings& findings) : findings_(findings) {}
  void add(const Text& text);
  // Rows of tensors name requests too.
  void add_rows(const std::vector<TensorRow>& rows);
  void finish();
  [[nodiscard]] std::uint64_t requests() const { return requests_.size(); }
  [[nodiscard]] std::uint64_t steps() const { return steps_.size(); }

 private:
  void check(const Step& step);
  void refer(std::uint32_t request, const std::string& where);

  CheckFindings& findings_;
  std::unordered_set<std::uint32_t> requests_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> steps_;  // with their request
  std::unordered_map<std::uint32_t, std::string> referred_;  // request -> where first
};

class ValueCheck {
 public:
  ValueCheck(const TraceReader& trace, CheckFindings& findings);
  // The values chunk at position `at` of the file.
  void add(std::size_t at, const Values& values);
  void finish();
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void check(const ValuePart& part, std::span<const std::byte> bytes, const std::string& where);

  const TraceReader& trace_;
  CheckFindings& findings_;
  std::vector<std::uint32_t> entries_;  // of the index, by chunk
  std::set<Hash128> split_;             // over several parts
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace goldentrace
