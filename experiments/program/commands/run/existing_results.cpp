#include "experiments/program/commands/run/existing_results.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "framework/files/untrusted_json.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

/// Whether the checkpoint is of one of the study's variants, by the name of its folder.
bool belongs_to(const FoundCheckpoint& checkpoint, const Study<Experiment>& study) {
  return std::any_of(study.variants.begin(), study.variants.end(), [&](const StudyVariant& variant) {
    return checkpoint.folder.filename() == folder_name(variant.name);
  });
}

/// `VARIANT/step 20`, or `VARIANT/best/step 20`.
std::string name_in(const fs::path& results, const FoundCheckpoint& checkpoint) {
  return (checkpoint.folder.lexically_relative(results / "checkpoint") / fmt::format("step {}", checkpoint.steps))
      .string();
}

/// The content of a file; empty if it cannot be read.
std::string content_of(const fs::path& file) {
  try {
    return read_file(file, max_summary_bytes);
  } catch (const Error&) {
    return {};
  }
}

/// The name of the experiment whose results are in a folder; nothing if there are none.
std::optional<std::string> name_of_existing(const fs::path& results) {
  if (!fs::exists(results / "metrics.jsonl") && !fs::exists(results / "summary.json")) return {};
  const auto experiment = parse_untrusted_json<nlohmann::json>(content_of(results / "experiment.json"));
  const auto name = experiment.is_object() ? experiment.find("name") : experiment.end();
  return name != experiment.end() && name->is_string() ? printable(name->get<std::string>())
                                                       : "whose experiment.json has no name";
}

bool has_all_variants(const std::string& summary, const Study<Experiment>& study) {
  const auto json = parse_untrusted_json<nlohmann::json>(summary);
  const auto variants = json.is_object() ? json.find("variants") : json.end();
  if (variants == json.end() || !variants->is_array() || variants->size() != study.variants.size()) return false;
  for (std::size_t i = 0; i < study.variants.size(); ++i) {
    const nlohmann::json& variant = (*variants)[i];
    if (!variant.is_object() || variant.value("name", nlohmann::json()) != study.variants[i].name ||
        variant.value("status", nlohmann::json()) != name_of(VariantResult::Status::ok))
      return false;
  }
  return true;
}

}  // namespace

void check_existing_results(const fs::path& results, const Study<Experiment>& study, ExistingResults use) {
  const std::vector<FoundCheckpoint> earlier = checkpoints_of_results(results);
  if (earlier.empty() && use != ExistingResults::replaced)
    if (const std::optional<std::string> name = name_of_existing(results); name && *name != study.name)
      fail<InputError>(
          "{}: holds the results of another experiment ({}): replace them with --force{}, or choose another folder "
          "with "
          "--out",
          results.string(), *name, use == ExistingResults::kept ? "" : " in place of --resume");
  if (earlier.empty() && (use == ExistingResults::kept || use == ExistingResults::resumed))
    if (const std::vector<FoundCheckpoint> best = best_checkpoints_of_results(results); !best.empty())
      fail<InputError>(
          "{}: holds the best checkpoint of an earlier run ({}), and none that can be resumed: choose another folder "
          "with --out, or begin again and lose it with --force",
          results.string(), name_in(results, best.front()));
  if (use == ExistingResults::resumed && earlier.empty())
    fail<InputError>("{}: there is no checkpoint to resume from: leave --resume out, or use --resume=auto",
                     results.string());
  if (use == ExistingResults::replaced || earlier.empty()) return;
  const std::string first = name_in(results, earlier.front());
  if (use == ExistingResults::kept)
    fail<InputError>(
        "{}: holds a checkpoint of an earlier run ({}): continue that run with --resume, replace it with --force, or "
        "choose another folder with --out",
        results.string(), first);
  if (std::none_of(earlier.begin(), earlier.end(), [&](const auto& found) { return belongs_to(found, study); }))
    fail<InputError>(
        "{}: holds a checkpoint of another variant ({}), and none of this experiment's: choose another folder with "
        "--out, or replace its results with --force",
        results.string(), first);
}

std::optional<std::string> finished_summary(const fs::path& results, const Study<Experiment>& study,
                                            const std::string& experiment_json) {
  for (const StudyVariant& variant : study.variants)
    if (latest_in(checkpoints_of_variant(results, variant.name)) != variant.root.train.steps) return {};
  if (content_of(results / "experiment.json") != experiment_json) return {};
  std::string summary = content_of(results / "summary.json");
  if (!has_all_variants(summary, study)) return {};
  return summary;
}

}  // namespace heddle
