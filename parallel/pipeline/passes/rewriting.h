// What the passes over a schedule's lists share.
#pragma once

#include <vector>

#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// Calls `insert(first, end, result)` for each group of actions that begin together, which appends the group and what
/// the pass adds around it.
template <class Insert>
std::vector<Action> rewritten(const std::vector<Action>& list, const Insert& insert) {
  std::vector<Action> result;
  result.reserve(2 * list.size());
  for (int first = 0; first < static_cast<int>(list.size());) {
    const int end = end_of_overlap(list, first);
    insert(first, end, result);
    first = end;
  }
  return result;
}

inline void append(std::vector<Action>& result, const std::vector<Action>& list, int first, int end) {
  result.insert(result.end(), list.begin() + first, list.begin() + end);
}

}  // namespace heddle
