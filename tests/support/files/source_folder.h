// Where the sources lie: files that other programs wrote stand beside the tests that read them.
#pragma once

#include <filesystem>

namespace heddle::test {

/// The folder of the sources from which this was built, or HEDDLE_SOURCE_DIR on a machine to which it was copied.
std::filesystem::path source_folder();

}  // namespace heddle::test
