#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>

#include "experiments/config/outline.h"
#include "experiments/config/wording.h"
#include "experiments/program/commands/command.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

/// A kind of name and the key of the experiment that takes one.
struct Kind {
  std::string_view name;
  std::string_view key;
};

constexpr std::array<Kind, 12> kinds{{{"models", "model"},
                                      {"layers", "model.layers"},
                                      {"data", "data"},
                                      {"logits", "head.logits"},
                                      {"margins", "head.margin"},
                                      {"gradients", "head.margin.gradient"},
                                      {"optimizers", "train.optimizer"},
                                      {"schedules", "pipeline.schedule"},
                                      {"learning_rates", "train.schedule"},
                                      {"dtypes", "train.dtype"},
                                      {"devices", "device"},
                                      {"transports", "transport"}}};

/// The field of the object itself, or of the first alternative that has it.
const Node* child_of(const Node& node, std::string_view name) {
  const Node* field = node.field(name, "");
  for (const Node::Alternative& alternative : node.alternatives)
    if (field == nullptr) field = node.field(name, alternative.type);
  return field;
}

/// For a list, the field of its elements.
const Node& node_at(const Node& root, std::string_view key) {
  const Node* node = &root;
  while (!key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    node = child_of(*node, key.substr(0, dot));
    if (node == nullptr) fail("list: no such key: {}", key);
    key.remove_prefix(std::min(dot + 1, key.size()));
  }
  return node->kind == Node::Kind::list ? node->element() : *node;
}

std::string_view help_of_schedule(std::string_view name) {
  for (const ScheduleType& type : schedule_types())
    if (type.name == name) return type.description;
  return "pipeline.file, as PyTorch's pipelining writes it";
}

void print_kind(const Kind& kind, const Node& root, std::ostream& out) {
  const Node& node = node_at(root, kind.key);
  out << fmt::format("{} ({})\n", kind.name, kind.key);
  for (const Node::Alternative& alternative : node.alternatives)
    out << fmt::format("  {:<22}{}\n", alternative.type, alternative.help);
  for (const std::string& name : node.names) {
    const std::string_view help = kind.name == "schedules" ? help_of_schedule(name) : "";
    out << (help.empty() ? fmt::format("  {}\n", name) : fmt::format("  {:<22}{}\n", name, help));
  }
}

/// Prints the names that an experiment may use: those of one kind, or all.
void list_command(const std::string& kind, const Console& console) {
  Experiment experiment;
  const Node root = outline([&](Describer& d) { describe(d, experiment); }, Scope::everything);
  std::vector<std::string> names;
  for (const Kind& row : kinds) {
    names.emplace_back(row.name);
    if (kind.empty() || kind == row.name) print_kind(row, root, console.out);
  }
  if (!kind.empty() && std::find(names.begin(), names.end(), kind) == names.end())
    fail<InputError>("list: expected {}, got {}{}", one_of_words(names), in_quotes(kind), suggestion(kind, names));
}

}  // namespace

void add_list(CLI::App& app, CommandCall& call) {
  const auto kind = std::make_shared<std::string>();
  app.add_option("KIND", *kind, "models, data, optimizers, ...; without it all");
  app.callback([&call, kind] { list_command(*kind, call.console); });
}

}  // namespace heddle
