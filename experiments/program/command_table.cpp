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

struct CommandRow {
  std::string_view name;
  std::string_view help;
  void (*add)(CLI::App&, CommandCall&);  // adds its options and its callback
  bool joins = false;                    // whether the processes of a job run it together
  std::string_view joins_if{};           // if not empty: only with this argument, which is not the value of an option
};

constexpr std::array commands{
    CommandRow{"run", "train and evaluate every variant of an experiment", add_run, true},
    CommandRow{"eval", "evaluate a checkpoint on verification and identification sets, without its training data",
               add_eval, true},
    CommandRow{"export", "export a checkpoint's model as ONNX or as a state dict for PyTorch", add_export},
    CommandRow{"import", "convert a state dict written by torch.save into a safetensors file for model.weights",
               add_import},
    CommandRow{"embed", "compute embeddings of images with a checkpoint's model, and write them to a file", add_embed,
               true},
    CommandRow{"search", "find the nearest people of a gallery for images, with a checkpoint's model", add_search,
               true},
    CommandRow{"data", "pack photographs into a .rec, summarise images, or check every image", add_data},
    CommandRow{"plan", "count memory, traffic and FLOPs of an experiment and model its time, without computing",
               add_plan},
    CommandRow{"explain", "print the model as a table: placements, and the communication between ranks in a step",
               add_explain},
    CommandRow{"schedule",
               "print a pipeline schedule: its picture, its figures, or its CSV; or search for the best one",
               add_schedule},
    CommandRow{"validate", "check experiment files, without opening data or looking for devices or MPI", add_validate},
    CommandRow{"schema", "print the JSON Schema of an experiment, for editors", add_schema},
    CommandRow{"help", "explain a key of an experiment: help train.optimizer", add_help},
    CommandRow{"list", "list the names that an experiment may use", add_list},
    CommandRow{"bench",
               "measure operations, collectives, training steps and the reading of images beside this machine's limits",
               add_bench, true, "collectives"},
    CommandRow{"reproduce", "run shipped experiments and compare their results with the claims of the documents",
               add_reproduce},
    CommandRow{"compare", "compare several results folders in one table, and show how their experiments differ",
               add_compare},
    CommandRow{"notebook", "make and execute a notebook of a results folder", add_notebook},
    CommandRow{"completion", "print a script that completes commands and options in a shell", add_completion},
    CommandRow{"man", "print the manual page, for `man`", add_man},
};

}  // namespace

void add_commands(CLI::App& app, CommandCall& call) {
  for (const CommandRow& row : commands)
    row.add(*app.add_subcommand(std::string(row.name), std::string(row.help)), call);
}

void check_command_names(const CLI::App& app, std::span<const std::string_view> words) {
  const CLI::App* parent = &app;
  for (std::size_t i = 0; parent->get_require_subcommand_min() > 0; ++i) {
    if (i < words.size() && words[i].starts_with('-')) return;
    std::vector<std::string> names;
    for (const CLI::App* command : parent->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
    if (i == words.size()) {
      if (i == 0) fail<InputError>("expected a command: see heddle --help");
      fail<InputError>("expected {} after {}", one_of_words(names), in_quotes(words[i - 1]));
    }
    const std::string word(words[i]);
    if (std::find(names.begin(), names.end(), word) == names.end())
      fail<InputError>("no command {}: expected {}{}",
                       in_quotes(i == 0 ? word : fmt::format("{} {}", words[i - 1], word)), one_of_words(names),
                       suggestion(word, names));
    parent = parent->get_subcommand(word);
  }
}

bool joins_job(std::span<const std::string_view> words) {
  // An option is followed by its value, unless it contains it or has none.
  const auto takes_next = [](std::string_view word) {
    return word.starts_with("--") && word != "--json" && word.find('=') == std::string_view::npos;
  };
  return !words.empty() && std::any_of(commands.begin(), commands.end(), [&](const CommandRow& row) {
    if (!row.joins || row.name != words[0]) return false;
    if (row.joins_if.empty()) return true;
    for (std::size_t i = 1; i < words.size(); ++i)
      if (words[i] == row.joins_if && !takes_next(words[i - 1])) return true;
    return false;
  });
}

}  // namespace heddle
