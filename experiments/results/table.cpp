#include "experiments/results/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/results/grid.h"
#include "experiments/results/text.h"

namespace heddle {

namespace {

constexpr const char* absent = "-";

std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

struct Burden {
  std::int64_t largest = 0;
  double over_mean = 1;
};

Burden burden_of(const VariantResult& variant) {
  Burden burden;
  double sum = 0;
  for (const RankResult& rank : variant.ranks) {
    burden.largest = std::max(burden.largest, rank.peak.total());
    sum += static_cast<double>(rank.peak.total());
  }
  if (sum > 0) burden.over_mean = static_cast<double>(burden.largest) * static_cast<double>(variant.ranks.size()) / sum;
  return burden;
}

std::string losses(const VariantResult& variant) {
  const auto first = first_loss(variant);
  if (!first) return absent;
  return fmt::format("{:#.6g} -> {:#.6g}", *first, *last_loss(variant));
}

std::string variants_table(const RunResult& run) {
  Grid grid({"variant", "loss", "time a step", "images/s", "speed-up", "largest rank", "/ mean", "sent"});
  for (const VariantResult& variant : run.variants) {
    const auto seconds = step_seconds(variant);
    const auto samples = samples_per_second(variant);
    const auto gained = speedup(variant, run.variants.front());
    const Burden burden = burden_of(variant);
    std::int64_t sent = 0;
    for (const RankResult& rank : variant.ranks) sent += rank.sent_bytes;
    const bool has_ranks = !variant.ranks.empty();
    grid.add({variant.name, losses(variant), seconds ? format_seconds(seconds->median) : absent,
              samples ? significant(*samples) : absent, gained ? significant(*gained) : absent,
              has_ranks ? format_bytes(burden.largest) : absent,
              has_ranks ? fmt::format("{:.2f}", burden.over_mean) : absent, has_ranks ? format_bytes(sent) : absent});
  }
  return grid.to_text();
}

/// The variants that are pipelines: what was gained over naive, and how near that is to what their schedule allows.
std::string pipelines_table(const RunResult& run) {
  Grid grid(
      {"variant", "p", "m", "recompute", "time a step", "over naive", "ideal", "share", "bubble", "fullest rank"});
  bool is_pipeline = false;
  for (const VariantResult& variant : run.variants) {
    if (!variant.pipeline) continue;
    is_pipeline = true;
    const PipelineResult& pipeline = *variant.pipeline;
    const auto seconds = step_seconds(variant);
    const VariantResult* const naive = naive_of(run, variant);
    const auto gained = naive == nullptr ? std::nullopt : speedup(variant, *naive);
    const auto share = share_of_ideal(run, variant);
    const auto bubble = bubble_fraction(variant);
    grid.add({variant.name, fmt::format("{}", pipeline.schedule.size()), fmt::format("{}", variant.micro_batches),
              pipeline.recompute.empty() ? absent : pipeline.recompute,
              seconds ? format_seconds(seconds->median) : absent, gained ? significant(*gained) : absent,
              significant(pipeline.ideal_speedup), share ? fmt::format("{:.3f}", *share) : absent,
              bubble ? fmt::format("{:.3f}", *bubble) : absent, format_bytes(burden_of(variant).largest)});
  }
  return is_pipeline ? grid.to_text() : "";
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

/// Position along pp; none of a rank that is not the first along the other axes.
std::optional<std::size_t> pipeline_position(const RankResult& rank) {
  std::optional<std::size_t> position;
  for (const auto& [axis, at] : rank.coordinates) {
    if (axis == "pp")
      position = static_cast<std::size_t>(at);
    else if (at != 0)
      return {};
  }
  return position;
}

/// How many ranks along dp share a micro-batch.
std::int64_t parallel_batches(const VariantResult& variant) {
  int most = 0;
  for (const RankResult& rank : variant.ranks)
    for (const auto& [axis, at] : rank.coordinates)
      if (axis == "dp") most = std::max(most, at);
  return most + 1;
}

/// What each rank of a pipeline keeps for backward: by its schedule, and when it held the most. `a sample` tells
/// schedules alike that keep other numbers of them; where values are recomputed it would tell nothing.
std::string kept_table(const RunResult& run) {
  constexpr std::size_t most_listed = 16;  // more are in the summary
  Grid grid({"variant", "rank", "micro-batches", "inputs", "samples", "activations", "a sample"});
  bool keeps = false;
  for (const VariantResult& variant : run.variants) {
    if (!variant.pipeline || variant.pipeline->kept_micro_batches.size() > most_listed) continue;
    const PipelineResult& pipeline = *variant.pipeline;
    const auto samples =
        static_cast<double>(variant.batch) / static_cast<double>(variant.micro_batches * parallel_batches(variant));
    for (const RankResult& rank : variant.ranks) {
      const auto at = pipeline_position(rank);
      if (!at || *at >= pipeline.kept_inputs.size()) continue;
      keeps = true;
      const double kept = pipeline.kept_micro_batches[*at] * samples;
      const double inputs = pipeline.kept_inputs[*at];
      const std::int64_t bytes = rank.peak[Category::activations];
      const bool is_whole = pipeline.recompute == "never" && bytes > 0;
      grid.add({variant.name, fmt::format("{}", rank.rank), number(pipeline.kept_micro_batches[*at]),
                inputs > 0 ? number(inputs) : absent, number(kept), format_bytes(bytes),
                is_whole ? format_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / kept)) : absent});
    }
  }
  return keeps ? grid.to_text() : "";
}

/// Of forward passes: what each rank makes and how busy it is.
std::string outputs_table(const RunResult& run) {
  Grid grid({"variant", "rank", "makes of a micro-batch", "computes"});
  bool is_forward = false;
  for (const VariantResult& variant : run.variants) {
    if (!variant.pipeline || !variant.pipeline->recompute.empty()) continue;
    const std::vector<double> shares = utilisation(variant);
    if (shares.empty() && knows_when_busy(variant)) continue;
    for (std::size_t i = 0; i < variant.ranks.size(); ++i) {
      for (const auto& [axis, position] : variant.ranks[i].coordinates) {
        if (axis != "pp" || static_cast<std::size_t>(position) >= variant.pipeline->outputs.size()) continue;
        is_forward = true;
        grid.add({variant.name, fmt::format("{}", variant.ranks[i].rank),
                  variant.pipeline->outputs[static_cast<std::size_t>(position)],
                  i < shares.size() ? fmt::format("{:.1f} %", 100 * shares[i]) : std::string(absent)});
      }
    }
  }
  return is_forward ? grid.to_text() : "";
}

/// `1.6 % apart` of the second, or `x 4.9`.
std::string told_apart(double predicted, double seconds) {
  const double factor = std::max(predicted, seconds) / std::min(predicted, seconds);
  if (factor >= 2) return fmt::format("x {:.1f}", factor);
  return fmt::format("{:.1f} % apart", 100 * std::abs(predicted - seconds) / seconds);
}

/// `gpipe: predicted 1.23 s, measured 1.25 s (1.6 % apart)`, a line a pipeline.
std::string predictions_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants) {
    const auto seconds = step_seconds(variant);
    if (!seconds || !variant.pipeline || !variant.pipeline->predicted_seconds) continue;
    const double predicted = *variant.pipeline->predicted_seconds;
    text += fmt::format("{}: predicted {}, {} {} ({})\n", shorten(variant.name, table_width / 3),
                        format_seconds(predicted), variant.device == "plan" ? "modelled" : "measured",
                        format_seconds(seconds->median), told_apart(predicted, seconds->median));
  }
  return text;
}

/// Says where times are not the wall's.
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

std::string errors_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants) {
    if (variant.status == VariantResult::Status::ok) continue;
    const char* const verb = variant.status == VariantResult::Status::out_of_memory ? "ran out of memory" : "failed";
    text += wrap(fmt::format("{} {}: {}", variant.name, verb, variant.error), table_width, 2);
  }
  return text;
}

std::vector<std::string> memory_row(const RankResult& rank) {
  std::vector<std::string> row{format_bytes(rank.peak.total())};
  for (const std::int64_t bytes : rank.peak.bytes) row.push_back(format_bytes(bytes));
  row.push_back(format_bytes(rank.sent_bytes));
  return row;
}

/// One grid for all variants, so that their columns line up; ranks that read alike share a row, `4-7`.
std::string memory_table(const RunResult& run) {
  std::vector<std::string> headers{"rank", "total"};
  for (std::size_t i = 0; i < category_count; ++i) headers.emplace_back(name_of(static_cast<Category>(i)));
  headers.emplace_back("sent");
  Grid grid(headers);
  std::vector<std::pair<std::size_t, const VariantResult*>> headings;  // before which line
  std::size_t line = 1;
  for (const VariantResult& variant : run.variants) {
    if (variant.ranks.empty()) continue;
    headings.emplace_back(line, &variant);
    for (std::size_t i = 0; i < variant.ranks.size();) {
      std::vector<std::string> row = memory_row(variant.ranks[i]);
      std::size_t end = i + 1;
      while (end < variant.ranks.size() && memory_row(variant.ranks[end]) == row) ++end;
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
  auto heading = headings.begin();
  for (const std::string& row : lines_of(grid.to_text())) {
    if (heading != headings.end() && heading->first == at) {
      text += shorten(heading->second->name, table_width) + "\n";
      ++heading;
    }
    text += row + "\n";
    ++at;
  }
  return text;
}

/// What a search found, and what ended it.
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

std::string sent_table(const RunResult& run) {
  std::vector<std::string> headers{"variant", "counted", "formula"};
  for (const std::string_view cargo : cargo_names) headers.emplace_back(cargo);
  headers.emplace_back("head");
  const bool has_stages = std::any_of(run.variants.begin(), run.variants.end(),
                                      [](const VariantResult& variant) { return variant.pipeline.has_value(); });
  if (has_stages) headers.emplace_back("stages");
  Grid grid(headers);
  bool is_sent = false;
  for (const VariantResult& variant : run.variants) {
    if (!variant.sent_in_step) continue;
    is_sent = true;
    const StepBytes& formula = variant.sent_in_step->formula;
    std::vector<std::string> row{variant.name, format_bytes(variant.sent_in_step->counted),
                                 format_bytes(formula.total())};
    for (const std::int64_t bytes : formula.model) row.push_back(format_bytes(bytes));
    row.push_back(format_bytes(formula.head));
    if (has_stages) row.push_back(format_bytes(formula.stages));
    grid.add(std::move(row));
  }
  return is_sent ? grid.to_text() : "";
}

std::string accuracy_table(const RunResult& run) {
  std::set<int> exponents;
  bool is_evaluated = false;
  for (const VariantResult& variant : run.variants) {
    is_evaluated |= variant.evaluation.has_value();
    if (!variant.evaluation || !variant.evaluation->verification) continue;
    for (const TarAtFar& point : variant.evaluation->verification->tar_at_far) exponents.insert(point.exponent);
  }
  if (!is_evaluated) return "";
  std::vector<std::string> headers{"variant", "rank-1", "verification"};
  for (const int exponent : exponents) headers.push_back(fmt::format("TAR at FAR 1e-{}", exponent));
  Grid grid(headers);
  for (const VariantResult& variant : run.variants) {
    if (!variant.evaluation) continue;
    const auto& verification = variant.evaluation->verification;
    std::vector<std::string> row{variant.name, percent(variant.evaluation->rank1)};
    row.push_back(verification
                      ? fmt::format("{} +- {}", percent(verification->accuracy), percent(verification->deviation))
                      : absent);
    for (const int exponent : exponents) {
      std::string cell = absent;
      if (verification)
        for (const TarAtFar& point : verification->tar_at_far)
          if (point.exponent == exponent) cell = percent(point.tar);
      row.push_back(cell);
    }
    grid.add(row);
  }
  return grid.to_text();
}

}  // namespace

std::string results_table(const RunResult& run) {
  std::string text = variants_table(run) + clock_text(run) + errors_text(run);
  if (const std::string maximised = maximised_text(run); !maximised.empty())
    text += "\nthe largest values with which every rank stays within its budget\n" + maximised;
  if (const std::string pipelines = pipelines_table(run); !pipelines.empty())
    text += "\npipelines, p ranks and m micro-batches: gain over naive with the same recomputation, and its ideal\n" +
            pipelines;
  if (const std::string outputs = outputs_table(run); !outputs.empty())
    text += "\nforward passes: what each rank makes, and the share of the time that it computes\n" + outputs;
  if (const std::string memory = memory_table(run); !memory.empty())
    text += "\nmemory of each rank when it held the most, and what it sent\n" + memory;
  if (const std::string kept = kept_table(run); !kept.empty())
    text += "\nkept for backward at one time, by the schedule; and activations when the rank held the most\n" + kept;
  if (const std::string sent = sent_table(run); !sent.empty())
    text += "\nwhat rank 0 sends in a step: counted, and by formula with its parts\n" + sent;
  if (const std::string accuracy = accuracy_table(run); !accuracy.empty()) text += "\naccuracy\n" + accuracy;
  if (const std::string predictions = predictions_text(run); !predictions.empty())
    text += "\nsteps as the schedule predicts them from costs of the stages measured alone\n" + predictions;
  return text;
}

std::string format_seconds(double seconds) {
  if (seconds < 0.9995e-3) return significant(seconds * 1e6) + " us";
  if (seconds < 0.9995) return significant(seconds * 1e3) + " ms";
  if (seconds < 100) return significant(seconds) + " s";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace heddle
