// The module that the current thread is in, as a stack of scope ids. No Torch, no Python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace goldentrace {

// Thread-local. A scope whose exit was lost (an exception that skipped the hook, a generator that
// ran later) is dropped as soon as an enclosing scope exits, or when the root (id 0) is entered.
namespace scopes {

void enter(std::uint32_t scope);
// Pops up to and including the innermost entry of `scope`; does nothing when there is none.
void exit(std::uint32_t scope);
// 0, the scope outside every module, when the stack is empty.
std::uint32_t current();
// Entries on this thread's stack; 0 outside every module.
std::size_t depth();
// Empties the stacks of all threads: ids of one recording mean nothing in the next.
void forget_all();

}  // namespace scopes
}  // namespace goldentrace
