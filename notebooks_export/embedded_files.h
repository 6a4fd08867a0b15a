// The files that packaging/embed.cmake puts into the program: the cells of the results' notebook
// (notebooks_export/cells) and the styles and scripts of HTML pages (notebooks_export/pages).
#pragma once

#include <string_view>

namespace heddle {

/// The text of a file, named as in `cells/memory.py`. An internal error if there is no such file.
std::string_view embedded_file(std::string_view name);

}  // namespace heddle
