#include "experiments/program/schedule/search_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "experiments/program/schedule/picture.h"
#include "experiments/results/grid.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t max_shown = 12;

std::string shape_words(const ScheduleCandidate& candidate) {
  return fmt::format("{} (m = {}, v = {})", candidate.name, candidate.shape.micro_batches, candidate.shape.chunks);
}

/// The first of them is the best.
const ScheduleCandidate* first_that_fits(std::span<const ScheduleCandidate> candidates, bool is_named) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const ScheduleCandidate& candidate) {
    return candidate.fits && candidate.is_named == is_named;
  });
  return found == candidates.end() ? nullptr : &*found;
}

/// How much longer it takes than the bound: the most that another schedule could save. A schedule that does not fit may
/// be below the bound.
std::optional<double> gap(const ScheduleCandidate& candidate, double bound) {
  if (!candidate.fits) return std::nullopt;
  return bound > 0 ? std::max(0.0, candidate.makespan / bound - 1) : 0;
}

std::string comparison(std::span<const ScheduleCandidate> candidates, bool is_interrupted) {
  const ScheduleCandidate* const named = first_that_fits(candidates, true);
  const ScheduleCandidate* const own = first_that_fits(candidates, false);
  if (named == nullptr) return fmt::format("No named schedule fits; {} does.\n", shape_words(*own));
  if (own == nullptr)
    return fmt::format("The best is {}; no searched schedule {}.\n", shape_words(*named),
                       is_interrupted ? "that fits was found before the interruption" : "fits");
  const double gain = named->makespan > 0 ? 100 * (1 - own->makespan / named->makespan) : 0;
  if (own == candidates.data())
    return fmt::format("{} takes {:.2f} % less time than the best named schedule that fits, {}.\n", shape_words(*own),
                       gain, shape_words(*named));
  return fmt::format("The best is {}; the best searched schedule, {}, takes {}.\n", shape_words(*named),
                     shape_words(*own), -gain < 0.005 ? "as long" : fmt::format("{:.2f} % longer", -gain));
}

std::string tried_text(const ScheduleSearchResult& result) {
  const ScheduleSearchProgress& tried = result.tried;
  return fmt::format("Tried: {}; in {}, {} by list scheduling, {} and {}.{}\n",
                     counted(tried.named, "named schedule", "named schedules"),
                     counted(tried.placements, "placement of stages", "placements of stages"),
                     counted(tried.list_schedules, "schedule", "schedules"), counted(tried.blocks, "block", "blocks"),
                     counted(tried.reorderings, "reordering", "reorderings"),
                     result.is_interrupted ? " The search was interrupted: it may have missed better ones." : "");
}

}  // namespace

void check_that_one_fits(const ScheduleSearchResult& result, const ScheduleSearchSpace& space) {
  const ScheduleCandidate& best = result.schedules.front();
  if (best.fits) return;
  fail<InputError>("--memory: no schedule fits into {}: the smallest peak memory is {}, of {}",
                   plain_number(space.memory.value_or(0)), plain_number(best.peak_memory), shape_words(best));
}

std::string search_table(const ScheduleSearchResult& result, const ScheduleSearchSpace& space) {
  Grid grid({"schedule", "m", "v", "makespan", "gap (%)", "bubble (%)", "peak memory"});
  const std::span<const ScheduleCandidate> candidates = result.schedules;
  const std::size_t shown = std::min(max_shown, candidates.size());
  for (const ScheduleCandidate& candidate : candidates.subspan(0, shown)) {
    const std::optional<double> to_bound = gap(candidate, result.bound);
    grid.add({candidate.name, std::to_string(candidate.shape.micro_batches), std::to_string(candidate.shape.chunks),
              plain_number(candidate.makespan), to_bound ? fmt::format("{:.2f}", 100 * *to_bound) : "-",
              fmt::format("{:.2f}", 100 * candidate.span_bubble), plain_number(candidate.peak_memory)});
  }
  std::string text = grid.to_text();
  if (shown < candidates.size()) text += fmt::format("and {} more", candidates.size() - shown);
  if (shown < candidates.size() && space.memory)
    text += fmt::format("; of all {}, {} fit", candidates.size(),
                        std::count_if(candidates.begin(), candidates.end(),
                                      [](const ScheduleCandidate& candidate) { return candidate.fits; }));
  if (shown < candidates.size()) text += "\n";
  return text +
         "(searched: made for these costs; bubble: the papers' span bubble; peak memory: of the rank that needs the "
         "most, in micro-batches of the given size; gap: to the lower bound, - for a schedule that does not fit)\n\n" +
         fmt::format(
             "Lower bound: {}. No schedule that fits has a smaller makespan with these placements of stages and "
             "numbers of micro-batches.\n",
             plain_number(result.bound)) +
         comparison(candidates, result.is_interrupted) + tried_text(result);
}

std::string search_progress(const ScheduleSearchProgress& tried) {
  const auto known = [](double makespan) { return std::isinf(makespan) ? "-" : plain_number(makespan); };
  return fmt::format("searching  {} tried  best {}  lower bound {}",
                     counted(tried.schedules(), "schedule", "schedules"), known(tried.best), known(tried.bound));
}

std::string search_json(const ScheduleSearchResult& result, const ScheduleReport& best) {
  OrderedJson json = OrderedJson::parse(schedule_json(best));
  json["bound"] = result.bound;
  json["tried"] = {{"named", result.tried.named},
                   {"placements", result.tried.placements},
                   {"list_schedules", result.tried.list_schedules},
                   {"blocks", result.tried.blocks},
                   {"reorderings", result.tried.reorderings}};
  json["interrupted"] = result.is_interrupted;
  OrderedJson& all = json["weighed"] = OrderedJson::array();
  for (const ScheduleCandidate& candidate : result.schedules) {
    const std::optional<double> to_bound = gap(candidate, result.bound);
    all.push_back({{"name", candidate.name},
                   {"ranks", candidate.shape.ranks},
                   {"stages", candidate.schedule.stages()},
                   {"chunks", candidate.shape.chunks},
                   {"micro_batches", candidate.shape.micro_batches},
                   {"makespan", candidate.makespan},
                   {"gap", to_bound ? OrderedJson(*to_bound) : OrderedJson()},
                   {"span_bubble", candidate.span_bubble},
                   {"peak_memory", candidate.peak_memory},
                   {"fits", candidate.fits},
                   {"named", candidate.is_named}});
  }
  return json.dump(2) + "\n";
}

}  // namespace heddle
