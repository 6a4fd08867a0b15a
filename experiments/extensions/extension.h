// Layers, schedules and margins that a shared library adds to the program: `heddle --extension FILE.so COMMAND ..`. The
// library is built with the CMake target Heddle::extension and has one function:
//
//   extern "C" void heddle_extend(heddle::Extension& own) {
//     own.schedules.push_back({"mine", "my schedule", my_schedule});
//   }
#pragma once

#include <filesystem>
#include <vector>

#include "framework/scalars/margin.h"
#include "models/layer_list.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

/// The rows that a library adds to the program's tables.
struct Extension {
  std::vector<ExtensionLayer> layers;
  std::vector<ScheduleType> schedules;
  std::vector<ExtensionMargin> margins;
};

/// Opens a library, which stays open, and adds its rows. InputError if it cannot be opened, was built for another
/// version of Heddle, fails, or adds a name that there is already.
void load_extension(const std::filesystem::path& file);
/// The libraries that have been opened.
const std::vector<std::filesystem::path>& loaded_extensions();

}  // namespace heddle
