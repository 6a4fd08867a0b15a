#include "experiments/program/commands/reference/command_reference.h"

#include <CLI/CLI.hpp>

namespace heddle {

static OptionReference reference_of(const CLI::Option& option) {
  const bool is_operand = option.get_positional();
  OptionReference reference{.name = is_operand ? option.get_name(true) : option.get_name(false, true),
                            .help = option.get_description(),
                            .is_required = option.get_required(),
                            .is_repeated = option.get_items_expected_max() > 1};
  // The last of several names, as in -h,--help, is the long one.
  reference.name = reference.name.substr(reference.name.rfind(',') + 1);
  // The value that a flag stands for, as in --resume{always}.
  reference.name = reference.name.substr(0, reference.name.find('{'));
  if (!is_operand && option.get_type_size_max() > 0) reference.value = option.get_type_name();
  return reference;
}

CommandReference reference_of(const CLI::App& app, const std::string& path) {
  CommandReference command{.path = path, .help = app.get_description()};
  for (const CLI::Option* const option : app.get_options())
    (option->get_positional() ? command.operands : command.options).push_back(reference_of(*option));
  for (const CLI::App* const inner : app.get_subcommands([](const CLI::App*) { return true; }))
    command.commands.push_back(reference_of(*inner, path + " " + inner->get_name()));
  return command;
}

}  // namespace heddle
