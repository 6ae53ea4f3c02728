#include "recorder/scopes.h"

#include <atomic>
#include <vector>

namespace goldentrace::scopes {
namespace {

std::atomic<std::uint64_t> generation{0};

struct Stack {
  std::vector<std::uint32_t> scopes;
  std::uint64_t generation = 0;
};

// This thread's stack, without what an earlier recording left there.
std::vector<std::uint32_t>& own_stack() {
  thread_local Stack stack;
  const std::uint64_t now = generation.load(std::memory_order_relaxed);
  if (stack.generation != now) {
    stack.scopes.clear();
    stack.generation = now;
  }
  return stack.scopes;
}

}  // namespace

void enter(std::uint32_t scope) {
  std::vector<std::uint32_t>& stack = own_stack();
  if (scope == 0) stack.clear();
  stack.push_back(scope);
}

void exit(std::uint32_t scope) {
  std::vector<std::uint32_t>& stack = own_stack();
  for (std::size_t i = stack.size(); i-- > 0;) {
    if (stack[i] == scope) {
      stack.resize(i);
      return;
    }
  }
}

std::uint32_t current() {
  const std::vector<std::uint32_t>& stack = own_stack();
  return stack.empty() ? 0 : stack.back();
}

std::size_t depth() { return own_stack().size(); }

void forget_all() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace goldentrace::scopes
