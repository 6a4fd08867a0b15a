#include "experiments/program/commands/compare/compared_run.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "experiments/config/study.h"
#include "experiments/config/writer.h"
#include "experiments/results/summary.h"
#include "experiments/training/experiment.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "framework/files/untrusted_json.h"
#include "framework/tensors/memory.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// A value of summary.json that knows where it stands. A value of another type than expected is an InputError.
class Entry {
 public:
  Entry(const OrderedJson& value, const fs::path& file, std::string pointer)
      : value_(value), file_(file), pointer_(std::move(pointer)) {}

  bool is_null() const { return value_.is_null(); }
  Entry operator[](const char* key) const {
    static const OrderedJson absent;
    expect(value_.is_object(), "an object");
    const auto found = value_.find(key);
    return {found == value_.end() ? absent : *found, file_, pointer_ + "/" + key};
  }
  std::vector<Entry> items() const {
    expect(value_.is_array(), "a list");
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < value_.size(); ++i)
      entries.emplace_back(value_[i], file_, fmt::format("{}/{}", pointer_, i));
    return entries;
  }
  std::string text() const {
    expect(value_.is_string(), "a text");
    return value_.get<std::string>();
  }
  double number() const {
    expect(value_.is_number(), "a number");
    return value_.get<double>();
  }
  std::int64_t count() const {
    const std::optional<std::int64_t> count = count_of(value_);
    expect(count.has_value(), "an integer from 0 to 2^53");
    return *count;
  }
  std::optional<double> number_or_null() const { return is_null() ? std::nullopt : std::optional(number()); }

 private:
  void expect(bool is_right, const char* what) const {
    if (is_right) return;
    constexpr std::size_t max_shown = 40;
    fail<InputError>("{}: is not the summary of a run: {}: expected {}, found {}", file_.string(),
                     pointer_.empty() ? "/" : pointer_, what,
                     shortened(value_.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), max_shown));
  }

  const OrderedJson& value_;
  const fs::path& file_;
  std::string pointer_;
};

/// The keys of a value under their pointers.
void flatten(const OrderedJson& value, const std::string& pointer, std::map<std::string, std::string>& keys) {
  const bool has_objects = value.is_array() && std::any_of(value.begin(), value.end(), [](const OrderedJson& item) {
                             return item.is_structured();
                           });
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      std::string escaped;
      for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      flatten(member, pointer + "/" + escaped, keys);
    }
  } else if (has_objects) {
    for (std::size_t i = 0; i < value.size(); ++i) flatten(value[i], fmt::format("{}/{}", pointer, i), keys);
  } else {
    keys[pointer] = value.dump();
  }
}

using Experiments = std::map<std::string, std::map<std::string, std::string>>;  // by the name of the variant

Experiments read_experiments(const fs::path& file) {
  constexpr std::uint64_t max_bytes = std::uint64_t{16} << 20;
  Study<Experiment> study = read_study_text<Experiment>(read_file(file, max_bytes), file.string());
  Experiments experiments;
  for (auto& member : study.variants) {
    const std::string text = write_json([&](Describer& d) { describe(d, member.root); });
    std::map<std::string, std::string>& keys = experiments[member.name];
    flatten(OrderedJson::parse(text), "", keys);
    keys.erase("/name");  // the table has it
  }
  return experiments;
}

constexpr const char* rank1_column = "rank 1";
constexpr const char* verification_column = "verification";

/// What the accuracy on a set is called beside those of the test images.
std::string column_of(const std::string& set) {
  return set == rank1_column || set == verification_column ? "set " + in_quotes(set) : set;
}

void read_accuracies(const Entry& evaluation, ComparedRun& run) {
  if (evaluation.is_null()) return;
  if (const Entry sets = evaluation["sets"]; !sets.is_null())
    for (const Entry& set : sets.items()) {
      const Entry accuracy = set["accuracy"].is_null() ? set["rates"]["1"] : set["accuracy"];
      run.accuracies.emplace_back(column_of(set["name"].text()), accuracy.number());
    }
  if (const auto rank1 = evaluation["rank1"].number_or_null()) run.accuracies.emplace_back(rank1_column, *rank1);
  if (const Entry pairs = evaluation["verification"]; !pairs.is_null())
    run.accuracies.emplace_back(verification_column, pairs["accuracy"].number());
}

void read_ranks(const Entry& ranks, ComparedRun& run) {
  for (const Entry& rank : ranks.items()) {
    run.sent_bytes = run.sent_bytes.value_or(0) + rank["sent_bytes"].number();
    const Entry peak = rank["peak_bytes"];
    if (run.peak_total() && peak["total"].number() <= *run.peak_total()) continue;
    run.peak_bytes.clear();
    for (std::size_t i = 0; i < category_count; ++i) {
      const std::string category(name_of(static_cast<Category>(i)));
      run.peak_bytes.emplace_back(category, peak[category.c_str()].number());
    }
  }
}

ComparedRun read_variant(const Entry& variant) {
  ComparedRun run;
  run.variant = variant["name"].text();
  run.status = variant["status"].text();
  run.clock = variant["clock"].text();
  run.steps = variant["steps"].count();
  const std::vector<Entry> losses = variant["loss_per_step"].items();
  const std::int64_t before = run.steps - static_cast<std::int64_t>(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    run.losses.emplace_back(static_cast<double>(before) + static_cast<double>(i + 1), losses[i].number_or_null());
  run.first_loss = variant["loss"]["first"].number_or_null();
  run.last_loss = variant["loss"]["last"].number_or_null();
  run.step_seconds = variant["step_seconds"]["median"].number_or_null();
  run.images_per_second = variant["samples_per_second"].number_or_null();
  read_ranks(variant["ranks"], run);
  read_accuracies(variant["evaluation"], run);
  return run;
}

}  // namespace

std::optional<double> ComparedRun::peak_total() const {
  if (peak_bytes.empty()) return {};
  double sum = 0;
  for (const auto& [category, bytes] : peak_bytes) sum += bytes;
  return sum;
}

std::vector<ComparedRun> read_runs(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  std::error_code unknown;
  if (fs::status(file, unknown).type() == fs::file_type::not_found)
    fail<InputError>("{}: does not exist: expected the results folder of a run that has ended", file.string());
  const auto summary = parse_untrusted_json<OrderedJson>(read_file(file, max_summary_bytes));
  if (summary.is_discarded())
    fail<InputError>("{}: is not JSON, or has more than {} levels of nesting", file.string(), max_json_levels);
  Experiments experiments = read_experiments(folder / "experiment.json");
  std::vector<ComparedRun> runs;
  const std::vector<Entry> variants = Entry(summary, file, "")["variants"].items();
  for (const Entry& variant : variants) {
    ComparedRun run = read_variant(variant);
    const auto found = experiments.find(run.variant);
    if (found == experiments.end())
      fail<InputError>("{}: the variant {} is not in {}", file.string(), in_quotes(run.variant),
                       (folder / "experiment.json").string());
    run.experiment = std::move(found->second);
    run.folder = folder.string();
    run.name = variants.size() == 1 ? run.folder : run.folder + ": " + run.variant;
    runs.push_back(std::move(run));
  }
  if (runs.empty()) fail<InputError>("{}: has no variants", file.string());
  return runs;
}

std::vector<Difference> differences(const std::vector<ComparedRun>& runs) {
  std::set<std::string> pointers;
  for (const ComparedRun& run : runs)
    for (const auto& [pointer, value] : run.experiment) pointers.insert(pointer);
  std::vector<Difference> result;
  for (const std::string& pointer : pointers) {
    // Where one run has null and another an object, the keys of the object say it.
    if (const auto below = pointers.lower_bound(pointer + "/");
        below != pointers.end() && below->starts_with(pointer + "/"))
      continue;
    Difference difference{.pointer = pointer, .values = {}};
    for (const ComparedRun& run : runs) {
      const auto found = run.experiment.find(pointer);
      difference.values.push_back(found == run.experiment.end() ? "" : found->second);
    }
    if (std::set(difference.values.begin(), difference.values.end()).size() > 1)
      result.push_back(std::move(difference));
  }
  return result;
}

}  // namespace heddle
