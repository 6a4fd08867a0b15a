// The time of day, for what is compared between processes or written into files.
#pragma once

#include <chrono>

namespace heddle {

/// Seconds since 1970.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace heddle
