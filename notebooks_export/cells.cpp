#include "notebooks_export/cells.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "notebooks_export/embedded_files.h"

namespace heddle {

namespace {

/// The cell of `memory.py` is code and has the id `memory`; that of `memory_text.md` is text.
NotebookCell cell_of(std::string_view name) {
  NotebookCell cell{.id = std::string(name.substr(0, name.find('.'))),
                    .is_code = name.ends_with(".py"),
                    .source = std::string(embedded_file("cells/" + std::string(name)))};
  std::replace(cell.id.begin(), cell.id.end(), '_', '-');
  // Jupyter shows a line break at the end of a text as an empty line.
  if (!cell.is_code && cell.source.ends_with('\n')) cell.source.pop_back();
  return cell;
}

}  // namespace

std::vector<NotebookCell> results_cells(const StudyFigures& figures) {
  std::vector<NotebookCell> cells;
  const auto append = [&cells](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) cells.push_back(cell_of(name));
  };
  append({"read.py", "overview.py", "errors.py"});
  if (figures.head_sizes) append({"heads_text.md", "heads_read.py", "heads.py", "heads_pay.py"});
  append({"timeline_text.md", "timeline.py"});
  if (figures.pipelines) append({"gain_text.md", "gain.py", "prediction_text.md", "prediction.py"});
  if (figures.pipelines) append({"schedules_text.md", "schedules.py"});
  append({"memory_text.md", "memory.py", "loss_text.md", "loss.py"});
  if (figures.sets) append({"sets_text.md", "sets.py", "sets_over_time.py"});
  append({"time_text.md", "time.py"});
  return cells;
}

}  // namespace heddle
