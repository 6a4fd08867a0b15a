#include "experiments/config/help.h"

#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/training/experiment.h"

namespace heddle {

namespace {

/// Explains a dotted path of the experiment, or its root if there is no path.
void help_command(const std::string& path, const Console& console) {
  constexpr const char* variants =
      "variants: a study in one file, a list of {\"name\": .., \"patch\": ..}: each patch is a JSON merge patch\n"
      "on the keys beside the list\n";
  Experiment experiment;
  // The only key that no member of a study has.
  if (path != "variants") console.out << help_text([&](Describer& d) { describe(d, experiment); }, path);
  if (path.empty()) console.out << '\n';
  if (path.empty() || path == "variants") console.out << variants;
}

}  // namespace

void add_help(CLI::App& app, CommandCall& call) {
  const auto path = std::make_shared<std::string>();
  app.add_option("KEY", *path, "dotted path; without it all top-level keys");
  app.callback([&call, path] { help_command(*path, call.console); });
}

}  // namespace heddle
