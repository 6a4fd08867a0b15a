#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/commands/reference/command_reference.h"

namespace heddle {

void add_man(CLI::App& app, CommandCall& call) {
  app.callback(
      [&app, &call] { call.console.out << manual_page(reference_of(*app.get_parent(), "heddle"), HEDDLE_VERSION); });
}

}  // namespace heddle
