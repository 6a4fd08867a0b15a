// What a run keeps of its steps.
#include "experiments/training/measurements/step_history.h"

#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include "experiments/training/measurements/result.h"

namespace heddle::test::step_history_test {
namespace {

constexpr auto max_kept = static_cast<std::int64_t>(StepHistory::max_kept);

}  // namespace

TEST_CASE("the records of the newest steps are kept, and the losses of all steps") {
  StepHistory steps;
  CHECK(steps.empty());
  CHECK_FALSE(steps.first_loss());
  CHECK_FALSE(steps.first_loss(0));
  CHECK_FALSE(steps.skipped());
  for (std::int64_t step = 0; step < max_kept + 5; ++step) {
    StepRecord record{.step = step};
    if (step == 1 || step == 2) {  // as with head.loss_every
      record.loss = 10.0 / static_cast<double>(step);
      record.losses = {{"one", 1.0 / static_cast<double>(step)}, {"two", 3}};
    }
    if (step < 4) record.loss_scale = 8;
    record.is_skipped = step == 3;
    steps.push_back(record);
    CHECK((steps.front().step == 0) == (step < max_kept));
  }
  CHECK(steps.size() == StepHistory::max_kept);
  CHECK(steps.front().step == 5);
  CHECK(steps.back().step == max_kept + 4);
  CHECK(steps.losses().size() == StepHistory::max_kept + 5);
  CHECK(std::isnan(steps.losses()[0]));
  CHECK(steps.losses()[2] == 5);
  CHECK(steps.first_loss() == 10);
  CHECK(steps.last_loss() == 5);
  CHECK(steps.first_loss(0) == 1);
  CHECK(steps.last_loss(0) == 0.5);
  CHECK(steps.last_loss(1) == 3);
  CHECK_FALSE(steps.last_loss(2));
  CHECK(steps.skipped() == 1);
}

TEST_CASE("the first loss of a head that a resumed run has added is that of its first step") {
  const StepHistory steps{{.step = 0, .losses = {{"one", 5}}},
                          {.step = 1, .losses = {{"one", 4}, {"two", 9}}},
                          {.step = 2, .losses = {{"one", 3}, {"two", 8}}}};
  CHECK(steps.first_loss(0) == 5);
  CHECK(steps.last_loss(0) == 3);
  CHECK(steps.first_loss(1) == 9);
  CHECK(steps.last_loss(1) == 8);
}

TEST_CASE("the step time of a long run is that of its newest steps, and so are the busy times beside it") {
  VariantResult result;
  result.first_step = 20;
  result.ranks.resize(2);
  for (std::int64_t i = 0; i < 3 * max_kept; ++i) {
    const double seconds = i < 2 * max_kept ? 9 : 2;
    result.steps.push_back({.step = result.first_step + i, .seconds = seconds});
    for (RankResult& rank : result.ranks) rank.add_busy_step(i < 2 * max_kept ? 0 : 1);
  }
  CHECK(steps_done(result) == 20 + 3 * max_kept);
  const auto seconds = step_seconds(result);
  REQUIRE(seconds);
  CHECK(seconds->median == 2);
  CHECK(seconds->maximum == 2);
  CHECK(result.ranks[0].busy_in_step.size() == StepHistory::max_kept);
  CHECK(utilisation(result) == std::vector<double>{0.5, 0.5});
  result.ranks[1].add_busy_step(1);  // a rank that has ended one step more when the run failed
  CHECK(utilisation(result) == std::vector<double>{0.5, 0.5});
  for (int i = 0; i < max_kept; ++i) result.ranks[1].add_busy_step(1);
  CHECK(utilisation(result).empty());
}

TEST_CASE("the step time of a resumed run is that of its own steps, and it has none without any") {
  VariantResult result;
  for (std::int64_t step = 0; step < 6; ++step)
    result.steps.push_back({.step = step, .seconds = step == 0 || step == 4 ? 50.0 : step < 4 ? 3.0 : 2.0});
  result.first_step = 4;
  CHECK(step_seconds(result)->maximum == 2);
  result.first_step = 6;
  CHECK_FALSE(step_seconds(result));
  result.first_step = 5;  // its only step
  CHECK(step_seconds(result)->median == 2);
}

}  // namespace heddle::test::step_history_test
