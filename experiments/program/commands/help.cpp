#include "experiments/config/help.h"

#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"

namespace heddle {

namespace {

bool is_command(const CLI::App& program, const std::string& name) {
  return !program.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; }).empty();
}

/// `help_text`, whose error of a command's name says where its help is.
std::string help_of(const std::string& path, const CLI::App& program) {
  Experiment experiment;
  try {
    return help_text([&](Describer& d) { describe(d, experiment); }, path);
  } catch (const InputError&) {
    if (!is_command(program, path)) throw;
    fail<InputError>("help {0}: no such option; see heddle {0} --help", path);
  }
}

/// Explains a dotted path of the experiment, or its root if there is no path.
void help_command(const std::string& path, const CLI::App& program, const Console& console) {
  constexpr const char* variants =
      "variants: a study in one file, a list of {\"name\": .., \"patch\": ..}: each patch is a JSON merge patch\n"
      "on the keys beside the list\n";
  // The only key that no member of a study has.
  if (path != "variants") console.out << help_of(path, program);
  if (path.empty()) console.out << '\n';
  if (path.empty() || path == "variants") console.out << variants;
}

}  // namespace

void add_help(CLI::App& app, CommandCall& call) {
  const auto path = std::make_shared<std::string>();
  app.add_option("KEY", *path, "dotted path; without it all top-level keys");
  app.callback([&app, &call, path] { help_command(*path, *app.get_parent(), call.console); });
}

}  // namespace heddle
