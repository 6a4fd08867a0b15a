// Exports a results folder: the timeline of a step, memory, loss and time, the speedup of pipelines and the growth of
// heads. Makes a Jupyter notebook with the code of its figures, which a reader can extend, and an HTML page without the
// code.
#pragma once

#include <filesystem>
#include <string>

#include "notebooks_export/cells.h"

namespace heddle {

/// The notebook (nbformat 4.5), not yet executed; it reads its data from its own folder.
std::string notebook_json(const std::string& title, const StudyFigures& figures);

struct NotebookFiles {
  std::filesystem::path notebook;
  std::filesystem::path html;
};

/// Writes notebook.ipynb into a results folder, executes it with Jupyter and renders notebook.html beside it, one file
/// that needs no other. Its figures are also in figures/, as SVG and PNG.
/// InputError if the folder has no summary.json or a file in it is damaged, or if Jupyter is missing: then it names the
/// packages. After an error an earlier notebook.ipynb and notebook.html are as they were; where there is none,
/// notebook.ipynb has been written but not executed.
NotebookFiles write_notebook(const std::filesystem::path& results);

}  // namespace heddle
