#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/commands/compare/comparison.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

struct CompareCommand {
  std::vector<std::filesystem::path> results;
  bool json = false;
  std::filesystem::path html;  // empty: none
};

void compare_command(const CompareCommand& command, const Console& console) {
  if (!command.html.empty() && command.html.extension() != ".html")
    fail<InputError>("--html {}: expected a file that ends in .html", command.html.string());
  Comparison comparison;
  for (const std::filesystem::path& folder : command.results)
    for (ComparedRun& run : read_runs(folder)) comparison.runs.push_back(std::move(run));
  comparison.differing = differences(comparison.runs);
  if (!command.html.empty()) write_file_atomically(command.html, comparison_page(comparison));
  console.out << (command.json ? comparison_json(comparison) : comparison_text(comparison)) << std::flush;
}

}  // namespace

void add_compare(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<CompareCommand>();
  app.add_option("RESULTS", command->results, "results folders; each variant of a run is compared")->required();
  app.add_flag("--json", command->json, "print the comparison as JSON instead of tables");
  app.add_option("--html", command->html, "also write a page with tables, curves of the loss and memory, FILE.html");
  app.callback([&call, command] { compare_command(*command, call.console); });
}

}  // namespace heddle
