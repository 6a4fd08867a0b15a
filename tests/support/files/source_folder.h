// Where the sources lie: files that other programs wrote stand beside the tests that read them.
#pragma once

#include <filesystem>

namespace heddle::test {

/// The folder of the sources that this was built from, or what HEDDLE_SOURCE_DIR says on a machine that it was carried
/// to.
std::filesystem::path source_folder();

}  // namespace heddle::test
