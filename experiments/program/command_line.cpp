#include "experiments/program/command_line.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <streambuf>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "experiments/config/wording.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/job.h"
#include "experiments/program/reproduce/reproduce.h"
#include "framework/error.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/transports.h"

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

void add_schedule_command(CLI::App& app, ScheduleCommand& command, const Console& console) {
  CLI::App& schedule = *app.add_subcommand("schedule", "a pipeline schedule: its picture, its figures, or its CSV");
  schedule.add_option("NAME", command.name, "one of `heddle list schedules`");
  schedule
      .add_option("--file", command.file,
                  "read the schedule from a file that PyTorch's pipelining wrote, in place of a name")
      ->type_name("FILE.csv");
  schedule.add_flag("--search", command.search,
                    "in place of a name: find the best of all schedules and of those made for these costs; m, v and "
                    "warm-up are varied, and the costs are those of one of --micro-batches micro-batches");
  schedule.add_option("--memory", command.memory,
                      "with --search: how many micro-batches each rank may hold; one counts from its forward to the "
                      "end of its weight part");
  schedule.add_option("--most-micro-batches", command.most_micro_batches,
                      "with --search: also weigh multiples of m up to this number (default: only its divisors)");
  schedule.add_option("--stages", command.stages,
                      "p, the number of ranks; with --chunks v the model is cut into p * v stages");
  schedule.add_option("--micro-batches", command.micro_batches, "m");
  schedule.add_option(
      "--chunks", command.chunks,
      "v, the number of stages per rank (default: the fewest that the schedule takes); with --search: the most "
      "(default: 4)");
  schedule
      .add_option("--costs", command.costs,
                  "the times of one micro-batch on a rank, whose stages share them: forward, input part and weight "
                  "part of backward, and one transfer (default: 1,1,1,0)")
      ->type_name("F,I,W,c");
  const std::map<std::string, Recompute> modes{
      {"never", Recompute::never}, {"always", Recompute::always}, {"except_last", Recompute::except_last}};
  schedule
      .add_option_function<std::string>(
          "--recompute", [&command, modes](const std::string& mode) { command.recompute = modes.at(mode); },
          "run forward again before backward (R), for all micro-batches or all but the last (default: never)")
      ->check(CLI::IsMember({"never", "always", "except_last"}));
  schedule.add_flag("--csv", command.csv, "print the schedule as PyTorch reads it (without recomputation)");
  schedule.add_option("--svg", command.svg, "also draw it into this file")->type_name("FILE");
  schedule.add_flag("--json", command.json, "print the figures as JSON");
  schedule.callback([&] { schedule_command(command, console); });
}

/// The output of the processes other than rank 0's: nothing.
class Nowhere : public std::streambuf {
  int overflow(int character) override { return traits_type::not_eof(character); }
};

/// `cpu, cuda 13.0, nccl 2.28`: the devices that experiments can be computed on, and the library between GPUs. Without
/// CUDA the text gives the reason and how to build it in.
std::string devices_text() {
  std::string text = "cpu";
  for (const auto& [library, version] : cuda_versions())
    if (library == "cuda") text += ", cuda " + version;
  for (const TransportType& transport : transport_types())
    if (const std::string version = transport.version == nullptr ? "" : transport.version(); !version.empty())
      text += fmt::format(", {} {}", transport.name, version);
  if (const std::string absence = cuda_absence(); !absence.empty()) text += "; without cuda: " + absence;
  return text;
}

/// Commands that all processes of a job run together join `job`; each process prints on `all` which ranks it waits for.
/// All other commands are run by rank 0's process alone.
int dispatch(CLI::App& app, int argc, const char* const* argv, const Console& console, std::unique_ptr<Processes>& job,
             std::ostream& all) {
  app.require_subcommand(1);
  app.footer(
      "The launcher adds two: `heddle test` builds and runs the tests, `heddle setup` installs and builds.\n"
      "`mpirun -n 4 ./heddle run FILE` gives each of four ranks a process of its own (Open MPI, MPICH, srun).");
  app.set_version_flag("--version", fmt::format("heddle {} ({})", HEDDLE_VERSION, devices_text()));
  int code = 0;
  const auto on_wait = [&all](const std::string& what) { all << what << "\n" << std::flush; };
  const auto join = [&] {
    job = join_job(on_wait);
    if (!job) return;
    job->set_on_silent_leader([&all, rank = job->rank()](const std::string& why) {
      all << fmt::format("heddle: rank {}: {}\n", rank, why) << std::flush;
    });
  };
  RunCommand run;
  CLI::App& run_app = *app.add_subcommand("run", "train and evaluate every variant of an experiment");
  add_run_options(run_app, run);
  const auto is_folder_name = [](const std::string& path) {
    return std::string(path.empty() ? "expected a folder, got \"\"" : "");
  };
  run_app.add_option("--out", run.out, "results folder (default: results/NAME)")->check(is_folder_name);
  CLI::Option* resume =
      run_app.add_flag("--resume", run.resume, "go on from the newest checkpoint in the results folder, on any ranks");
  run_app
      .add_flag("--fresh-head", run.fresh_head,
                "with --resume: keep the backbone and begin a new head, also for other classes and data")
      ->needs(resume);
  run_app.callback([&] {
    join();
    code = run_command(run, console, job.get());
  });

  PlanCommand plan;
  CLI::App& plan_app = *app.add_subcommand("plan", "memory, traffic and FLOPs of an experiment, without computing");
  add_run_options(plan_app, plan);
  CLI::Option* const maximise =
      plan_app
          .add_option("--maximise", plan.maximise,
                      "find the largest value of this field, such as head.classes, with which every rank of each "
                      "variant stays within the budget")
          ->type_name("FIELD");
  plan_app.add_option("--budget", plan.budget, "the bytes of each rank: 32GB, 32GiB or 4096 (default: memory_budget)")
      ->type_name("BYTES")
      ->needs(maximise);
  plan_app.add_option("--out", plan.out, "also write a results folder: summary.json and the files of a run")
      ->check(is_folder_name);
  plan_app.callback([&] { code = plan_command(plan, console); });

  ExplainCommand explain;
  std::string placements = "written";
  CLI::App& explain_app =
      *app.add_subcommand("explain", "the model as a table: placements, and what moves between ranks in a step");
  explain_app.add_option("FILE", explain.file, "the experiment (JSON)")->required();
  add_set_option(explain_app, explain.sets);
  explain_app.add_flag("--json", explain.json, "print JSON instead of the table");
  explain_app
      .add_option("--placements", placements,
                  "written: as in the file; auto: the fastest within memory_budget, beside the plain choices")
      ->check(CLI::IsMember({"written", "auto"}));
  explain_app.callback([&] {
    explain.automatic = placements == "auto";
    explain_command(explain, console);
  });

  ScheduleCommand schedule;
  add_schedule_command(app, schedule, console);

  std::vector<std::filesystem::path> files;
  std::vector<std::string> sets;
  CLI::App& validate_app = *app.add_subcommand("validate", "check experiment files");
  validate_app.add_option("FILE", files, "experiments (JSON)")->required();
  add_set_option(validate_app, sets);
  validate_app.callback([&] { validate_command(files, sets, console); });

  CLI::App& schema_app = *app.add_subcommand("schema", "print the JSON Schema of an experiment, for editors");
  schema_app.callback([&] { schema_command(console); });

  std::string path;
  CLI::App& help_app = *app.add_subcommand("help", "explain a key of an experiment: help train.optimizer");
  help_app.add_option("KEY", path, "dotted path; without it all top-level keys");
  help_app.callback([&] { help_command(path, console); });

  std::string kind;
  CLI::App& list_app = *app.add_subcommand("list", "names that an experiment may use");
  list_app.add_option("KIND", kind, "models, data, optimizers, ...; without it all");
  list_app.callback([&] { list_command(kind, console); });

  BenchCommand bench;
  CLI::App& bench_app =
      *app.add_subcommand("bench", "measure operations, collectives and training steps against this machine");
  bench_app.add_option("NAME", bench.name, fmt::format("{}; without it all but gpu", fmt::join(bench_names(), " or ")));
  CLI::Option* const protocol =
      bench_app
          .add_option("--protocol", bench.protocol,
                      "with head: in place of its steps, the images/s of a recipe as PLSC measures them (plsc), scaled "
                      "down by --set where this machine is small")
          ->check(CLI::IsMember({"plsc"}));
  add_set_option(bench_app, bench.sets).description("override one key of the protocol's experiment")->needs(protocol);
  bench_app.add_option("--runs", bench.runs, "how often the protocol is run (default: 5)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}))
      ->needs(protocol);
  bench_app.add_option("--threads", bench.threads, "computing threads (default: one per core)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->excludes(protocol);
  bench_app.add_flag("--json", bench.json, "print the rows as JSON instead of the table");
  bench_app.callback([&] {
    if (bench.name == "collectives") join();
    bench_command(bench, console, job.get());
  });

  ReproduceCommand reproduce;
  CLI::App& reproduce_app = *app.add_subcommand(
      "reproduce", "run shipped experiments and check what comes out against what the documents claim");
  reproduce_app.add_option("NAME", reproduce.name,
                           "one experiment; without it and without --all or --quick they are listed");
  reproduce_app.add_flag("--all", reproduce.all, "run all of them, one after another");
  reproduce_app.add_flag("--quick", reproduce.quick, "run them cut short; all of them then take minutes");
  reproduce_app.add_option("--data", reproduce.data, "the ORL database of faces, for the experiments that need it")
      ->type_name("PATH/TO/orl_faces");
  reproduce_app.add_option("--out", reproduce.out, "where results go (default: results/reproduce)")->type_name("DIR");
  reproduce_app.add_option("--claims", reproduce.claims, "where the claims lie (default: experiments/claims)")
      ->type_name("DIR");
  reproduce_app.callback([&] {
    if (launch_of_environment())
      fail<InputError>("reproduce: runs one experiment after another in one process; call it without mpirun");
    code = reproduce_command(reproduce, console, [](const std::vector<std::string>& arguments, const Console& inner) {
      std::vector<const char*> words{"heddle"};
      for (const std::string& argument : arguments) words.push_back(argument.c_str());
      return run_command_line(static_cast<int>(words.size()), words.data(), inner);
    });
  });

  std::filesystem::path results;
  CLI::App& notebook_app = *app.add_subcommand("notebook", "make and execute a notebook of a results folder");
  notebook_app.add_option("RESULTS", results, "results folder")->required();
  notebook_app.callback([&] { notebook_command(results, console); });

  // CLI11 would say that a command is missing.
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end())
    fail<InputError>("no command {}: expected {}{}", in_quotes(argv[1]), one_of_words(names),
                     suggestion(argv[1], names));

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success, console.out, console.err);
  } catch (const CLI::ParseError& error) {
    app.exit(error, console.out, console.err);
    return 2;
  }
  return code;
}

/// `who` begins the message: `heddle: `. Every process prints on `all`; on the other streams only rank 0's does.
int report_errors(int argc, const char* const* argv, const Console& console, std::unique_ptr<Processes>& job,
                  std::ostream& all, const std::string& who) {
  const auto report = [&console, &who](const std::exception& error, int code) {
    console.err << who << error.what() << "\n" << std::flush;
    return code;
  };
  try {
    CLI::App app("Heddle: data-parallel training of face recognition with large class-sharded heads", "heddle");
    const int code = dispatch(app, argc, argv, console, job, all);
    if (!console.out.flush()) fail("standard output cannot be written: the disk is full, or it was closed");
    return code;
  } catch (const InputError& error) {
    return report(error, 2);
  } catch (const OutOfMemory& error) {
    return report(error, 3);
  } catch (const RankFailed& error) {
    return report(error, 4);
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

/// Whether the command is one that joins the job: a run, or the benchmark of collectives.
bool is_done_together(int argc, const char* const* argv) {
  const std::vector<std::string_view> words(argv + 1, argv + std::max(argc, 1));
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  return !words.empty() && (words[0] == "run" || (words[0] == "bench" && has("collectives")));
}

}  // namespace

int run_command_line(int argc, const char* const* argv, const Console& console) {
  std::optional<Launch> launch;
  try {
    launch = launch_of_environment();
  } catch (const InputError& error) {
    // This process cannot know its rank, so each one prints the error.
    console.err << "heddle: " << error.what() << "\n" << std::flush;
    return 2;
  }
  std::unique_ptr<Processes> job;
  int code = 0;
  if (!launch || launch->rank == 0) {
    code = report_errors(argc, argv, console, job, console.err, "heddle: ");
  } else if (is_done_together(argc, argv)) {
    // All processes of a job fail with the same errors; rank 0 prints them.
    Nowhere nowhere;
    std::ostream silent(&nowhere);
    std::ostringstream said;
    code =
        report_errors(argc, argv, {silent, said, {}}, job, console.err, fmt::format("heddle: rank {}: ", launch->rank));
    // Processes that connect by sockets are no job before they are connected.
    if (!job && has_rendezvous_address()) console.err << said.str() << std::flush;
  }
  if (!job) return code;
  // Wait until rank 0 has written everything: some launchers end all processes when the first one fails.
  job->leave(code);
  const std::optional<std::string> lost = job->lost(0);
  if (!lost) return code;
  console.err << fmt::format("heddle: rank {}: {}\n", job->rank(), *lost) << std::flush;
  return code != 0 ? code : 4;
}

}  // namespace heddle
