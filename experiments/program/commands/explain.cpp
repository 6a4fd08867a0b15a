#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/explain/explanation.h"
#include "experiments/program/study_input.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct ExplainCommand {
  std::filesystem::path file;
  std::vector<std::string> sets;
  bool json = false;
  bool automatic = false;  // the planner's own choice in place of the file's placements
};

void explain_command(const ExplainCommand& command, const Console& console) {
  const Study<Experiment> study = read_checked_study(command.file, command.sets, console);
  std::vector<Explanation> explanations;
  for (const StudyVariant& member : study.variants) {
    try {
      explanations.push_back(explain(member.root, member.name, command.automatic));
    } catch (const InputError& error) {
      fail<InputError>("{}: {}", member.name, error.what());
    }
  }
  if (command.json) {
    console.out << explanations_json(study.name, explanations) << std::flush;
    return;
  }
  for (std::size_t i = 0; i < explanations.size(); ++i)
    console.out << (i > 0 ? "\n" : "") << explanation_text(explanations[i]) << std::flush;
}

}  // namespace

void add_explain(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ExplainCommand>();
  add_experiment_option(app, command->file);
  add_set_option(app, command->sets);
  app.add_flag("--json", command->json, "print JSON instead of the table");
  add_placements_option(app, command->automatic);
  app.callback([&call, command] { explain_command(*command, call.console); });
}

}  // namespace heddle
