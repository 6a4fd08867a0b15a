// What the commands of the program have in common. Each one has a file of its own here: its options, and what it does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "experiments/program/console.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle {

class Job;

/// One call of the program. Wrong input is an InputError.
struct CommandCall {
  const Console& console;
  /// The standard error of every process of a job; the console's is that of rank 0 only.
  std::ostream& all;
  /// Joins the job that the environment describes, and returns it; null if there is none.
  std::function<Job*()> join;
  /// If that job can restart: a checksum of what its processes run. Set before it is joined.
  std::optional<std::uint64_t> elastic_checksum{};
  int code = 0;  // the exit code, set by the command
};

/// Each of these adds the options of a command and a callback, which runs it.
void add_run(CLI::App& app, CommandCall& call);
void add_eval(CLI::App& app, CommandCall& call);
void add_export(CLI::App& app, CommandCall& call);
void add_import(CLI::App& app, CommandCall& call);
void add_embed(CLI::App& app, CommandCall& call);
void add_search(CLI::App& app, CommandCall& call);
void add_data(CLI::App& app, CommandCall& call);
void add_plan(CLI::App& app, CommandCall& call);
void add_explain(CLI::App& app, CommandCall& call);
void add_schedule(CLI::App& app, CommandCall& call);
void add_validate(CLI::App& app, CommandCall& call);
void add_schema(CLI::App& app, CommandCall& call);
void add_help(CLI::App& app, CommandCall& call);
void add_list(CLI::App& app, CommandCall& call);
void add_bench(CLI::App& app, CommandCall& call);
void add_reproduce(CLI::App& app, CommandCall& call);
void add_notebook(CLI::App& app, CommandCall& call);
void add_compare(CLI::App& app, CommandCall& call);
void add_completion(CLI::App& app, CommandCall& call);
void add_man(CLI::App& app, CommandCall& call);

/// `--set KEY=JSON`, as often as it is given.
CLI::Option& add_set_option(CLI::App& app, std::vector<std::string>& sets);
/// `CHECKPOINT`, as find_checkpoint takes it.
CLI::Option& add_checkpoint_option(CLI::App& app, std::filesystem::path& checkpoint);
/// `--raw-weights`
CLI::Option& add_raw_weights_option(CLI::App& app, bool& raw);
/// `FILE`, an experiment.
CLI::Option& add_experiment_option(CLI::App& app, std::filesystem::path& file);
/// `--placements written|auto`
CLI::Option& add_placements_option(CLI::App& app, bool& automatic);
/// A check that refuses an empty argument, such as a variable of the shell that is not set.
std::function<std::string(const std::string&)> not_empty(std::string expected);
/// A check that refuses what is there already and is not a folder.
std::string not_a_file(const std::string& text);
/// Lets an option take integers from `min` to `max` only, and says so in the help. Returns the option.
CLI::Option* take_integers(CLI::Option* option, std::int64_t min, std::int64_t max);
/// `--out DIR`; `expected` says what it names, for the error of an empty name.
CLI::Option& add_out_option(CLI::App& app, std::filesystem::path& out, const std::string& help,
                            const std::string& expected = "a folder");

}  // namespace heddle
