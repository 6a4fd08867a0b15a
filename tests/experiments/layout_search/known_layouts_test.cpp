// Estimates of layouts, corrected by plans of others.
#include "experiments/layout_search/known_layouts.h"

#include <cmath>
#include <stdexcept>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

LayoutFigures figures(double seconds, std::int64_t bytes, double fullness) {
  return {.seconds = seconds, .bytes = bytes, .fullness = fullness};
}

heddle::Layout with_micro_batches(std::int64_t count, const std::string& schedule = "1f1b") {
  return {.mesh = {.pp = 4}, .schedule = schedule, .micro_batches = count};
}

LayoutFigures planned_figures(double seconds, std::int64_t bytes, double fullness) {
  LayoutFigures planned = figures(seconds, bytes, fullness);
  planned.peak.emplace();
  return planned;
}

}  // namespace

TEST_CASE("an estimate has the error of the nearest layout that is planned") {
  KnownLayouts known(with_micro_batches(1), false);
  const auto estimate = [&](const heddle::Layout& layout) {
    return known.estimated(layout, [] { return figures(10, 1000, 1000); }).value();
  };
  const auto plan = [&](const heddle::Layout& layout, double seconds, std::int64_t bytes) {
    (void)known.planned(layout, [&] { return planned_figures(seconds, bytes, static_cast<double>(bytes)); });
  };
  CHECK(estimate(with_micro_batches(4)).figures.seconds == 10);
  CHECK(estimate(with_micro_batches(8, "gpipe")).figures.seconds == 10);
  plan(with_micro_batches(4), 12, 500);
  CHECK(estimate(with_micro_batches(4)).figures.seconds == 12);  // its plan
  CHECK(estimate(with_micro_batches(4)).is_planned());
  CHECK(estimate(with_micro_batches(8)).figures.seconds == close_to(12.0));
  CHECK(estimate(with_micro_batches(8)).figures.bytes == 500);
  CHECK_FALSE(estimate(with_micro_batches(8)).is_planned());
  plan(with_micro_batches(8, "gpipe"), 11, 2000);
  CHECK(estimate(with_micro_batches(16, "gpipe")).figures.seconds == close_to(11.0));
  CHECK(estimate(with_micro_batches(16, "gpipe")).figures.bytes == 2000);
  CHECK(estimate(with_micro_batches(16)).figures.seconds == close_to(12.0));
  CHECK(known.estimates_count() == 5);
  CHECK(known.plans_count() == 2);
  CHECK(known.plans().size() == 2);
  CHECK(known.all().size() == 5);
}

TEST_CASE("in the end, estimates are as much larger as the plan that exceeded its corrected estimate most") {
  KnownLayouts known(with_micro_batches(1), true);
  const auto add = [&](std::int64_t micro_batches, double planned_seconds, double planned_fullness) {
    (void)known.estimated(with_micro_batches(micro_batches), [] { return figures(10, 1000, 0.8); });
    if (planned_seconds > 0)
      (void)known.planned(with_micro_batches(micro_batches), [&] {
        return planned_figures(planned_seconds, std::llround(1250 * planned_fullness), planned_fullness);
      });
  };
  add(4, 10, 0.8);
  add(8, 12, 0.8);
  add(16, 0, 0);
  const auto of_16 = [](const std::vector<LayoutCandidate>& all) {
    for (const LayoutCandidate& each : all)
      if (each.layout.micro_batches == 16) return each;
    throw std::runtime_error("16 micro-batches are not known");
  };
  CHECK(of_16(known.all()).figures.seconds == close_to(12.0));  // as the plan that was made last
  CHECK(of_16(known.all_with_margins()).figures.seconds == close_to(14.4));
  CHECK(of_16(known.all_with_margins()).fits);
  add(32, 12, 1.2);
  CHECK(of_16(known.all()).figures.fullness == close_to(1.2));
  CHECK_FALSE(of_16(known.all()).fits);
}

TEST_CASE("a refused layout is not among those that are known, and its mesh has a reason") {
  KnownLayouts known(with_micro_batches(1), false);
  const auto refuse = []() -> LayoutFigures { fail<InputError>("too many classes"); };
  CHECK_FALSE(known.estimated(with_micro_batches(4), refuse));
  CHECK_FALSE(known.planned(with_micro_batches(4), [] { return planned_figures(1, 1, 1); }));
  CHECK(known.all().empty());
  CHECK(known.refusals().at("pp 4") == "too many classes");
}

}  // namespace heddle::test
