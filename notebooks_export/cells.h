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

/// What a study has besides the figures of every run.
struct StudyFigures {
  bool pipelines = false;   // a model was cut into stages
  bool head_sizes = false;  // heads of three or more numbers of classes
  bool operator==(const StudyFigures&) const = default;
};

/// All that a results folder's notebook has below its title.
std::vector<NotebookCell> results_cells(const StudyFigures& figures);

}  // namespace heddle
