// The critical path of schedules, and what each cost would have to be to shorten them, against the simulation.
#include "parallel/pipeline/critical_path.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test::critical_path_test {

namespace {

/// A schedule in a random shape, some with recomputation, and random costs.
struct Case {
  std::string_view name;
  Schedule schedule;
  SimulationCosts costs;
};

Case random_case(std::mt19937& random) {
  const auto up_to = [&](int n) { return 1 + static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (;;) {
    const std::span<const ScheduleType> types = schedule_types();
    const ScheduleType& type = types[random() % types.size()];
    Case drawn{.name = type.name, .schedule = {}, .costs = {}};
    try {
      drawn.schedule = make_schedule(
          type.name,
          {up_to(5), up_to(8), type.min_chunks + up_to(type.max_chunks.value_or(3) - type.min_chunks + 1) - 1});
    } catch (const InputError&) {
      continue;
    }
    if (random() % 3 == 0) drawn.schedule = with_recompute(std::move(drawn.schedule), Recompute::except_last);
    drawn.costs.stages.clear();
    for (int stage = 0; stage < drawn.schedule.stages(); ++stage)
      drawn.costs.stages.push_back({.forward = 0.5 * up_to(5),
                                    .backward_input = 0.5 * up_to(6) - 0.5,
                                    .backward_weight = 0.5 * up_to(6) - 0.5,
                                    .recompute = 0.5 * up_to(5)});
    const TransferCosts transfer{.latency = 0.3 * (up_to(3) - 1), .occupancy = 0.7 * (up_to(5) - 1)};
    drawn.costs.transfer = [transfer](int, int) { return transfer; };
    if (random() % 3 == 0) drawn.costs.speed = {0.5};
    return drawn;
  }
}

double sum(const TimeByCost& time) {
  return std::accumulate(time.begin(), time.end(), 0.0);
}

/// The makespan with one cost multiplied by a factor.
double makespan_with(const Case& drawn, CostKind kind, double factor) {
  SimulationCosts costs = drawn.costs;
  for (StageCosts& stage : costs.stages) {
    if (kind == CostKind::forward) stage.forward *= factor;
    if (kind == CostKind::backward_input) stage.backward_input *= factor;
    if (kind == CostKind::backward_weight) stage.backward_weight *= factor;
    if (kind == CostKind::recompute) stage.recompute *= factor;
  }
  if (kind == CostKind::transfer) {
    TransferCosts transfer = costs.transfer(0, 1);
    transfer = {.latency = factor * transfer.latency, .occupancy = factor * transfer.occupancy};
    costs.transfer = [transfer](int, int) { return transfer; };
  }
  return simulate(drawn.schedule, costs).step_time;
}

}  // namespace

TEST_CASE("critical path: its actions and messages follow each other without gaps from the begin to the end") {
  std::mt19937 random(1);
  std::size_t queued = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const Case drawn = random_case(random);
    CAPTURE(drawn.name);
    const Simulation simulation = simulate(drawn.schedule, drawn.costs);
    const CriticalPath path = critical_path(drawn.schedule, drawn.costs, simulation.timeline);
    const auto timed = [&](const CriticalStep& step) {
      return simulation.timeline.ranks[static_cast<std::size_t>(step.rank)][static_cast<std::size_t>(step.index)];
    };
    REQUIRE(!path.steps.empty());
    CHECK(timed(path.steps.front()).begin == 0);
    CHECK(path.steps.front().messages.empty());
    CHECK(timed(path.steps.back()).end == close_to(simulation.step_time));
    CHECK(sum(path.time) == close_to(simulation.step_time));
    const auto [latency, occupancy] = drawn.costs.transfer(0, 1);
    for (std::size_t k = 1; k < path.steps.size(); ++k) {
      const CriticalStep& before = path.steps[k - 1];
      const CriticalStep& step = path.steps[k];
      const auto messages = static_cast<double>(step.messages.size());
      CHECK(timed(step).begin - timed(before).end ==
            doctest::Approx(step.messages.empty() ? 0 : messages * occupancy + latency).scale(1));
      CHECK((step.rank == before.rank) == step.messages.empty());
      if (step.messages.empty()) CHECK(step.index == before.index + 1);
      queued += step.messages.size() > 1 ? 1 : 0;
    }
  }
  CHECK(queued > 20);  // paths on which a message waits for the one before it on its link
}

TEST_CASE("critical path: the makespan falls with the gain until another path is critical, and not below it") {
  std::mt19937 random(2);
  int effects = 0;
  int bends = 0;
  int no_gains = 0;
  for (int i = 0; i < 150; ++i) {
    CAPTURE(i);
    const Case drawn = random_case(random);
    CAPTURE(drawn.name);
    const double makespan = simulate(drawn.schedule, drawn.costs).step_time;
    for (const CostEffect& effect : cost_effects(drawn.schedule, drawn.costs)) {
      CAPTURE(name_of(effect.kind));
      ++effects;
      CHECK(effect.gain >= 0);
      CHECK(effect.gain <= effect.time_on_path + 1e-9);
      CHECK(makespan_with(drawn, effect.kind, 0) == close_to(effect.makespan_at_zero));
      const auto line = [&](double factor) { return makespan - effect.gain * (1 - factor); };
      CHECK(effect.makespan_until == close_to(line(effect.until)));
      for (const double share : {0.0, 0.3, 0.9}) {
        const double factor = effect.until + share * (1 - effect.until);
        CHECK(makespan_with(drawn, effect.kind, factor) == close_to(line(factor)).epsilon(1e-7));
      }
      if (effect.gain == 0) {
        ++no_gains;
        CHECK(effect.makespan_at_zero == close_to(makespan));
      } else if (effect.until > 0) {
        ++bends;
        CHECK(makespan_with(drawn, effect.kind, 0.99 * effect.until) > line(0.99 * effect.until) + 1e-7);
      }
    }
  }
  CHECK(effects > 500);
  CHECK(bends > 50);
  CHECK(no_gains > 5);
}

TEST_CASE("critical path: that of zb_h1 stays on a rank where it does not have to leave it") {
  const Schedule schedule = make_schedule("zb_h1", {2, 3});
  const SimulationCosts costs{.stages = {{.forward = 1, .backward_input = 2, .backward_weight = 3}}};
  const CriticalPath path = critical_path(schedule, costs, simulate(schedule, costs).timeline);
  std::string text;
  for (const CriticalStep& step : path.steps) {
    for (const Action& message : step.messages) text += "(" + to_string(message) + ") ";
    const Action& action = schedule.ranks[static_cast<std::size_t>(step.rank)][static_cast<std::size_t>(step.index)];
    text += to_string(action) + " ";
  }
  CHECK(text == "0F0 (0F0) 1F0 1I0 (1I0) 0I0 0W0 0F2 0I1 0W1 0I2 0W2 ");
}

TEST_CASE("critical path: only costs that take time in the schedule have an effect, in the order F, I, W, R, c") {
  const auto names = [](const Schedule& schedule, const SimulationCosts& costs) {
    std::string text;
    for (const CostEffect& effect : cost_effects(schedule, costs)) text += name_of(effect.kind);
    return text;
  };
  const Schedule schedule = make_schedule("1f1b", {2, 2});
  SimulationCosts costs;
  CHECK(names(schedule, costs) == "FIW");
  costs.transfer = [](int, int) { return TransferCosts{.latency = 1}; };
  CHECK(names(with_recompute(schedule, Recompute::always), costs) == "FIWRc");
  CHECK(names(make_schedule("1f1b", {1, 2}), costs) == "FIW");  // no messages
  costs.stages.front().backward_input = 0;
  CHECK(names(schedule, costs) == "FWc");
  CHECK(names(schedule, {.stages = {{.forward = 0, .backward_input = 0, .backward_weight = 0}}}) == "");
}

TEST_CASE("critical path: a schedule that it does not describe is refused") {
  const Schedule schedule = make_schedule("1f1b", {2, 2});
  const auto path = [](const Schedule& s, const SimulationCosts& costs) {
    (void)critical_path(s, costs, simulate(s, costs).timeline);
  };
  CHECK_THROWS_WITH_AS(path(with_loss(schedule, LossForm::on_all), {}),
                       "critical path: expected only F, B, I, W and R, got 1H0", InputError);
  CHECK_THROWS_WITH_AS(cost_effects(with_communication(schedule), {}),
                       "critical path: expected only F, B, I, W and R, got 0SEND_F0", InputError);
  SimulationCosts costs;
  costs.overlap = 0.5;
  CHECK_THROWS_WITH_AS(path(schedule, costs), "critical path: expected no overlap of F and B, got 0.5", InputError);
}

}  // namespace heddle::test::critical_path_test
