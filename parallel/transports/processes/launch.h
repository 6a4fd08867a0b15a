// The place of a process in the job that started it.
#pragma once

#include <optional>

namespace heddle {

struct Launch {
  int rank = 0;
  int size = 1;
  /// The process's number among those of its machine, where the launcher says so.
  std::optional<int> local_rank{};
};

}  // namespace heddle
