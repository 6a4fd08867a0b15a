#include "notebooks_export/notebook.h"

#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/schedule/results_pictures.h"

namespace heddle {

namespace {

void print_notebook(const std::filesystem::path& results, const Console& console) {
  draw_schedules_of(results);
  const NotebookFiles files = write_notebook(results);
  console.out << fmt::format("{}\n{}\n", files.notebook.string(), files.html.string());
}

}  // namespace

void add_notebook(CLI::App& app, CommandCall& call) {
  const auto results = std::make_shared<std::filesystem::path>();
  app.add_option("RESULTS", *results, "results folder")->required();
  app.callback([&call, results] { print_notebook(*results, call.console); });
}

}  // namespace heddle
