// Where the sources lie: files that other programs wrote stand beside the tests that read them.
#pragma once

#include <filesystem>

namespace heddle {

std::filesystem::path source_folder();

}  // namespace heddle
