// Forces what Highway would choose by itself.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

namespace goldentrace::testing {

// What Highway takes while this lives.
class InstructionSet {
 public:
  explicit InstructionSet(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
  ~InstructionSet() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;
};

}  // namespace goldentrace::testing
