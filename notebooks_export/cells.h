// The cells of the results' notebook: what it says and the Python that draws it.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct NotebookCell {
  std::string id;  // unique within the notebook: letters, digits, - and _
  bool is_code = true;
  std::string source;
};

std::vector<NotebookCell> results_cells();

}  // namespace heddle
