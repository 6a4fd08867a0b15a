#include "parallel/pipeline/timeline.h"

#include <algorithm>
#include <limits>

namespace heddle {

namespace {

struct RankSpan {
  double begin = std::numeric_limits<double>::infinity();
  double end = -std::numeric_limits<double>::infinity();

  double length() const { return std::max(0.0, end - begin); }
  void cover(const RankSpan& other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

RankSpan span_of(const std::vector<TimedAction>& actions) {
  RankSpan span;
  for (const TimedAction& timed : actions) span.cover({timed.begin, timed.end});
  return span;
}

/// The time in which a rank computes; actions that overlap count once.
double busy(const std::vector<TimedAction>& actions) {
  double sum = 0;
  double reached = -std::numeric_limits<double>::infinity();
  for (const TimedAction& timed : actions) {
    sum += std::max(0.0, timed.end - std::max(timed.begin, reached));
    reached = std::max(reached, timed.end);
  }
  return sum;
}

}  // namespace

double Timeline::makespan() const {
  RankSpan whole;
  for (const auto& actions : ranks) whole.cover(span_of(actions));
  return whole.length();
}

double Timeline::idle_fraction() const {
  double sum = 0;
  for (const auto& actions : ranks) sum += busy(actions);
  const double all = static_cast<double>(ranks.size()) * makespan();
  return all > 0 ? 1 - sum / all : 0;
}

double Timeline::span_bubble() const {
  double busiest = 0;
  double longest = 0;
  for (const auto& actions : ranks) {
    busiest = std::max(busiest, busy(actions));
    longest = std::max(longest, span_of(actions).length());
  }
  return longest > 0 ? 1 - busiest / longest : 0;
}

}  // namespace heddle
