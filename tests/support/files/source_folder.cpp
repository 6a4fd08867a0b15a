#include "tests/support/files/source_folder.h"

#include <cstdlib>

namespace heddle::test {

std::filesystem::path source_folder() {
  const char* const value = std::getenv("HEDDLE_SOURCE_DIR");
  return value != nullptr ? value : HEDDLE_SOURCE_DIR;
}

}  // namespace heddle::test
