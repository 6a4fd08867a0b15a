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

/// All that a results folder's notebook has below its title; some only where a model was cut into stages.
std::vector<NotebookCell> results_cells(bool has_pipelines);

}  // namespace heddle
