#include "experiments/program/command_table.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "experiments/config/wording.h"
#include "framework/error.h"

namespace heddle {

namespace {

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
    CommandRow{"data", "pack photographs into a .rec, show what data consist of, or check every image", add_data},
    CommandRow{"plan", "memory, traffic and FLOPs of an experiment, without computing", add_plan},
    CommandRow{"explain", "the model as a table: placements, and the communication between ranks in a step",
               add_explain},
    CommandRow{"schedule", "a pipeline schedule: its picture, its figures, or its CSV", add_schedule},
    CommandRow{"validate", "check experiment files; opens no data, and does not look for devices or an MPI",
               add_validate},
    CommandRow{"schema", "print the JSON Schema of an experiment, for editors", add_schema},
    CommandRow{"help", "explain a key of an experiment: help train.optimizer", add_help},
    CommandRow{"list", "names that an experiment may use", add_list},
    CommandRow{"bench",
               "measure operations, collectives, training steps and the reading of images against this machine",
               add_bench, true, "collectives"},
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
