// The machine and the software of a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

struct Host {
  std::string system;     // kernel, release and architecture
  std::string processor;  // its model name; `unknown` if the system does not state it
  int cores = 0;          // that this process may use
  std::int64_t memory_bytes = 0;
};

Host this_host();
/// Heddle's version and the compiler's.
std::vector<std::pair<std::string, std::string>> build_versions();

}  // namespace heddle
