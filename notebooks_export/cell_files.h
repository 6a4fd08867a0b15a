// The files of notebooks_export/cells, one per cell of the results' notebook, as embed.cmake puts them into the
// program.
#pragma once

#include <span>
#include <string_view>

namespace heddle {

struct CellFile {
  std::string_view name;  // "memory.py"
  std::string_view text;
};

/// In the order of their names.
std::span<const CellFile> cell_files();

}  // namespace heddle
