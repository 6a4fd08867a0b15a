#include "experiments/results/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include "experiments/results/accuracy_tables.h"
#include "experiments/results/grid.h"
#include "experiments/results/pipeline_tables.h"
#include "experiments/results/units.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

constexpr std::array shown_categories{Category::parameters, Category::gradients, Category::optimizer,
                                      Category::activations};

struct PeakMemory {
  std::int64_t largest = 0;  // over all ranks
  double over_mean = 1;
};

/// A rank whose process has ended leaves no measurements.
bool has_measured(const RankResult& rank) {
  return rank.peak.total() > 0;
}

PeakMemory peak_memory_of(const VariantResult& variant) {
  PeakMemory peak;
  double sum = 0;
  int measured = 0;
  for (const RankResult& rank : variant.ranks) {
    if (!has_measured(rank)) continue;
    peak.largest = std::max(peak.largest, rank.peak.total());
    sum += static_cast<double>(rank.peak.total());
    ++measured;
  }
  if (sum > 0) peak.over_mean = static_cast<double>(peak.largest) * measured / sum;
  return peak;
}

/// The losses of the first and the last step that computed one.
std::string losses_cell(const std::optional<double>& first, const std::optional<double>& last) {
  return first ? fmt::format("{:#.6g} -> {:#.6g}", *first, last.value()) : absent;
}

/// A row for each head of a variant that has several.
std::string heads_table(const RunResult& run) {
  Grid grid({"variant", "data set", "images/step", "classes", "loss weight", "loss"});
  bool has_rows = false;
  for (const VariantResult& variant : run.variants) {
    for (std::size_t i = 0; variant.heads.size() > 1 && i < variant.heads.size(); ++i) {
      const HeadResult& head = variant.heads[i];
      grid.add({i == 0 ? variant.name : "", head.name, fmt::format("{}", head.samples),
                fmt::format("{}", head.config.classes), significant(head.config.loss_weight),
                losses_cell(variant.steps.first_loss(i), variant.steps.last_loss(i))});
      has_rows = true;
    }
  }
  return has_rows ? grid.to_text() : "";
}

std::string variants_table(const RunResult& run) {
  Column times;
  Column memory;
  Column traffic;
  for (const VariantResult& variant : run.variants) {
    const auto seconds = step_seconds(variant);
    times.add(seconds ? std::optional(seconds->median) : std::nullopt);
    if (variant.ranks.empty()) {
      memory.add({});
      traffic.add({});
      continue;
    }
    memory.add(static_cast<double>(peak_memory_of(variant).largest));
    double sent = 0;
    for (const RankResult& rank : variant.ranks) sent += static_cast<double>(rank.sent_bytes);
    traffic.add(sent);
  }
  const Unit time = unit_of_seconds(times.values());
  const Unit held = unit_of_bytes(memory.values());
  const Unit sent = unit_of_bytes(traffic.values());
  Grid grid({"variant", "loss", heading("step time", time), "images/s", heading("peak memory", held), "max/mean",
             heading("bytes sent", sent)});
  for (std::size_t i = 0; i < run.variants.size(); ++i) {
    const VariantResult& variant = run.variants[i];
    const auto samples = samples_per_second(variant);
    grid.add({variant.name, losses_cell(variant.steps.first_loss(), variant.steps.last_loss()), times.cell(i, time),
              samples ? significant(*samples) : absent, memory.cell(i, held),
              variant.ranks.empty() ? absent : fmt::format("{:.2f}", peak_memory_of(variant).over_mean),
              traffic.cell(i, sent)});
  }
  return grid.to_text();
}

/// A note for times that were not measured in real time.
std::string clock_text(const RunResult& run) {
  const auto has = [&](bool on_plan) {
    return std::any_of(run.variants.begin(), run.variants.end(), [&](const VariantResult& v) {
      return v.clock == "virtual" && (v.device == "plan") == on_plan && step_seconds(v);
    });
  };
  std::string text;
  if (has(false)) text += "times are virtual: each rank's own CPU time, and messages by `links`\n";
  if (has(true))
    text += fmt::format("times {}are modelled: kernels by `profile`, messages by `links`\n",
                        text.empty() ? "" : "on plan ");
  return text;
}

std::string_view verb_of(VariantResult::Status status) {
  switch (status) {
    case VariantResult::Status::ok:
      return "ended";
    case VariantResult::Status::out_of_memory:
      return "ran out of memory";
    case VariantResult::Status::failed:
      return "failed";
    case VariantResult::Status::broken_image:
      return "met an image that it cannot use";
    case VariantResult::Status::interrupted:
      return "was interrupted";
    case VariantResult::Status::not_saved:
      return "trained all steps and could not be saved";
  }
  return "";
}

std::string errors_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants) {
    if (variant.status == VariantResult::Status::ok) continue;
    text += wrap(fmt::format("{} {}: {}", variant.name, verb_of(variant.status), variant.error), table_width, 2);
  }
  return text;
}

std::string restarts_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants)
    for (const Restart& restart : variant.restarts)
      text += wrap(fmt::format("{} restart {}: {} went on from step {} after {:.1f} s{}", variant.name, restart.number,
                               counted(restart.ranks, "rank", "ranks"), restart.step, restart.seconds,
                               restart.why.empty() ? "" : ": " + restart.why),
                   table_width, 2);
  return text;
}

std::string lost_checkpoints_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants)
    for (const LostCheckpoint& lost : variant.lost_checkpoints) {
      const bool is_error = variant.status == VariantResult::Status::not_saved && lost.steps == steps_done(variant);
      if (is_error) continue;
      text += wrap(fmt::format("{} lost the checkpoint after {}: {}", variant.name,
                               counted(lost.steps, "step", "steps"), lost.why),
                   table_width, 2);
    }
  return text;
}

/// The total, parameters, gradients, optimizer, activations, and the sum of the other categories.
std::vector<std::string> memory_row(const RankResult& rank, const Unit& unit) {
  if (!has_measured(rank)) return std::vector<std::string>(shown_categories.size() + 2, std::string(absent));
  const auto cell = [&](std::int64_t bytes) { return in_unit(static_cast<double>(bytes), unit); };
  std::vector<std::string> row{cell(rank.peak.total())};
  std::int64_t other = rank.peak.total();
  for (const Category category : shown_categories) {
    row.push_back(cell(rank.peak[category]));
    other -= rank.peak[category];
  }
  row.push_back(cell(other));
  return row;
}

Unit unit_of_memory(const RunResult& run) {
  std::vector<double> totals;
  for (const VariantResult& variant : run.variants)
    for (const RankResult& rank : variant.ranks) totals.push_back(static_cast<double>(rank.peak.total()));
  return unit_of_bytes(totals);
}

/// One grid for all variants, so that their columns line up; ranks whose rows are equal share one, `4-7`.
std::string memory_table(const RunResult& run, const Unit& unit) {
  std::vector<std::string> headers{"rank", "total"};
  for (const Category category : shown_categories) headers.emplace_back(name_of(category));
  headers.emplace_back("other");
  Grid grid(headers);
  std::vector<std::pair<std::size_t, const VariantResult*>> headings;  // before which line
  std::size_t line = 1;
  for (const VariantResult& variant : run.variants) {
    if (variant.ranks.empty()) continue;
    headings.emplace_back(line, &variant);
    for (std::size_t i = 0; i < variant.ranks.size();) {
      std::vector<std::string> row = memory_row(variant.ranks[i], unit);
      std::size_t end = i + 1;
      while (end < variant.ranks.size() && memory_row(variant.ranks[end], unit) == row) ++end;
      const int first = variant.ranks[i].rank;
      const int last = variant.ranks[end - 1].rank;
      row.insert(row.begin(), first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
      grid.add(std::move(row));
      ++line;
      i = end;
    }
  }
  if (headings.empty()) return "";
  std::string text;
  std::size_t at = 0;
  auto next = headings.begin();
  for (const std::string& row : lines_of(grid.to_text())) {
    if (next != headings.end() && next->first == at) {
      text += shorten(next->second->name, table_width) + "\n";
      ++next;
    }
    text += row + "\n";
    ++at;
  }
  return text;
}

/// The copies from which checkpoints are written while the training goes on.
std::string checkpoint_copies_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants) {
    std::int64_t most = 0;
    for (const RankResult& rank : variant.ranks) most = std::max(most, rank.checkpoint_copy);
    if (most > 0)
      text += fmt::format("{}: a rank copies up to {}\n", shorten(variant.name, table_width / 2), format_bytes(most));
  }
  return text;
}

/// The result of a search, and the reason why it ended.
std::string maximised_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants) {
    if (!variant.maximised || !variant.maximised->value) continue;
    const Maximised& found = *variant.maximised;
    text += wrap(
        fmt::format("{}: {} = {}; {}", shorten(variant.name, table_width / 3), found.field, *found.value, found.why),
        table_width, 2);
  }
  return text;
}

/// The bytes that rank 0 sends in one step, by the parts of the formula.
class SentTable {
 public:
  explicit SentTable(const RunResult& run) : run_(run) {
    for (const std::string_view payload : payload_names) parts_.push_back({std::string(payload), 0});
    parts_.push_back({"head", 0});
    parts_.push_back({"stages", 0});
    std::vector<double> totals;
    for (const VariantResult& variant : run.variants) {
      if (!variant.sent_in_step) continue;
      totals.push_back(static_cast<double>(variant.sent_in_step->counted));
      totals.push_back(static_cast<double>(variant.sent_in_step->formula.total()));
      const std::vector<std::int64_t> bytes = bytes_of(variant.sent_in_step->formula);
      for (std::size_t i = 0; i < bytes.size(); ++i) parts_[i].most = std::max(parts_[i].most, bytes[i]);
    }
    unit_ = unit_of_bytes(totals);
    choose_columns();
  }

  const Unit& unit() const { return unit_; }

  std::string to_text() const {
    std::vector<std::string> headers{"variant", "counted", "formula"};
    for (const std::size_t part : shown_) headers.push_back(parts_[part].name);
    if (has_other_) headers.emplace_back("other");
    Grid grid(headers);
    bool is_sent = false;
    for (const VariantResult& variant : run_.variants) {
      if (!variant.sent_in_step) continue;
      is_sent = true;
      const auto cell = [&](std::int64_t bytes) { return in_unit(static_cast<double>(bytes), unit_); };
      const StepBytes& formula = variant.sent_in_step->formula;
      const std::vector<std::int64_t> bytes = bytes_of(formula);
      std::vector<std::string> row{variant.name, cell(variant.sent_in_step->counted), cell(formula.total())};
      std::int64_t other = formula.total();
      for (const std::size_t part : shown_) {
        row.push_back(cell(bytes[part]));
        other -= bytes[part];
      }
      if (has_other_) row.push_back(cell(other));
      grid.add(std::move(row));
    }
    return is_sent ? grid.to_text() : "";
  }

 private:
  struct Part {
    std::string name;
    std::int64_t most = 0;  // over all variants
  };

  static std::vector<std::int64_t> bytes_of(const StepBytes& formula) {
    std::vector<std::int64_t> bytes(formula.model.begin(), formula.model.end());
    bytes.push_back(formula.head);
    bytes.push_back(formula.stages);
    return bytes;
  }

  /// The parts that some variant has. If there are more than four: the largest three, and the sum of the others.
  void choose_columns() {
    constexpr std::size_t max_columns = 4;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].most > 0) shown_.push_back(i);
    if (shown_.size() <= max_columns) return;
    has_other_ = true;
    std::stable_sort(shown_.begin(), shown_.end(),
                     [&](std::size_t a, std::size_t b) { return parts_[a].most > parts_[b].most; });
    shown_.resize(max_columns - 1);
    std::sort(shown_.begin(), shown_.end());
  }

  const RunResult& run_;
  std::vector<Part> parts_;
  Unit unit_;
  std::vector<std::size_t> shown_;
  bool has_other_ = false;
};

}  // namespace

std::string results_table(const RunResult& run) {
  std::string text =
      variants_table(run) + clock_text(run) + restarts_text(run) + lost_checkpoints_text(run) + errors_text(run);
  const auto add_section = [&text](std::string_view heading, const std::string& rows) {
    if (!rows.empty()) text += fmt::format("\n{}\n{}", heading, rows);
  };
  add_section("data sets that train one backbone: the loss of each one's head", heads_table(run));
  add_section("the largest values with which every rank stays within its budget", maximised_text(run));
  add_section("pipelines of p ranks, m micro-batches: speedup over naive with the same recomputation, and its ideal",
              pipelines_table(run));
  add_section("forward passes: the output of each rank, and the share of the time in which it computes",
              outputs_table(run));
  const Unit memory_unit = unit_of_memory(run);
  add_section(fmt::format("peak memory of each rank ({}); other: workspace and communication", memory_unit.name),
              memory_table(run, memory_unit));
  add_section("copies of checkpoints in the host's memory, beside the peaks (train.async_save)",
              checkpoint_copies_text(run));
  add_section("offloaded activations in the host's memory, at the peak of the rank with the most",
              offloaded_table(run));
  add_section("kept for backward at the same time, by the schedule, and activations at peak memory", kept_table(run));
  const SentTable sent(run);
  add_section(
      fmt::format("bytes that rank 0 sends in one step ({}): counted, and by formula in its parts", sent.unit().name),
      sent.to_text());
  add_section("accuracy", accuracy_table(run));
  add_section("verification of the sets; -: fewer impostor pairs than 1 / FAR", sets_table(run));
  add_section("identification of the sets' probes; rank-k: the right person is among the k nearest images",
              identification_table(run));
  add_section("step time as the schedule predicts it from the costs of the stages", predictions_text(run));
  return text;
}

std::string format_seconds(double seconds) {
  if (seconds < 0.9995e-3) return significant(seconds * 1e6) + " us";
  if (seconds < 0.9995) return significant(seconds * 1e3) + " ms";
  if (seconds < 100) return significant(seconds) + " s";
  constexpr double long_hours = 1e6;
  if (seconds >= 3600 * long_hours) return significant(seconds / 3600) + " h";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace heddle
