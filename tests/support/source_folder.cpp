#include "tests/support/source_folder.h"

namespace heddle {

std::filesystem::path source_folder() {
  return HEDDLE_SOURCE_DIR;
}

}  // namespace heddle
