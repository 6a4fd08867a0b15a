#include "experiments/program/reproduce/reproduce.h"

#include <CLI/CLI.hpp>

#include "experiments/program/command_line.h"
#include "experiments/program/commands/command.h"
#include "framework/error.h"
#include "parallel/transports/join_job.h"

namespace heddle {

void add_reproduce(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ReproduceCommand>();
  app.add_option("NAME", command->name, "one experiment; without a name, --all or --quick, all experiments are listed");
  app.add_flag("--all", command->all, "run all of them, one after another");
  app.add_flag("--quick", command->quick,
               "run shortened experiments; with --all they take less than ten minutes on two cores");
  app.add_option("--data", command->data,
                 "the folder that holds orl_faces, lfw and lfw_protocol, for experiments on them")
      ->type_name("DIR");
  app.add_option("--out", command->out, "results folder (default: results/reproduce)")->type_name("DIR");
  app.add_option("--claims", command->claims, "the folder of the claims (default: experiments/claims)")
      ->type_name("DIR");
  app.callback([&call, command] {
    if (launch_of_environment())
      fail<InputError>("reproduce: it runs one experiment after another in one process: call it without mpirun");
    const auto run = [](const std::vector<std::string>& arguments, const Console& inner) {
      std::vector<const char*> words{"heddle"};
      for (const std::string& argument : arguments) words.push_back(argument.c_str());
      return run_command_line(static_cast<int>(words.size()), words.data(), inner);
    };
    call.code = reproduce_command(*command, call.console, run);
  });
}

}  // namespace heddle
