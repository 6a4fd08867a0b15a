#include "experiments/program/commands.h"

#include <algorithm>
#include <array>
#include <thread>

#include <fmt/ranges.h>

#include "experiments/config/help.h"
#include "experiments/config/json_identity.h"
#include "experiments/config/schema.h"
#include "experiments/config/writer.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/explain/explanation.h"
#include "experiments/program/job.h"
#include "experiments/program/maximise.h"
#include "experiments/program/run_narrator.h"
#include "experiments/program/study_checks.h"
#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "experiments/results/table.h"
#include "experiments/training/experiment.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "experiments/training/run.h"
#include "framework/backends/gpu.h"
#include "framework/error.h"
#include "framework/kernels/needs.h"
#include "framework/tensors/memory.h"
#include "notebooks_export/notebook.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

/// Checks that this machine has the devices on which the experiment computes.
void find_devices(const Study<Experiment>& study, Processes* job) {
  for (const StudyVariant& member : study.variants)
    if (member.root.device != DeviceType::plan) find_device(world_options(member.root, job));
}

void print_warnings(const Study<Experiment>& study, const Console& console) {
  for (const std::string& warning : study.warnings) console.err << "heddle: warning: " << warning << "\n";
}

Study<Experiment> read(const std::filesystem::path& file, const std::vector<std::string>& sets,
                       const Console& console) {
  Study<Experiment> study = checked(read_study<Experiment>(file, sets));
  print_warnings(study, console);
  return study;
}

Experiment plsc(const std::vector<std::string>& sets) {
  return checked(read_study_text<Experiment>(plsc_experiment(), "the protocol plsc", sets)).variants[0].root;
}

std::string effective_json(Study<Experiment>& study) {
  std::vector<NamedBody> bodies;
  for (StudyVariant& member : study.variants)
    bodies.push_back({member.name, [&root = member.root](Describer& d) { describe(d, root); }});
  return write_experiment(bodies);
}

int exit_code(const VariantResult& result) {
  switch (result.status) {
    case VariantResult::Status::ok:
      return 0;
    case VariantResult::Status::out_of_memory:
      return 3;
    case VariantResult::Status::failed:
      return 4;
  }
  return 1;
}

int finish(bool json, const RunResult& run, const Console& console) {
  console.out << (json ? summary_json(run) : results_table(run)) << std::flush;
  for (const VariantResult& variant : run.variants)
    if (const int code = exit_code(variant); code != 0) return code;
  return 0;
}

/// The budget of a search: the variant's own, if it has one.
std::int64_t budget_of(const PlanCommand& command, const StudyVariant& member) {
  if (command.budget.empty()) {
    if (member.root.memory_budget == 0)
      fail<InputError>("--maximise: expected --budget, or a memory_budget in the experiment; {} has none", member.name);
    return member.root.memory_budget;
  }
  try {
    return budget_bytes(command.budget);
  } catch (const InputError& error) {
    fail<InputError>("--budget: {}", error.what());
  }
}

IntegerField searched_field(const PlanCommand& command, const StudyVariant& member) {
  try {
    Experiment experiment = member.root;
    return integer_field([&experiment](Describer& d) { describe(d, experiment); }, command.maximise);
  } catch (const InputError& error) {
    fail<InputError>("--maximise: {}", error.what());
  }
}

/// The variant with this value of the field. A data set whose number of identities is part of its configuration loses
/// those for which the head would have no class; none of their images is used.
StudyVariant variant_with(const PlanCommand& command, const StudyVariant& member, std::int64_t budget,
                          std::int64_t value) {
  std::vector<std::string> sets{fmt::format("{}={}", command.maximise, value), fmt::format("memory_budget={}", budget)};
  const std::optional<std::int64_t> identities = known_classes(member.root.data);
  if (command.maximise == "head.classes" && identities)
    sets.emplace_back(fmt::format("data.identities={}", std::min(value, *identities)));
  StudyVariant varied = with_settings<Experiment>(member, sets);
  prepare_plan(varied);
  return varied;
}

/// The variant's plan with the largest value that fits.
VariantResult maximised_plan(const PlanCommand& command, const StudyVariant& member, const RunSettings& settings) {
  const std::int64_t budget = budget_of(command, member);
  RunSettings bytes_only = settings;
  bytes_only.asks_bytes_only = true;
  // A data set that must be opened to count its identities may take longer than all plans together.
  if (!known_classes(member.root.data) && !command.maximise.starts_with("data."))
    bytes_only.dataset = make_dataset(member.root.data, {static_cast<std::uint64_t>(member.root.seed)});
  const auto plan_of = [&](std::int64_t value, const RunSettings& how) {
    return run_variant(variant_with(command, member, budget, value).root, member.name, how);
  };
  Largest found = largest_within(
      budget, searched_field(command, member),
      [&](std::int64_t value) { (void)variant_with(command, member, budget, value); },
      [&](std::int64_t value) { return plan_of(value, bytes_only); });
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

Describer::Body blank_experiment(Experiment& experiment) {
  return [&experiment](Describer& d) { describe(d, experiment); };
}

}  // namespace

int run_command(const RunCommand& command, const Console& console, Processes* job) {
  Study<Experiment> study;
  std::filesystem::path path;
  std::optional<ResultsFolder> folder;  // rank 0's
  // All processes use one type, whatever their machines are.
  const bool is_bf16_fast = shared(job, {is_bf16_fast_here() ? 1.0 : 0.0}).front() != 0;
  together(job, [&] {
    study = checked(read_study<Experiment>(command.file, command.sets), is_bf16_fast);
    fit_to_job(study, job);
  });
  check_same_call(effective_json(study),
                  fmt::format("--out \"{}\"{}{}", command.out.string(), command.resume ? " --resume" : "",
                              command.fresh_head ? " --fresh-head" : ""),
                  job);
  together(job, [&] {
    find_devices(study, job);
    // The resolved value is written, because the number of cores of a different machine would give different bits.
    for (StudyVariant& member : study.variants) member.root.threads = threads_of(member.root, job);
    path = command.out.empty() ? std::filesystem::path("results") / study.name : command.out;
    if (job == nullptr || job->rank() == 0) folder.emplace(path, effective_json(study), command.resume);
  });
  if (folder) print_warnings(study, console);
  Progress progress(console.err, console.terminal);
  StageProfiles profiles;
  RunResult run;
  run.name = study.name;
  run.versions = backend_versions();
  if (job != nullptr) run.versions.emplace_back("processes", job->name());
  for (const TransportType& transport : transport_types())
    if (transport.version != nullptr &&
        std::any_of(study.variants.begin(), study.variants.end(),
                    [&](const StudyVariant& member) { return member.root.transport == transport.name; }))
      run.versions.emplace_back(transport.name, transport.version());
  for (StudyVariant& member : study.variants) {
    progress.clear();
    console.err << fmt::format("{}: {} ({} of {}), {} rank{}, {} steps\n", study.name, member.name,
                               run.variants.size() + 1, study.variants.size(), mesh_of(member.root).size(),
                               mesh_of(member.root).size() == 1 ? "" : "s", member.root.train.steps)
                << std::flush;
    RunNarrator narrator(member.name, member.root.train, command.resume, progress, folder ? &*folder : nullptr,
                         console);
    const RunSettings settings{.checkpoints = path / "checkpoint" / folder_name(member.name),
                               .identity = json_identity(),
                               .resume = command.resume,
                               .fresh_head = command.fresh_head,
                               .job = job,
                               .profiles = &profiles,
                               .observer = &narrator};
    try {
      run.variants.push_back(run_variant(member.root, member.name, settings));
    } catch (...) {
      if (folder) folder->finish(run);
      throw;
    }
    if (folder) folder->write_if_due(run);
    if (job != nullptr && !job->is_whole()) break;  // there are not enough for the next
  }
  progress.clear();
  if (folder) folder->finish(run);
  console.err << fmt::format("results: {}\n", path.string());
  return finish(command.json, run, console);
}

int plan_command(const PlanCommand& command, const Console& console) {
  Study<Experiment> study = read_study<Experiment>(command.file, command.sets);
  print_warnings(study, console);
  std::vector<DeviceType> devices;
  for (StudyVariant& member : study.variants) {
    devices.push_back(member.root.device);
    prepare_plan(member);
  }
  std::optional<ResultsFolder> folder;
  if (!command.out.empty()) {
    Study<Experiment> written = study;  // a plan of the written experiment is the same plan
    for (std::size_t i = 0; i < devices.size(); ++i) written.variants[i].root.device = devices[i];
    folder.emplace(command.out, effective_json(written), false);
  }
  const auto is_of_gpu = [](const StudyVariant& member) { return member.root.planned == DeviceType::cuda; };
  if (cuda_gpus() == 0 && std::any_of(study.variants.begin(), study.variants.end(), is_of_gpu))
    console.err << fmt::format(
        "device cuda: without a GPU here, cuDNN's workspaces are not counted: the convolutions of a rank may take up "
        "to "
        "{}\n",
        format_bytes(most_cudnn_workspace));
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
  const int code = finish(command.json, run, console);
  if (command.json) return code;
  console.out << "\nfloating-point operations of rank 0 in one step\n";
  for (const VariantResult& variant : run.variants)
    console.out << fmt::format("{}  {:.3g} G\n", variant.name,
                               static_cast<double>(variant.flops_per_step.value_or(0)) / 1e9);
  return code;
}

void explain_command(const ExplainCommand& command, const Console& console) {
  const Study<Experiment> study = read(command.file, command.sets, console);
  std::vector<Explanation> explanations;
  for (const StudyVariant& member : study.variants) {
    try {
      explanations.push_back(explain(member.root, member.name, command.automatic));
    } catch (const InputError& error) {
      fail<InputError>("{}: {}", member.name, error.what());
    }
  }
  if (command.json) {
    console.out << explanations_json(study.name, explanations) << std::flush;
    return;
  }
  for (std::size_t i = 0; i < explanations.size(); ++i)
    console.out << (i > 0 ? "\n" : "") << explanation_text(explanations[i]) << std::flush;
}

void validate_command(const std::vector<std::filesystem::path>& files, const std::vector<std::string>& sets,
                      const Console& console) {
  std::vector<std::string> errors;
  for (const std::filesystem::path& file : files) {
    if (file.string().ends_with(".schema.json")) {  // so that experiments/*.json may be an argument
      console.out << fmt::format("{}: skipped, because it is the schema of experiments\n", file.string());
      continue;
    }
    try {
      const Study<Experiment> study = read(file, sets, console);
      console.out << fmt::format("{}: valid, {} variant{}\n", file.string(), study.variants.size(),
                                 study.variants.size() == 1 ? "" : "s");
    } catch (const InputError& error) {
      errors.emplace_back(error.what());
    }
  }
  if (!errors.empty()) fail<InputError>("{}", fmt::join(errors, "\n"));
}

void bench_command(const BenchCommand& command, const Console& console, Processes* job) {
  BenchSettings settings{.threads = static_cast<int>(command.threads), .job = job};
  if (settings.threads < 1) settings.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  settings.on_row = [&](const BenchRow& row) {
    console.err << fmt::format("{}: {:.4g} {}\n", row.name, row.value, row.unit) << std::flush;
  };
  if (!command.protocol.empty() && command.name != "head")
    fail<InputError>("--protocol {} is one of the head's: heddle bench head --protocol {}", command.protocol,
                     command.protocol);
  const std::vector<BenchRow> rows = command.protocol.empty() ? run_bench(command.name, settings)
                                                              : bench_plsc(plsc(command.sets), command.runs, settings);
  console.out << (command.json ? bench_json(rows) : bench_table(rows)) << std::flush;
}

void notebook_command(const std::filesystem::path& results, const Console& console) {
  const NotebookFiles files = write_notebook(results);
  console.out << fmt::format("{}\n{}\n", files.notebook.string(), files.html.string());
}

void schema_command(const Console& console) {
  Experiment experiment;
  console.out << schema_text(blank_experiment(experiment), "A Heddle experiment");
}

void help_command(const std::string& path, const Console& console) {
  constexpr const char* variants =
      "variants: a study in one file, a list of {\"name\": .., \"patch\": ..}: each patch is a JSON merge patch\n"
      "on what stands beside the list\n";
  Experiment experiment;
  // The only key that no member of a study has.
  if (path != "variants") console.out << help_text(blank_experiment(experiment), path);
  if (path.empty()) console.out << '\n';
  if (path.empty() || path == "variants") console.out << variants;
}

}  // namespace heddle
