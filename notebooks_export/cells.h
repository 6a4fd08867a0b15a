// The cells of the results' notebook: its text and its Python.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct NotebookCell {
  std::string id;  // unique within the notebook: letters, digits, - and _
  bool is_code = true;
  std::string source;
};

/// Which additional figures a study has.
struct StudyFigures {
  bool pipelines = false;   // a model was cut into stages
  bool head_sizes = false;  // heads of three or more numbers of classes
  bool sets = false;        // embeddings were evaluated on sets of pairs
  bool operator==(const StudyFigures&) const = default;
};

/// All cells of a results folder's notebook below its title.
std::vector<NotebookCell> results_cells(const StudyFigures& figures);

}  // namespace heddle
