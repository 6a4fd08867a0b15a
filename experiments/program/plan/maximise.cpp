#include "experiments/program/plan/maximise.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/description/byte_units.h"
#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct Point {
  std::int64_t value = 0;
  std::int64_t bytes = 0;
};

struct Trial {
  std::int64_t value = 0;
  std::int64_t bytes = 0;  // that the fullest rank holds
  VariantResult plan;
};

std::string description_of(const Trial& trial) {
  return fmt::format("with {}, rank {} needs {} B", trial.value, fullest_rank(trial.plan).rank, trial.bytes);
}

class Search {
 public:
  Search(std::int64_t budget, const IntegerField& field, const CheckOf& check, const PlanOf& plan_of)
      : budget_(budget),
        field_(field),
        check_(check),
        plan_of_(plan_of),
        low_(field.min - 1),
        high_(field.max + 1),
        refused_(field.max + 1) {}

  Largest run() {
    attempt(field_.value);
    bool has_slope = false;
    while (high_ - low_ > 1) {
      attempt(next());
      if (!has_slope && falls()) go_to_the_last();
      has_slope = known_[0].has_value();
    }
    const bool memory_varies = !fitting_ || too_large_ || !refusal_.empty() || varies_to_smallest();
    if (!fitting_ && !has_slope) look_above();
    if (!fitting_) {
      std::string why = description_of(*too_large_);
      return {false, too_large_->value, std::move(too_large_->plan), std::move(why)};
    }
    std::string why = too_large_         ? description_of(*too_large_)
                      : refusal_.empty() ? "its range ends here"
                                         : fmt::format("{} is refused: {}", refused_, refusal_);
    return {true, fitting_->value, std::move(fitting_->plan), std::move(why), memory_varies};
  }

 private:
  /// Whether the larger of the last two values holds less.
  bool falls() const { return known_[0] && slope_of(*known_[0], *known_[1]) < 0; }

  /// Whether the bytes of the values that were tried, the smallest included, differ.
  bool varies_to_smallest() {
    try {
      if (!has_differed_ && field_.min < field_.max) note(fullest_rank(plan_of_(field_.min)).peak.total());
    } catch (const InputError&) {
      return true;  // the smallest value is refused
    }
    return has_differed_ || field_.min == field_.max;
  }

  void note(std::int64_t bytes) {
    has_differed_ = has_differed_ || (bytes_ && *bytes_ != bytes);
    bytes_ = bytes;
  }

  /// The smallest value does not fit: a larger one might, if it holds less.
  void look_above() {
    Trial least = std::move(*too_large_);
    if (least.value <= field_.max / 2) narrow(2 * least.value);
    if (falls())
      go_to_the_last();
    else
      too_large_ = std::move(least);
  }

  /// The largest value that the experiment takes is tried. If it does not fit, bytes rise again somewhere below it: the
  /// search continues between it and the largest value that was found to fit.
  void go_to_the_last() {
    std::optional<Trial> fitted = std::move(fitting_);
    fitting_.reset();
    too_large_.reset();
    const std::int64_t from = std::max(known_[0]->value, known_[1]->value);
    std::int64_t taken = from;
    high_ = refused_;
    while (high_ - taken > 1) {
      const std::int64_t middle = taken + (high_ - taken) / 2;
      try {
        check_(middle);
        taken = middle;
      } catch (const InputError& error) {
        refuse(middle, error);
      }
    }
    low_ = from;
    narrow(taken);
    if (fitting_) return;
    low_ = fitted ? fitted->value : high_ - 1;
    fitting_ = std::move(fitted);
  }

  void refuse(std::int64_t value, const InputError& error) {
    high_ = refused_ = value;
    refusal_ = error.what();
  }

  void attempt(std::int64_t value) {
    const std::int64_t width = high_ - low_;
    narrow(value);
    misses_ = high_ - low_ <= width / 4 ? 0 : misses_ + 1;
  }

  void narrow(std::int64_t value) {
    Trial trial{value, 0, {}};
    try {
      trial.plan = plan_of_(value);
    } catch (const InputError& error) {
      if (value == field_.value) throw;
      if (value < field_.value) {
        low_ = value;
        return;
      }
      refuse(value, error);
      return;
    }
    if (trial.plan.status == VariantResult::Status::failed) fail<RankFailed>("{}", trial.plan.error);
    trial.bytes = fullest_rank(trial.plan).peak.total();
    note(trial.bytes);
    known_ = {known_[1], Point{value, trial.bytes}};
    const bool fits = trial.bytes <= budget_;
    (fits ? low_ : high_) = value;
    (fits ? fitting_ : too_large_) = std::move(trial);
  }

  /// A value between the bounds that is likely to lie close to the end of the budget.
  std::int64_t next() const {
    const std::int64_t middle = low_ + (high_ - low_) / 2;
    const std::optional<std::int64_t> estimate = estimated();
    // First the estimate, then further and further from it towards the side that is still open.
    const std::int64_t step = misses_ == 0 ? 0 : std::int64_t{1} << std::min(2 * (misses_ - 1), 60);
    if (fitting_ && too_large_) return estimate && step < (high_ - low_) / 2 ? beyond(*estimate, step) : middle;
    if (fitting_) {
      const std::int64_t far = estimate.value_or(2 * low_) + step;
      return far < high_ ? std::max(far, low_ + 1) : high_ == field_.max + 1 ? high_ - 1 : middle;
    }
    if (estimate && *estimate - step > low_) return std::min(*estimate - step, high_ - 1);
    return low_ == field_.min - 1 ? field_.min : middle;
  }

  /// From the estimate towards the bound that was not tried last.
  std::int64_t beyond(std::int64_t estimate, std::int64_t step) const {
    const bool fitted = known_[1]->bytes <= budget_;
    return std::clamp(fitted ? estimate + step : estimate - step, low_ + 1, high_ - 1);
  }

  /// The value whose bytes are the budget on the line through the last two trials, or else through the bounds; after
  /// one trial, on the line through the origin.
  std::optional<std::int64_t> estimated() const {
    const Point last = *known_[1];
    double slope = slope_of(known_[0].value_or(Point{}), last);
    if (!(slope > 0) && fitting_ && too_large_)
      slope = slope_of({fitting_->value, fitting_->bytes}, {too_large_->value, too_large_->bytes});
    if (!(slope > 0)) return {};
    constexpr double max_growth = 1024;
    const auto value = static_cast<double>(last.value);
    const double at = value + static_cast<double>(budget_ - last.bytes) / slope;
    return static_cast<std::int64_t>(
        std::clamp(at, static_cast<double>(field_.min), max_growth * std::max(value, 1.0)));
  }

  static double slope_of(const Point& a, const Point& b) {
    return static_cast<double>(b.bytes - a.bytes) / static_cast<double>(b.value - a.value);
  }

  std::int64_t budget_;
  const IntegerField& field_;
  const CheckOf& check_;
  const PlanOf& plan_of_;
  /// Every value up to the first fits or is refused as too small; every one from the second on does not fit, or is
  /// refused.
  std::int64_t low_;
  std::int64_t high_;
  std::optional<Trial> fitting_;               // the largest
  std::optional<Trial> too_large_;             // the smallest
  std::int64_t refused_;                       // the smallest above those that are taken
  std::string refusal_;                        // what it says
  std::array<std::optional<Point>, 2> known_;  // the last two trials
  std::optional<std::int64_t> bytes_;          // of the last trial
  bool has_differed_ = false;                  // whether two trials have held different numbers of bytes
  int misses_ = 0;                             // trials since one left a quarter of the values or less
};

}  // namespace

std::int64_t budget_bytes(std::string_view text) {
  std::vector<Unit> units{{"", 1}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
  units.insert(units.end(), byte_units.begin(), byte_units.end());
  const char* const end = text.data() + text.size();
  double number = 0;
  const bool is_number = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const std::from_chars_result read = is_number ? std::from_chars(text.data(), end, number, std::chars_format::fixed)
                                                : std::from_chars_result{end, std::errc::invalid_argument};
  std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, size] : units) {
    const double least = name.empty() ? 1000 : 1;  // "32" has forgotten its unit
    if (read.ec == std::errc() && unit == name && number * size >= least && number * size <= max_exact_integer)
      return static_cast<std::int64_t>(number * size);
  }
  fail<InputError>("expected bytes such as 32GB, 1.5GiB or 4096, up to 9 PB (numbers below 1000 need a unit), got {}",
                   in_quotes(text));
}

const RankResult& fullest_rank(const VariantResult& result) {
  return *std::max_element(result.ranks.begin(), result.ranks.end(),
                           [](const RankResult& a, const RankResult& b) { return a.peak.total() < b.peak.total(); });
}

Largest max_within(std::int64_t budget, const IntegerField& field, const CheckOf& check, const PlanOf& plan_of) {
  return Search(budget, field, check, plan_of).run();
}

}  // namespace heddle
