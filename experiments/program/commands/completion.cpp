#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/commands/reference/command_reference.h"

namespace heddle {

void add_completion(CLI::App& app, CommandCall& call) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.callback([&app, &call, shell] {
    const CommandReference program = reference_of(*app.get_parent(), "heddle");
    if (*shell == "bash") {
      call.console.out << bash_completion(program);
    } else {
      call.console.out << (*shell == "zsh" ? zsh_completion(program) : fish_completion(program));
    }
  });
}

}  // namespace heddle
