#include "experiments/program/target_file.h"

#include <string>
#include <system_error>

#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace fs = std::filesystem;

void check_target(const fs::path& target, bool replace) {
  std::error_code unknown;
  const fs::file_status status = fs::symlink_status(target, unknown);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status)) fail<InputError>("{}: cannot be written: it is a folder", target.string());
  if (fs::exists(target, unknown) && !fs::is_regular_file(target, unknown))
    fail<InputError>("{}: cannot be written: it is not a regular file", target.string());
  if (!replace) fail<InputError>("{}: exists already; --force replaces it", target.string());
}

void check_writable(const fs::path& path) {
  if (!path.empty()) const AtomicFile file(path);  // which leaves nothing
}

void check_ending(const char* option, const fs::path& path, std::initializer_list<const char*> endings) {
  std::string expected;
  for (const char* const ending : endings) {
    if (path.empty() || path.extension() == ending) return;
    expected += (expected.empty() ? "" : " or ") + std::string(ending);
  }
  fail<InputError>("{} {}: expected a file that ends in {}", option, path.string(), expected);
}

void check_beside(const fs::path& target, const fs::path& beside) {
  std::error_code unknown;
  if (fs::exists(beside, unknown) && !fs::exists(target, unknown))
    fail<InputError>("{}: exists already, and would be written beside {}: remove it or choose another name",
                     beside.string(), target.filename().string());
}

}  // namespace heddle
