// The pass that adds O and L, and what the simulator makes of them.
#include "parallel/pipeline/passes/offload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/schedule_shapes.h"

namespace heddle::test::offload_test {

using enum ActionKind;

namespace {

std::string text(const Schedule& schedule, int rank) {
  std::string result;
  for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)])
    result += (result.empty() ? "" : " ") + to_string(action);
  return result;
}

Schedule one_rank() {
  return with_offload(gpipe({1, 3}), Offload::all);
}

/// `0O0 2-5  0L0 8-11`
std::string host_moves(const Simulation& simulation) {
  std::string text;
  for (const auto& [action, begin, end] : simulation.timeline.host_links[0])
    text += fmt::format("{}{} {}-{}", text.empty() ? "" : "  ", to_string(action), begin, end);
  return text;
}

Simulation simulated(const Schedule& schedule, double cost) {
  return simulate(schedule, {.stages = costs_per_stage({.offload = cost}, schedule.rank_of)});
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

std::size_t count(const Schedule& schedule, ActionKind kind) {
  std::size_t sum = 0;
  for (const auto& list : schedule.ranks)
    sum += static_cast<std::size_t>(
        std::count_if(list.begin(), list.end(), [kind](const Action& action) { return action.kind == kind; }));
  return sum;
}

}  // namespace

TEST_CASE("with_offload: O follows F, and L stands before the backward that precedes its own") {
  CHECK(text(with_offload(gpipe({2, 4}), Offload::all), 0) ==
        "0F0 0O0 0F1 0O1 0F2 0O2 0L0 0F3 0O3 0L1 0B0 0L2 0B1 0L3 0B2 0B3");
  CHECK(text(with_offload(zb_h1({4, 6}), Offload::all), 0) ==
        "0F0 0O0 0F1 0O1 0F2 0O2 0L0 0F3 0O3 0L1 0I0 0W0 0F4 0O4 0L2 0I1 0W1 0F5 0O5 0L3 0I2 0W2 0L4 0I3 0W3 0L5 0I4 "
        "0W4 0I5 0W5");
  CHECK(with_offload(gpipe({2, 4}), Offload::never) == gpipe({2, 4}));
  // Where input parts follow one another, an L stands two of them before its own.
  const Schedule parts = with_offload({4,
                                       {0},
                                       {{{forward, 0, 0},
                                         {forward, 0, 1},
                                         {forward, 0, 2},
                                         {forward, 0, 3},
                                         {backward_input, 0, 0},
                                         {backward_input, 0, 1},
                                         {backward_input, 0, 2},
                                         {backward_input, 0, 3},
                                         {backward_weight, 0, 0},
                                         {backward_weight, 0, 1},
                                         {backward_weight, 0, 2},
                                         {backward_weight, 0, 3}}}},
                                      Offload::all);
  CHECK(text(parts, 0).starts_with("0F0 0O0 0F1 0O1 0F2 0O2 0L0 0L1 0F3 0O3 0L2 0I0 0L3 0I1 0I2 0I3 0W0"));
}

TEST_CASE("with_offload: half is every second micro-batch of one stage, and of several those that wait longest") {
  CHECK(text(with_offload(gpipe({2, 4}), Offload::half), 0) == "0F0 0O0 0F1 0F2 0O2 0L0 0F3 0B0 0L2 0B1 0B2 0B3");
  const Schedule folded = with_offload(make_schedule("zb_v", {4, 8, 2}), Offload::half);
  for (std::size_t rank = 0; rank < 4; ++rank)
    for (const Action& action : folded.ranks[rank])
      if (is_offload_or_load(action.kind)) CHECK(action.stage == static_cast<int>(rank));
  CHECK(count(folded, offload) > 16);
  // The first of a rank's three stages waits longest, the last least; the middle one offloads every second micro-batch.
  const Schedule looped = with_offload(make_schedule("looped_bfs", {2, 4, 3}), Offload::half);
  for (const Action& action : looped.ranks[0])
    if (is_offload_or_load(action.kind))
      CHECK((action.stage == 0 || (action.stage == 2 && action.micro_batch % 2 == 0)));
}

TEST_CASE("with_offload: what the backward needs soon stays") {
  // On the last rank of 1f1b each backward follows its forward.
  const Schedule schedule = with_offload(one_f_one_b({4, 8}), Offload::all);
  CHECK(text(schedule, 3) == text(one_f_one_b({4, 8}), 3));
  CHECK(text(schedule, 0).starts_with("0F0 0O0 0F1 0O1 0F2 0O2 0L0 0F3 0O3 0L1 0B0 0F4"));
}

TEST_CASE("with_offload: refuses schedules that keep nothing, and those that have O and L") {
  CHECK_THROWS_WITH_AS(with_offload({1, {0}, {{{forward, 0, 0}}}}, Offload::all),
                       "offload: expected a schedule with backward: one of forward passes keeps no activations",
                       InputError);
  for (const Recompute recompute : {Recompute::always, Recompute::except_last})
    CHECK_THROWS_WITH_AS(with_offload(with_recompute(gpipe({2, 4}), recompute), Offload::half),
                         "offload: expected a schedule without recomputation, which keeps no activations", InputError);
  CHECK_THROWS_WITH_AS(with_offload(one_rank(), Offload::all),
                       "offload: expected a schedule without O and L of its own", InputError);
}

TEST_CASE("with_communication: an early receive stands one computing action before its use, whatever lies between") {
  const Schedule schedule = with_communication(with_offload(gpipe({2, 3}), Offload::all), Receives::early);
  CHECK(text(schedule, 1) ==
        "1RECV_F0 1RECV_F1 1F0 1O0 1RECV_F2 1F1 1O1 1L0 1F2 1O2 1L1 1B0 1SEND_B0 1L2 1B1 1SEND_B1 1B2 1SEND_B2");
}

TEST_CASE("simulation: transfers follow one another on the rank's link, and a backward waits for its L") {
  CHECK(text(one_rank(), 0) == "0F0 0O0 0F1 0O1 0L0 0F2 0O2 0L1 0B0 0L2 0B1 0B2");
  const Simulation simulation =
      simulate(one_rank(), {.stages = {{.forward = 2, .backward_input = 3, .backward_weight = 4, .offload = 3}}});
  CHECK(host_moves(simulation) == "0O0 2-5  0O1 5-8  0L0 8-11  0O2 11-14  0L1 14-17  0L2 18-21");
  CHECK(simulation.timeline.ranks[0][3].begin == 11);
  CHECK(simulation.step_time == 32);
}

TEST_CASE("simulation: activations leave at the end of O and count again from the begin of L") {
  const auto peaks = [](double cost) {
    const Simulation simulation =
        simulate(one_rank(), {.stages = {{.forward = 2, .backward_input = 3, .backward_weight = 4, .offload = cost}}});
    return std::pair(simulation.peak_activations[0], simulation.peak_offloaded[0]);
  };
  CHECK(peaks(3) == std::pair(3.0, 2.0));  // F2 begins before O0 has ended
  CHECK(peaks(0) == std::pair(2.0, 2.0));
  const Simulation whole = simulate(gpipe({1, 3}), {});
  CHECK(whole.peak_activations[0] == 3);
  CHECK(whole.peak_offloaded[0] == 0);
  CHECK(whole.timeline.host_links.empty());
}

TEST_CASE("simulation: in 1f1b offloading is free up to k = 1, and from then on the link holds the ranks up") {
  const Schedule whole = one_f_one_b({8, 32});
  const Schedule half = with_offload(whole, Offload::half);
  const Schedule all = with_offload(whole, Offload::all);
  const double makespan = simulated(whole, 0).step_time;
  CHECK(largest(simulated(whole, 0).peak_activations) == 8);
  // k = 2 * cost / (F + I + W)
  for (const double cost : {0.25, 0.75, 1.0, 1.5}) {
    CAPTURE(cost);
    CHECK(simulated(half, cost).step_time == makespan);
    CHECK(simulated(all, cost).step_time == makespan);
  }
  CHECK(largest(simulated(all, 0.75).peak_activations) == 2);
  CHECK(largest(simulated(all, 1.5).peak_activations) == 4);
  CHECK(largest(simulated(half, 0.75).peak_activations) == 5);
  CHECK(simulated(all, 3).step_time > 1.7 * makespan);
  CHECK(simulated(half, 3).step_time < 1.4 * makespan);
}

TEST_CASE("simulation: the table of docs/pipelines.md, for 8 ranks and 32 micro-batches") {
  struct Row {
    const char* name;
    int chunks;
    double peak;
    /// For half at k = 0.5 and 1 and all at k = 0.5, 1 and 2: makespan over that without offloading, and peak.
    std::array<std::pair<double, double>, 5> offloaded;
  };
  const std::array rows{
      Row{"gpipe", 1, 32, {{{1.004, 17}, {1.017, 17}, {1.004, 2}, {1.154, 12}, {1.846, 22}}}},
      Row{"1f1b", 1, 8, {{{1, 5}, {1, 5}, {1, 2}, {1, 4}, {1.795, 6}}}},
      Row{"zb_h1", 1, 8, {{{1, 5}, {1.019, 5}, {1, 2}, {1.063, 4}, {1.990, 6}}}},
      Row{"interleaved", 2, 11.5, {{{1, 5}, {1, 6}, {1, 1}, {1.021, 4.5}, {1.901, 8}}}},
      Row{"zb_v", 2, 8, {{{1, 4.5}, {1.005, 4.5}, {1.003, 1.5}, {1.090, 3.5}, {2.055, 6}}}},
      Row{"v_half", 2, 4.5, {{{1, 3}, {1, 3}, {1, 1.5}, {1.142, 1.5}, {1.892, 2}}}},
  };
  constexpr std::array settings{std::pair(Offload::half, 0.5), std::pair(Offload::half, 1.0),
                                std::pair(Offload::all, 0.5), std::pair(Offload::all, 1.0),
                                std::pair(Offload::all, 2.0)};
  for (const Row& row : rows) {
    const Schedule schedule = make_schedule(row.name, {8, 32, row.chunks});
    const Simulation whole = simulated(schedule, 0);
    CHECK(largest(whole.peak_activations) == row.peak);
    for (std::size_t i = 0; i < settings.size(); ++i) {
      CAPTURE(row.name);
      CAPTURE(i);
      const auto [mode, k] = settings[i];
      const Simulation offloaded = simulated(with_offload(schedule, mode), 1.5 * k);
      CHECK(std::abs(offloaded.step_time / whole.step_time - row.offloaded[i].first) < 0.0006);
      CHECK(largest(offloaded.peak_activations) == row.offloaded[i].second);
    }
  }
}

TEST_CASE("simulation: at k = 0.5 offloading everything costs at most 1 %, whatever the schedule") {
  for (const ScheduleType& type : schedule_types()) {
    const Schedule schedule = make_schedule(type.name, {8, 32, type.min_chunks});
    CHECK_MESSAGE(
        simulated(with_offload(schedule, Offload::all), 0.75).step_time < 1.01 * simulated(schedule, 0).step_time,
        type.name);
  }
}

TEST_CASE("simulation: half of a rank's stages, those that wait longest, are more than half of the peak") {
  for (const char* const name : {"interleaved", "interleaved_zb_long"}) {
    CAPTURE(name);
    const Schedule whole = make_schedule(name, {8, 32, 2});
    const Simulation before = simulated(whole, 0);
    const Simulation after = simulated(with_offload(whole, Offload::half), 0.75);
    CHECK(after.step_time == before.step_time);
    CHECK(largest(after.peak_activations) < 0.45 * largest(before.peak_activations));
  }
}

TEST_CASE("simulation: no schedule holds more with offloading, and none is faster") {
  for (const ScheduleType& type : schedule_types())
    for_each_shape(type.name, [](const ScheduleShape& /*shape*/, const Schedule& schedule) {
      const Simulation whole = simulated(schedule, 0);
      for (const Offload mode : {Offload::half, Offload::all})
        for (const double cost : {0.0, 1.0}) {
          const Simulation offloaded = simulated(with_offload(schedule, mode), cost);
          REQUIRE(offloaded.step_time >= whole.step_time);
          for (std::size_t rank = 0; rank < whole.peak_activations.size(); ++rank)
            REQUIRE(offloaded.peak_activations[rank] <= whole.peak_activations[rank]);
        }
    });
}

}  // namespace heddle::test::offload_test
