// The parts of a loss over all ranks (J, S and T): where with_loss puts them, what walks and simulations make of them,
// and what validation says of wrong ones.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "framework/scalars/random.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/passes/offload.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "parallel/pipeline/validation.h"

namespace heddle::test::loss_in_parts_test {

namespace {

constexpr LossForm in_parts[] = {LossForm::in_two_exchanges, LossForm::in_one_exchange};

Schedule with_parts(const Schedule& schedule) {
  return with_loss(schedule, LossForm::in_two_exchanges);
}

std::string text_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)])
    text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

std::vector<Action> without_parts(const std::vector<Action>& list) {
  std::vector<Action> rest;
  for (const Action& action : list)
    if (!is_loss(action.kind)) rest.push_back(action);
  return rest;
}

std::string fault_of(const Schedule& schedule) {
  const auto fault = validate(schedule);
  return fault ? std::to_string(fault->rank) + "/" + std::to_string(fault->index) + ": " + fault->why : "";
}

/// The place of an action in a rank's list.
std::ptrdiff_t place_of(const Schedule& schedule, int rank, const Action& action) {
  const std::vector<Action>& list = schedule.ranks[static_cast<std::size_t>(rank)];
  return std::find(list.begin(), list.end(), action) - list.begin();
}

double makespan(const Schedule& schedule, const StageCosts& costs) {
  return simulate(schedule, {.stages = {costs}}).step_time;
}

}  // namespace

TEST_CASE("with_loss in parts: on one rank, J, S and T follow F") {
  CHECK(text_of(with_parts(one_f_one_b({1, 2})), 0) == "0F0 0J0 0S0 0T0 0B0 0F1 0J1 0S1 0T1 0B1");
}

TEST_CASE("with_loss in parts: ranks compute between the parts of a micro-batch") {
  const Schedule schedule = with_parts(one_f_one_b_plus_2({2, 4}));
  CHECK(text_of(schedule, 0) == "1J0 0F0 0F1 1S0 1T0 1J1 0F2 1S1 1T1 1J2 0F3 1S2 1T2 1J3 0B0 1S3 0B1 1T3 0B2 0B3");
  CHECK(text_of(schedule, 1) == "1F0 1J0 1S0 1T0 1F1 1J1 1S1 1T1 1F2 1J2 1S2 1T2 1B0 1F3 1J3 1B1 1S3 1T3 1B2 1B3");
}

TEST_CASE("with_loss in parts: under every schedule all ranks take the parts in one order, and nothing waits forever") {
  RandomStream draws({3}, Purpose::test, 0, 0);
  for (const ScheduleType& type : schedule_types())
    for (int i = 0; i < 12; ++i) {
      const int ranks = 2 * (1 + static_cast<int>(draws.below(4)));
      const int micro_batches = 2 * ranks * (1 + static_cast<int>(draws.below(2)));
      const Schedule computing = make_schedule(type.name, {ranks, micro_batches, default_chunks(type.name)});
      CAPTURE(type.name);
      CAPTURE(ranks);
      CAPTURE(micro_batches);
      Schedule schedule = with_recompute(computing, draws.below(2) == 0 ? Recompute::always : Recompute::never);
      if (draws.below(2) == 0 && schedule == computing) schedule = with_offload(schedule, Offload::all);
      const Schedule parts = with_loss(schedule, in_parts[draws.below(2)]);
      // Rows are kept in the order of T: that of a head at once.
      int before = -1;
      for (const Action& action : parts.ranks[0])
        if (action.kind == ActionKind::loss_gradient && type.copies == 1)
          CHECK(action.micro_batch == std::exchange(before, action.micro_batch) + 1);
      for (std::size_t rank = 0; rank < parts.ranks.size(); ++rank)
        CHECK(without_parts(parts.ranks[rank]) == schedule.ranks[rank]);
      const Schedule whole = with_communication(parts, draws.below(2) == 0 ? Receives::early : Receives::at_use);
      CHECK(fault_of(whole) == "");
    }
}

TEST_CASE("1f1b_plus_2 and 1f1b_plus_1 with a loss in two exchanges and in one: the bubble of 1f1b, whatever S costs") {
  constexpr int p = 8;
  constexpr int m = 64;
  for (const double sums : {0.3, 1.0, 3.0, 30.0})
    for (const double backward : {0.75, 1.0}) {
      CAPTURE(sums);
      CAPTURE(backward);
      StageCosts costs;
      costs.backward_input = costs.backward_weight = backward;
      costs.loss = sums;
      const double work = m * (1 + 2 * backward + sums);
      const double bubble = (p - 1) * (1 + 2 * backward);
      const double at_once = makespan(with_loss(one_f_one_b({p, m}), LossForm::on_all), costs);  // ranks wait for all
      for (const double makespan_in_parts :
           {makespan(with_loss(one_f_one_b_plus_2({p, m}), LossForm::in_two_exchanges), costs),
            makespan(with_loss(one_f_one_b_plus_1({p, m}), LossForm::in_one_exchange), costs)}) {
        CHECK(makespan_in_parts > work + bubble - 1e-9);
        CHECK(makespan_in_parts < work + bubble + 3 * (1 + 2 * backward) + sums);
        CHECK(makespan_in_parts < at_once);
      }
    }
}

TEST_CASE(
    "simulate: S waits for the J of the last stage's rank and its messages, T for S, and the last stage's backward for "
    "T") {
  const Schedule schedule = with_parts(one_f_one_b({2, 1}));
  CHECK(text_of(schedule, 0) == "1J0 0F0 1S0 1T0 0B0");
  CHECK(text_of(schedule, 1) == "1F0 1J0 1S0 1T0 1B0");
  StageCosts costs;
  costs.loss = 3;
  SimulationCosts all{.stages = {costs}, .loss_messages = {.outputs = 10, .sums = 100, .gradient = 1000}};
  const Simulation simulation = simulate(schedule, all);
  const std::vector<TimedAction>& first = simulation.timeline.ranks[0];
  const std::vector<TimedAction>& last = simulation.timeline.ranks[1];
  CHECK(last[1].begin == 2);  // J, after both F
  CHECK(first[2].begin == 12);
  CHECK(last[2].begin == 12);
  CHECK(last[2].end == 15);
  CHECK(last[3].begin == 115);
  CHECK(last[4].begin == 1115);
  CHECK(first[4].begin == 1117);
  CHECK(simulation.step_time == 1119);
  // A slow rank's S delays the T of all, and no more.
  all.speed = {0.5};
  CHECK(simulate(schedule, all).timeline.ranks[1][3].begin == 1 + 2 + 10 + 6 + 100);
}

TEST_CASE("in one exchange the last stage's backward waits for the S of all ranks, and T for nothing else") {
  Schedule schedule = with_loss(one_f_one_b({2, 1}), LossForm::in_one_exchange);
  std::vector<Action>& last = schedule.ranks[1];
  CHECK(text_of(schedule, 1) == "1F0 1J0 1S0 1T0 1B0");
  std::swap(last[3], last[4]);  // B before T
  CHECK(fault_of(schedule) == "");
  StageCosts costs;
  costs.loss = 3;
  const SimulationCosts all{.stages = {costs}, .loss_messages = {.outputs = 10, .sums = 100, .gradient = 1000}};
  const std::vector<TimedAction> timed = simulate(schedule, all).timeline.ranks[1];
  CHECK(timed[2].end == 15);
  CHECK(timed[3].begin == 1015);
  CHECK(timed[4].begin == 1017);
  std::swap(last[2], last[3]);  // B before S
  CHECK(fault_of(schedule) == "1/2: 1B0: before its input 1S0");
}

TEST_CASE("walk: a T waits for the S of all ranks") {
  Schedule schedule = with_parts(one_f_one_b({2, 1}));
  std::vector<Action>& list = schedule.ranks[0];
  list.erase(list.begin() + place_of(schedule, 0, {ActionKind::loss_sums, 1, 0}));
  const Walk walked = walk(schedule);
  CHECK_FALSE(walked.complete(schedule));
  CHECK(walked.waits_for[1] == Action{ActionKind::loss_sums, 1, 0});
}

TEST_CASE("validate: the parts of a loss") {
  using enum ActionKind;
  const Schedule schedule = with_parts(one_f_one_b({2, 2}));
  CHECK(fault_of(schedule) == "");
  const auto changed = [&](int rank, const auto& change) {
    Schedule wrong = schedule;
    change(wrong.ranks[static_cast<std::size_t>(rank)]);
    return fault_of(wrong);
  };
  const auto without = [&](int rank, const Action& action) {
    return changed(rank,
                   [&](std::vector<Action>& list) { list.erase(list.begin() + place_of(schedule, rank, action)); });
  };
  CHECK(without(0, {loss_broadcast, 1, 0}) == "0/2: 1S0: before its input 1J0");
  const Schedule of_last = [&] {
    Schedule wrong = one_f_one_b({2, 1});
    wrong.ranks[1] = {
        {forward, 1, 0}, {loss_broadcast, 1, 0}, {loss_sums, 1, 0}, {loss_gradient, 1, 0}, {backward, 1, 0}};
    return wrong;
  }();
  CHECK(fault_of(of_last) == "0/2: 1J0: is missing");
  CHECK(without(0, {loss_sums, 1, 1}).ends_with("1T1: before its input 1S1"));
  CHECK(without(0, {loss_gradient, 1, 1}).ends_with("1T1: is missing"));
  CHECK(without(1, {loss_gradient, 1, 0}).ends_with("1B0: before its input 1T0"));
  CHECK(changed(0, [](std::vector<Action>& list) {
          list.insert(list.begin(), {loss, 1, 0});
        }) == "0/0: 1H0: in addition to J, S and T");
  CHECK(changed(0, [](std::vector<Action>& list) {
          list.push_back({loss_sums, 1, 0});
        }).ends_with("1S0: appears twice"));
  CHECK(changed(0, [](std::vector<Action>& list) { list.front().stage = 0; }) ==
        "0/0: 0J0: the loss follows the last stage, 1");
  CHECK(changed(1, [](std::vector<Action>& list) { std::swap(list[0], list[1]); }) == "1/0: 1J0: before its input 1F0");
  Schedule wrong = with_parts(gpipe({2, 2}));
  std::vector<Action>& list = wrong.ranks[0];
  const std::ptrdiff_t second = place_of(wrong, 0, {loss_broadcast, 1, 1});
  list.erase(list.begin() + second);
  list.insert(list.begin(), {loss_broadcast, 1, 1});
  CHECK(fault_of(wrong) == "1/1: 1J0: rank 0 takes 1J1 first");
}

}  // namespace heddle::test::loss_in_parts_test
