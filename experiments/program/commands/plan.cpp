#include <algorithm>
#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/program/plan/maximise.h"
#include "experiments/program/plan/search_plan.h"
#include "experiments/program/run_results.h"
#include "experiments/program/study_input.h"
#include "experiments/results/grid.h"
#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "experiments/results/units.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/run.h"
#include "framework/backends/gpu.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/kernels/needs.h"
#include "framework/tensors/memory.h"
#include "parallel/communicator/transport.h"

namespace heddle {

namespace {

struct PlanCommand {
  std::filesystem::path file;
  std::vector<std::string> sets;
  bool json = false;
  std::string maximise;  // a dotted path; empty: nothing is searched
  std::string budget;    // of each rank in a search; empty: each variant's memory_budget
  bool search = false;   // the fastest layout is searched for
  LayoutSearchCommand layouts{};
  std::filesystem::path out;  // results folder, or the experiment that a search for layouts writes; empty: none
};

std::int64_t budget_of_option(const std::string& text) {
  try {
    return budget_bytes(text);
  } catch (const InputError& error) {
    fail<InputError>("--budget: {}", error.what());
  }
}

/// The budget of a search: the variant's own, if it has one.
std::int64_t budget_of(const PlanCommand& command, const StudyVariant& member) {
  if (command.budget.empty()) {
    if (!member.root.ranks.memory_budget.empty())
      fail<InputError>("--maximise: expected --budget: {} has ranks.memory_budget, one for each rank", member.name);
    if (member.root.memory_budget == 0)
      fail<InputError>("--maximise: expected --budget, or a memory_budget in the experiment; {} has none", member.name);
    return member.root.memory_budget;
  }
  return budget_of_option(command.budget);
}

/// The lists with an entry for each rank must fit both the mesh of the file and the ranks that a search is asked for;
/// without this, each mesh of the search would be refused for the same reason.
void check_lists_of_ranks(const PlanCommand& command, const StudyVariant& member) {
  if (!command.layouts.ranks) return;
  const Experiment& experiment = member.root;
  const auto asked = static_cast<std::size_t>(*command.layouts.ranks);
  const auto written = static_cast<std::size_t>(mesh_of(experiment).size());
  const auto check = [&](std::string_view key, std::size_t entries) {
    if (entries > asked)
      fail<InputError>(
          "--ranks {}: {}: {} has {} entries, one for each rank: expected at most {}, or --ranks {} or more", asked,
          member.name, key, entries, asked, entries);
    if (entries > written)
      fail<InputError>(
          "--ranks {}: {}: {} has {} entries, one for each rank, and the mesh of the file only {}: expected a mesh of "
          "at least {} ranks, because the file must be valid by itself",
          asked, member.name, key, entries, counted(static_cast<std::int64_t>(written), "rank", "ranks"), entries);
  };
  check("ranks.speed", experiment.ranks.speed.size());
  if (command.budget.empty()) check("ranks.memory_budget", experiment.ranks.memory_budget.size());
}

IntegerField searched_field(const PlanCommand& command, const StudyVariant& member) {
  try {
    Experiment experiment = member.root;
    return integer_field([&experiment](Describer& d) { describe(d, experiment); }, command.maximise);
  } catch (const InputError& error) {
    fail<InputError>("--maximise: {}", error.what());
  }
}

/// The variant with this value of the field. A data set whose number of people is part of its configuration loses
/// those for which the head would have no class; none of their images is used.
StudyVariant variant_with(const PlanCommand& command, const StudyVariant& member, std::int64_t budget,
                          std::int64_t value) {
  std::vector<std::string> sets{fmt::format("{}={}", command.maximise, value), fmt::format("memory_budget={}", budget),
                                "ranks.memory_budget=[]"};
  for (std::size_t set = 0; set < member.root.heads(); ++set)
    if (const std::optional<std::int64_t> people = known_classes(member.root.data_of(set));
        people && command.maximise == key_of(member.root, "head", set) + ".classes")
      sets.emplace_back(fmt::format("{}.identities={}", key_of(member.root, "data", set), std::min(value, *people)));
  StudyVariant varied = with_settings<Experiment>(member, sets);
  prepare_plan(varied);
  return varied;
}

/// The variant's plan with the largest value that fits.
VariantResult maximised_plan(const PlanCommand& command, const StudyVariant& member, const RunSettings& settings) {
  const std::int64_t budget = budget_of(command, member);
  RunSettings bytes_only = settings;
  bytes_only.asks_bytes_only = true;
  // A data set that must be opened to count its people may take longer than all plans together.
  bool are_known = true;
  for (std::size_t set = 0; set < member.root.heads(); ++set)
    are_known = are_known && known_classes(member.root.data_of(set));
  if (!are_known && !command.maximise.starts_with("data.")) bytes_only.dataset = open_datasets(member.root);
  const auto plan_of = [&](std::int64_t value, const RunSettings& how) {
    return run_variant(variant_with(command, member, budget, value).root, member.name, how);
  };
  Largest found = max_within(
      budget, searched_field(command, member),
      [&](std::int64_t value) { (void)variant_with(command, member, budget, value); },
      [&](std::int64_t value) { return plan_of(value, bytes_only); });
  if (!found.memory_varies)
    fail<InputError>(
        "--maximise: {} needs the same memory with every value, {} B: name a field that memory depends on, such as "
        "train.batch or head.classes",
        command.maximise, fullest_rank(found.plan).peak.total());
  Maximised maximised{.field = command.maximise, .budget = budget};
  if (found.fits) {
    found.plan = plan_of(found.value, settings);
    maximised.value = found.value;
    maximised.why = std::move(found.why);
  } else {
    found.plan.status = VariantResult::Status::out_of_memory;
    found.plan.error = fmt::format("no value of {} fits into {} B: {}", command.maximise, budget, found.why);
  }
  found.plan.maximised = std::move(maximised);
  return std::move(found.plan);
}

std::string flops_table(const RunResult& run) {
  Column flops;
  for (const VariantResult& variant : run.variants) flops.add(variant.flops_per_step.value_or(0));
  const Unit unit = unit_of_flops(flops.values());
  Grid grid({"variant", heading("rank 0", unit)});
  for (std::size_t i = 0; i < run.variants.size(); ++i) grid.add({run.variants[i].name, flops.cell(i, unit)});
  return grid.to_text();
}

/// InputError if the folder holds what a run has measured or saved.
void check_has_no_run(const std::filesystem::path& results) {
  if (std::filesystem::exists(results / "metrics.jsonl") || !checkpoints_of_results(results).empty())
    fail<InputError>("{}: holds the results of a run, which the plan's would replace: choose another folder with --out",
                     results.string());
}

/// A search prints the plan of each variant with the largest value of a field that fits. Returns 3 if no value fits for
/// one of them.
int plan_command(const PlanCommand& command, const Console& console) {
  if (!command.budget.empty() && command.maximise.empty() && !command.search)
    fail<InputError>("plan: --budget is for --maximise and --search");
  Study<Experiment> study = read_study<Experiment>(command.file, command.sets);
  warn_of_unread_pixels(study);
  print_warnings(study, console);
  if (command.search) {
    LayoutSearchCommand layouts = command.layouts;
    layouts.json = command.json;
    layouts.out = command.out;
    if (!command.budget.empty()) layouts.budget = budget_of_option(command.budget);
    for (const StudyVariant& member : study.variants) check_lists_of_ranks(command, member);
    return search_plan(std::move(study), layouts, console);
  }
  std::vector<DeviceType> devices;
  for (StudyVariant& member : study.variants) {
    devices.push_back(member.root.device);
    prepare_plan(member);
  }
  std::optional<ResultsFolder> folder;
  if (!command.out.empty()) {
    check_has_no_run(command.out);
    Study<Experiment> written = study;  // a plan of the written experiment is the same plan
    for (std::size_t i = 0; i < devices.size(); ++i) written.variants[i].root.device = devices[i];
    folder.emplace(command.out, effective_json(written), false);
  }
  const auto is_of_gpu = [](const StudyVariant& member) { return member.root.planned == DeviceType::cuda; };
  if (cuda_gpus() == 0 && std::any_of(study.variants.begin(), study.variants.end(), is_of_gpu))
    console.err << fmt::format(
        "device cuda: without a GPU here, cuDNN's workspaces are not counted: the convolutions of a rank may take up "
        "to {}\n",
        format_bytes(max_cudnn_workspace));
  // The GPU is opened once for all plans of a search.
  std::vector<std::shared_ptr<KernelNeeds>> needs;
  for (const StudyVariant& member : study.variants)
    if (is_of_gpu(member)) needs.push_back(make_cuda_needs(member.root.tf32));
  StageProfiles profiles;
  RunSettings settings;
  settings.profiles = &profiles;
  RunResult run;
  run.name = study.name;
  run.versions = backend_versions();
  for (const StudyVariant& member : study.variants)
    run.variants.push_back(command.maximise.empty() ? run_variant(member.root, member.name, settings)
                                                    : maximised_plan(command, member, settings));
  if (folder) {
    folder->write(run);
    console.err << fmt::format("results: {}\n", command.out.string());
  }
  const int code = print_results(run, command.json, console);
  if (!command.json) console.out << "\nfloating-point operations in one step\n" << flops_table(run);
  return code;
}

}  // namespace

void add_plan(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<PlanCommand>();
  add_experiment_option(app, command->file);
  add_set_option(app, command->sets);
  app.add_flag("--json", command->json, "print the summary as JSON instead of the table");
  CLI::Option* const maximise =
      app.add_option("--maximise", command->maximise,
                     "find the largest value of this field, such as head.classes, with which every rank of each "
                     "variant stays within the budget")
          ->type_name("FIELD");
  app.add_option(
         "--budget", command->budget,
         "with --maximise or --search: the memory budget of each rank, such as 32GB, 32GiB or 4096, in place of "
         "those of the file (default: memory_budget; with --search, ranks.memory_budget if there is one)")
      ->check(not_empty("bytes such as 32GB"))
      ->type_name("BYTES");
  CLI::Option* const search =
      app.add_flag(
             "--search", command->search,
             "search for the layout with the shortest step that fits: mesh, schedule, cut, placements, shards and "
             "head; every layout computes the same training. The one that is found is written as an experiment")
          ->excludes(maximise);
  take_integers(app.add_option("--ranks", command->layouts.ranks,
                               "with --search: the number of ranks (default: that of the mesh)"),
                1, max_ranks)
      ->needs(search);
  app.add_option("--allow", command->layouts.allowed,
                 "with --search: what else may change: recompute, offload, micro_batches, norm_groups (batch norms "
                 "normalise other parts of the batch)")
      ->type_name("WORD,..")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(search);
  app.add_option("--svg", command->layouts.svg,
                 "with --search: also draw the step time and peak memory of the layouts of one variant into this file")
      ->check(not_empty("an .svg file"))
      ->type_name("FILE.svg")
      ->needs(search);
  app.add_flag("--force", command->layouts.replaces, "with --search: replace files that exist already")->needs(search);
  add_out_option(app, command->out,
                 "also write a results folder: summary.json and the files of a run; with --search, the experiment's "
                 "file (default: NAME_searched.json)",
                 "a folder or, with --search, a file");
  app.callback([&call, command] { call.code = plan_command(*command, call.console); });
}

}  // namespace heddle
