// A request from outside, such as a signal, to end a run after the step that is under way.
#pragma once

#include <atomic>

namespace heddle {

/// Written by a signal handler or another thread. The ranks compare it after each step's gradients, and all end after
/// the same step if one of them is asked to.
struct Interruption {
  /// The number of the signal that asks; 0: none.
  std::atomic<int> signal = 0;
  /// Whether a run responds. It does between the beginning of its first step and the checkpoint after its last one, and
  /// an elastic job while it restarts.
  std::atomic<bool> is_heeded = false;
};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

}  // namespace heddle
