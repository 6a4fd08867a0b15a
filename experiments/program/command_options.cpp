#include "experiments/program/command_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "experiments/config/wording.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/command_line.h"
#include "experiments/program/reproduce/reproduce.h"
#include "framework/error.h"
#include "parallel/transports/job.h"

namespace heddle {

namespace {

CLI::Option& add_set_option(CLI::App& app, std::vector<std::string>& sets) {
  return *app.add_option("--set", sets, "override one key of the file, as in train.steps=5; may be given several times")
              ->type_name("KEY=JSON")
              ->allow_extra_args(false);
}

template <class Command>
void add_run_options(CLI::App& app, Command& command) {
  app.add_option("FILE", command.file, "the experiment (JSON)")->required();
  add_set_option(app, command.sets);
  app.add_flag("--json", command.json, "print the summary as JSON instead of the table");
}

std::string check_folder_name(const std::string& path) {
  return path.empty() ? "expected a folder, got \"\"" : "";
}

void add_run(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<RunCommand>();
  add_run_options(app, *command);
  app.add_option("--out", command->out, "results folder (default: results/NAME)")->check(check_folder_name);
  CLI::Option* const resume = app.add_flag(
      "--resume", command->resume, "resume from the newest checkpoint in the results folder, on any number of ranks");
  app.add_flag("--fresh-head", command->fresh_head,
               "with --resume: keep the backbone and begin a new head; classes and data may change")
      ->needs(resume);
  app.callback([&call, command] { call.code = run_command(*command, call.console, call.join()); });
}

void add_eval(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<EvalCommand>();
  app.add_option("CHECKPOINT", command->checkpoint, "a folder step-..., the folder of some, or a results folder")
      ->required();
  add_set_option(app, command->sets)
      .description("override one key of the checkpoint's experiment, as in evaluation.sets='[...]' or mesh.dp=2");
  app.add_flag("--json", command->json, "print the results as JSON instead of the table");
  app.add_option("--out", command->out, "also write evaluation.json and roc.csv into a folder")
      ->check(check_folder_name);
  app.callback([&call, command] { eval_command(*command, call.console, call.join()); });
}

void add_plan(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<PlanCommand>();
  add_run_options(app, *command);
  CLI::Option* const maximise =
      app.add_option("--maximise", command->maximise,
                     "find the largest value of this field, such as head.classes, with which every rank of each "
                     "variant stays within the budget")
          ->type_name("FIELD");
  app.add_option("--budget", command->budget, "the bytes of each rank: 32GB, 32GiB or 4096 (default: memory_budget)")
      ->type_name("BYTES")
      ->needs(maximise);
  app.add_option("--out", command->out, "also write a results folder: summary.json and the files of a run")
      ->check(check_folder_name);
  app.callback([&call, command] { call.code = plan_command(*command, call.console); });
}

void add_explain(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ExplainCommand>();
  app.add_option("FILE", command->file, "the experiment (JSON)")->required();
  add_set_option(app, command->sets);
  app.add_flag("--json", command->json, "print JSON instead of the table");
  app.add_option_function<std::string>(
         "--placements", [command](const std::string& which) { command->automatic = which == "auto"; },
         "written: as in the file; auto: the fastest within memory_budget, beside the plain choices")
      ->check(CLI::IsMember({"written", "auto"}));
  app.callback([&call, command] { explain_command(*command, call.console); });
}

void add_schedule(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ScheduleCommand>();
  app.add_option("NAME", command->name, "one of `heddle list schedules`");
  app.add_option("--file", command->file,
                 "instead of a name: read the schedule from a file that PyTorch's pipelining wrote")
      ->type_name("FILE.csv");
  app.add_flag(
      "--search", command->search,
      "instead of a name: find the best of all named schedules and of schedules made for these costs; m, v and "
      "warm-up are varied, and --costs are those of a micro-batch when there are --micro-batches of them");
  app.add_option(
      "--memory", command->memory,
      "with --search: the number of micro-batches that each rank may hold; one is held from its forward to the "
      "end of its weight part");
  app.add_option("--most-micro-batches", command->most_micro_batches,
                 "with --search: also try multiples of m up to this number (default: only its divisors)");
  app.add_option("--stages", command->stages,
                 "p, the number of ranks; with --chunks v the model is cut into p * v stages");
  app.add_option("--micro-batches", command->micro_batches, "m");
  app.add_option(
      "--chunks", command->chunks,
      "v, the number of stages per rank (default: the fewest that the schedule takes); with --search: the most "
      "(default: 4)");
  app.add_option("--costs", command->costs,
                 "the times of one micro-batch on a rank, whose stages share them: forward, input part and weight "
                 "part of backward, and one transfer (default: 1,1,1,0)")
      ->type_name("F,I,W,c");
  const std::map<std::string, Recompute> modes{
      {"never", Recompute::never}, {"always", Recompute::always}, {"except_last", Recompute::except_last}};
  app.add_option_function<std::string>(
         "--recompute", [command, modes](const std::string& mode) { command->recompute = modes.at(mode); },
         "run the forward again before the backward (R), for all micro-batches or all but the last (default: never)")
      ->check(CLI::IsMember({"never", "always", "except_last"}));
  app.add_flag("--csv", command->csv, "print the schedule in PyTorch's format (without recomputation)");
  app.add_option("--svg", command->svg, "also draw the schedule into this file")->type_name("FILE");
  app.add_flag("--json", command->json, "print the figures as JSON");
  app.callback([&call, command] { schedule_command(*command, call.console); });
}

void add_validate(CLI::App& app, CommandCall& call) {
  const auto files = std::make_shared<std::vector<std::filesystem::path>>();
  const auto sets = std::make_shared<std::vector<std::string>>();
  app.add_option("FILE", *files, "experiments (JSON)")->required();
  add_set_option(app, *sets);
  app.callback([&call, files, sets] { validate_command(*files, *sets, call.console); });
}

void add_schema(CLI::App& app, CommandCall& call) {
  app.callback([&call] { schema_command(call.console); });
}

void add_help(CLI::App& app, CommandCall& call) {
  const auto path = std::make_shared<std::string>();
  app.add_option("KEY", *path, "dotted path; without it all top-level keys");
  app.callback([&call, path] { help_command(*path, call.console); });
}

void add_list(CLI::App& app, CommandCall& call) {
  const auto kind = std::make_shared<std::string>();
  app.add_option("KIND", *kind, "models, data, optimizers, ...; without it all");
  app.callback([&call, kind] { list_command(*kind, call.console); });
}

void add_bench(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<BenchCommand>();
  app.add_option("NAME", command->name, fmt::format("{}; without it all but gpu", fmt::join(bench_names(), " or ")));
  CLI::Option* const protocol =
      app.add_option("--protocol", command->protocol,
                     "with head: instead of its steps, the images/s of a recipe as PLSC measures them (plsc), scaled "
                     "down by --set where this machine is small")
          ->check(CLI::IsMember({"plsc"}));
  add_set_option(app, command->sets).description("override one key of the protocol's experiment")->needs(protocol);
  app.add_option("--runs", command->runs, "the number of runs of the protocol (default: 5)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}))
      ->needs(protocol);
  app.add_option("--threads", command->threads, "computing threads (default: one per core)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->excludes(protocol);
  app.add_flag("--json", command->json, "print the rows as JSON instead of the table");
  app.callback([&call, command] {
    bench_command(*command, call.console, command->name == "collectives" ? call.join() : nullptr);
  });
}

void add_reproduce(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ReproduceCommand>();
  app.add_option("NAME", command->name, "one experiment; without it, --all and --quick, all experiments are listed");
  app.add_flag("--all", command->all, "run all of them, one after another");
  app.add_flag("--quick", command->quick, "run shortened experiments; all of them then take minutes");
  app.add_option("--data", command->data, "the ORL database of faces, for the experiments that need it")
      ->type_name("PATH/TO/orl_faces");
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

void add_notebook(CLI::App& app, CommandCall& call) {
  const auto results = std::make_shared<std::filesystem::path>();
  app.add_option("RESULTS", *results, "results folder")->required();
  app.callback([&call, results] { notebook_command(*results, call.console); });
}

/// A command: the function that adds its options and its callback, and whether the processes of a job run it together.
struct CommandRow {
  std::string_view name;
  std::string_view help;
  void (*add)(CLI::App&, CommandCall&);
  bool joins = false;           // the processes of a job run it together
  std::string_view joins_if{};  // only with this word
};

constexpr std::array commands{
    CommandRow{"run", "train and evaluate every variant of an experiment", add_run, true},
    CommandRow{"eval", "evaluate a checkpoint on sets of pairs, without its training data", add_eval, true},
    CommandRow{"plan", "memory, traffic and FLOPs of an experiment, without computing", add_plan},
    CommandRow{"explain", "the model as a table: placements, and the communication between ranks in a step",
               add_explain},
    CommandRow{"schedule", "a pipeline schedule: its picture, its figures, or its CSV", add_schedule},
    CommandRow{"validate", "check experiment files", add_validate},
    CommandRow{"schema", "print the JSON Schema of an experiment, for editors", add_schema},
    CommandRow{"help", "explain a key of an experiment: help train.optimizer", add_help},
    CommandRow{"list", "names that an experiment may use", add_list},
    CommandRow{"bench", "measure operations, collectives and training steps against this machine", add_bench, true,
               "collectives"},
    CommandRow{"reproduce", "run shipped experiments and compare their results with the claims of the documents",
               add_reproduce},
    CommandRow{"notebook", "make and execute a notebook of a results folder", add_notebook},
};

}  // namespace

void add_commands(CLI::App& app, CommandCall& call) {
  for (const CommandRow& row : commands)
    row.add(*app.add_subcommand(std::string(row.name), std::string(row.help)), call);
}

void check_command_name(std::string_view word) {
  std::vector<std::string> names;
  for (const CommandRow& row : commands) {
    if (row.name == word) return;
    names.emplace_back(row.name);
  }
  fail<InputError>("no command {}: expected {}{}", in_quotes(word), one_of_words(names), suggestion(word, names));
}

bool joins_job(std::span<const std::string_view> words) {
  return !words.empty() && std::any_of(commands.begin(), commands.end(), [&](const CommandRow& row) {
    const bool has_word = row.joins_if.empty() || std::find(words.begin(), words.end(), row.joins_if) != words.end();
    return row.joins && row.name == words[0] && has_word;
  });
}

}  // namespace heddle
