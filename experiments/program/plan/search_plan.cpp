#include "experiments/program/plan/search_plan.h"

#include <algorithm>
#include <csignal>
#include <string_view>

#include <fmt/ranges.h>

#include "experiments/config/wording.h"
#include "experiments/config/writer.h"
#include "experiments/program/interruption_signals.h"
#include "experiments/program/plan/layout_report.h"
#include "experiments/program/target_file.h"
#include "experiments/results/progress.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

AllowedChanges allowed_changes_of(const std::vector<std::string>& words) {
  AllowedChanges allowed;
  std::vector<std::string> names;
  for (const std::string_view name : enum_names<AllowedChange>.rows()) names.emplace_back(name);
  for (const std::string& word : words) {
    const auto found = std::ranges::find(all_of<AllowedChange>, word, name_of<AllowedChange>);
    if (found == all_of<AllowedChange>.end())
      fail<InputError>("--allow: expected {}, got {}{}", one_of_words(names), in_quotes(word), suggestion(word, names));
    allowed.insert(*found);
  }
  return allowed;
}

/// Refuses, before the search, a file that could not be written after it.
void check_written_file(std::string_view option, const std::filesystem::path& file, bool replaces) {
  check_target(file, replaces);
  if (const std::filesystem::path folder = file.parent_path();
      !folder.empty() && !std::filesystem::is_directory(folder))
    fail<InputError>("{}: there is no folder {}", option, folder.string());
}

/// A search of what a search has written keeps the name.
std::string searched_name(const std::string& study) {
  constexpr std::string_view suffix = "_searched";
  return study.ends_with(suffix) ? study : study + std::string(suffix);
}

std::filesystem::path file_of(const LayoutSearchCommand& command, const std::string& study) {
  const std::filesystem::path file =
      command.out.empty() ? std::filesystem::path(searched_name(study) + ".json") : command.out;
  if (file.extension() != ".json")
    fail<InputError>("--out: with --search, expected a .json file, got {}", file.string());
  check_written_file("--out", file, command.replaces);
  return file;
}

void check_picture(const LayoutSearchCommand& command, const Study<Experiment>& study) {
  if (command.svg.empty()) return;
  if (study.variants.size() > 1)
    fail<InputError>("--svg: expected an experiment with one variant, {} has {}", study.name, study.variants.size());
  if (command.svg.extension() != ".svg") fail<InputError>("--svg: expected an .svg file, got {}", command.svg.string());
  check_written_file("--svg", command.svg, command.replaces);
}

/// The search of one variant, whose experiment becomes that of the fastest layout if one fits.
LayoutReport searched(StudyVariant& member, const LayoutSearchCommand& command, const AllowedChanges& allowed,
                      Progress& progress, const Interruption& interruption) {
  const DeviceType device = member.root.device;
  if (mesh_of(member.root).size(Axis::copies) > 1)
    fail<InputError>("{}: pipeline.schedule: expected one copy of each stage, got {}: --search does not try two copies",
                     member.name, member.root.pipeline.schedule);
  if (command.budget) {
    member.root.memory_budget = *command.budget;
    member.root.ranks.memory_budget.clear();
  }
  prepare_plan(member);
  LayoutReport report{.name = member.name,
                      .ranks = static_cast<int>(command.ranks.value_or(mesh_of(member.root).size())),
                      .budget = member.root.memory_budget};
  if (const std::vector<std::int64_t>& own = member.root.ranks.memory_budget; !own.empty()) {
    if (member.root.min_budget(report.ranks) > 0) report.rank_budgets = own;
    report.budget = 0;
  }
  LayoutSearchOptions options{.ranks = report.ranks, .allowed = allowed};
  options.on_progress = [&](const std::string& text) {
    progress.update([&] { return fmt::format("{}: {}", member.name, text); });
  };
  options.is_interrupted = [&] { return interruption.signal != 0; };
  const LayoutSpace space(member.root, report.ranks, allowed);
  report.result = search_layouts(member.root, space, open_datasets(member.root), options);
  progress.clear();
  if (report.result.best.empty()) {
    report.error = why_none_fits(report);
    return report;
  }
  member.root = space.experiment(report.result.best.front().layout);
  member.root.device = device;
  return report;
}

}  // namespace

int search_plan(Study<Experiment> study, const LayoutSearchCommand& command, const Console& console) {
  const AllowedChanges allowed = allowed_changes_of(command.allowed);
  const std::filesystem::path file = file_of(command, study.name);
  check_picture(command, study);
  Progress progress(console.err, console.terminal);
  InterruptionSignals signals({SIGINT, SIGTERM}, "the search ends with the best layout so far");
  Interruption& interruption = signals.interruption();
  interruption.is_heeded = true;
  std::vector<LayoutReport> reports;
  std::vector<NamedBody> bodies;
  std::vector<std::string> left_out;
  std::vector<std::string> errors;
  const std::string name = searched_name(study.name);
  for (StudyVariant& member : study.variants) {
    if (!reports.empty() && reports.back().result.is_interrupted) {
      left_out.push_back(member.name);
      continue;
    }
    reports.push_back(searched(member, command, allowed, progress, interruption));
    if (!reports.back().error.empty()) {
      errors.push_back(reports.back().error);
      continue;
    }
    member.root.name = name;
    bodies.push_back(
        {study.variants.size() == 1 ? name : member.name, [&root = member.root](Describer& d) { describe(d, root); }});
  }
  interruption.is_heeded = false;
  if (bodies.empty() && reports.back().result.is_interrupted) {
    console.err << fmt::format("heddle: interrupted before a layout that fits was found\n{}\n",
                               fmt::join(errors, "\n"));
    return 128 + interruption.signal;
  }
  if (bodies.empty())
    fail<OutOfMemory>("{}\nlarger budgets, more ranks, or --allow recompute,offload,micro_batches may help",
                      fmt::join(errors, "\n"));
  Experiment defaults;
  write_file_atomically(file, write_short_experiment(bodies, [&](Describer& d) { describe(d, defaults); }));
  if (command.json) {
    console.out << layouts_json(study.name, reports, file.string());
  } else {
    std::string text;
    for (const LayoutReport& report : reports)
      if (report.error.empty()) text += (text.empty() ? "" : "\n") + layout_text(report);
    console.out << text;
  }
  console.out << std::flush;
  if (!left_out.empty())
    console.err << fmt::format(
        "heddle: warning: interrupted before the search of \"{}\", which {} not in the experiment\n",
        fmt::join(left_out, "\", \""), left_out.size() == 1 ? "is" : "are");
  for (const std::string& error : errors)
    console.err << fmt::format("heddle: {}; this variant is not in the experiment\n", error);
  console.err << fmt::format("experiment: {}\n", file.string());
  if (!command.svg.empty()) {
    write_file_atomically(command.svg, layouts_svg(reports.front()));
    console.err << fmt::format("picture: {}\n", command.svg.string());
  }
  if (reports.back().result.is_interrupted) return 128 + interruption.signal;
  constexpr int out_of_memory = 3;
  return errors.empty() ? 0 : out_of_memory;
}

}  // namespace heddle
