#include "recorder/scopes.h"

#include <vector>

namespace goldentrace::scopes {
namespace {

thread_local std::vector<std::uint32_t> stack;

}  // namespace

void enter(std::uint32_t scope) {
  if (scope == 0) stack.clear();
  stack.push_back(scope);
}

void exit(std::uint32_t scope) {
  for (std::size_t i = stack.size(); i-- > 0;) {
    if (stack[i] == scope) {
      stack.resize(i);
      return;
    }
  }
}

std::uint32_t current() { return stack.empty() ? 0 : stack.back(); }

}  // namespace goldentrace::scopes
