#include "experiments/results/host.h"

#include <fstream>

#include <sys/utsname.h>
#include <unistd.h>

#include "parallel/communicator/core_binding.h"

namespace heddle {

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Host this_host() {
  utsname names{};
  ::uname(&names);
  return {.system = std::string(names.sysname) + " " + names.release + " " + names.machine,
          .processor = processor_name(),
          .cores = usable_cores(),
          .memory_bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE)};
}

std::vector<std::pair<std::string, std::string>> build_versions() {
  return {{"heddle", HEDDLE_VERSION}, {"compiler", "g++ " __VERSION__}};
}

}  // namespace heddle
