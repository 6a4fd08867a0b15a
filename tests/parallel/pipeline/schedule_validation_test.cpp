// Which schedules can be executed, and the errors about those that cannot.
#include <algorithm>
#include <initializer_list>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/passes/offload.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedule_csv.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/validation.h"
#include "tests/support/devices.h"
#include "tests/support/schedule_shapes.h"

namespace heddle::test::schedule_validation_test {

using enum ActionKind;

namespace {

/// Two ranks, two micro-batches.
Schedule small() {
  return one_f_one_b({2, 2});
}

Schedule with_cell(Schedule schedule, int rank, int index, Action action) {
  schedule.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)] = action;
  return schedule;
}

Schedule without_cell(Schedule schedule, int rank, int index) {
  auto& list = schedule.ranks[static_cast<std::size_t>(rank)];
  list.erase(list.begin() + index);
  return schedule;
}

Schedule with_swapped(Schedule schedule, int rank, int a, int b) {
  auto& list = schedule.ranks[static_cast<std::size_t>(rank)];
  std::swap(list[static_cast<std::size_t>(a)], list[static_cast<std::size_t>(b)]);
  return schedule;
}

/// `rank/index: why`, or nothing.
std::string fault_of(const Schedule& schedule) {
  const auto fault = validate(schedule);
  return fault ? std::to_string(fault->rank) + "/" + std::to_string(fault->index) + ": " + fault->why : "";
}

/// One stage per rank, and one micro-batch whose backward is in two parts.
Schedule in_parts(std::initializer_list<Action> list) {
  return {1, looped_stages(1, 1), {std::vector<Action>(list)}};
}

/// Lists that can be executed, otherwise at random: stages on any rank, micro-batches in any order, backward whole or
/// in parts, pairs that overlap.
class RandomSchedule {
 public:
  explicit RandomSchedule(unsigned seed) : random_(seed) {}

  Schedule make() {
    const int stages = 1 + below(6);
    const int ranks = 1 + below(stages);
    std::vector<int> rank_of;
    for (int s = 0; s < stages; ++s) rank_of.push_back(s < ranks ? s : below(ranks));
    std::shuffle(rank_of.begin(), rank_of.end(), random_);
    schedule_ = empty_schedule(1 + below(6), rank_of);
    done_.clear();
    for (std::size_t left = 3 * rank_of.size() * static_cast<std::size_t>(schedule_.micro_batches); left > 0;) {
      left -= step(below(ranks));
    }
    return std::move(schedule_);
  }

 private:
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  /// Which actions a rank could begin with now.
  std::vector<Action> ready(int rank) {
    std::vector<Action> actions;
    const auto is_done = [&](ActionKind kind, int s, int i) { return done_.contains({kind, s, i}); };
    const int last = schedule_.stages() - 1;
    for (int s = 0; s <= last; ++s) {
      if (schedule_.rank_of[static_cast<std::size_t>(s)] != rank) continue;
      for (int i = 0; i < schedule_.micro_batches; ++i) {
        if (!is_done(forward, s, i)) {
          if (s == 0 || is_done(forward, s - 1, i)) actions.push_back({forward, s, i});
        } else if (!is_done(backward_input, s, i)) {
          if (s < last && !is_done(backward_input, s + 1, i)) continue;
          actions.push_back({(s + i) % 3 == 0 ? backward : backward_input, s, i});
        } else if (!is_done(backward_weight, s, i)) {
          actions.push_back({backward_weight, s, i});
        }
      }
    }
    return actions;
  }

  /// Returns how many parts of the work were done.
  std::size_t step(int rank) {
    std::vector<Action> actions = ready(rank);
    if (actions.empty()) return 0;
    std::shuffle(actions.begin(), actions.end(), random_);
    const auto is_pair = [&](const Action& other) {
      return (actions.front().kind == forward && is_backward(other.kind)) ||
             (is_backward(actions.front().kind) && other.kind == forward);
    };
    const auto other = std::find_if(actions.begin(), actions.end(), is_pair);
    const bool overlapped = other != actions.end() && below(2) == 0;
    std::size_t parts = finish(rank, actions.front(), overlapped);
    if (overlapped) parts += finish(rank, *other, false);
    return parts;
  }

  std::size_t finish(int rank, Action action, bool overlaps_next) {
    const auto [kind, s, i, overlaps] = action;
    action.overlaps_next = overlaps_next;
    schedule_.ranks[static_cast<std::size_t>(rank)].push_back(action);
    done_.insert({kind == backward ? backward_input : kind, s, i});
    if (kind == backward) done_.insert({backward_weight, s, i});
    return kind == backward ? 2 : 1;
  }

  std::mt19937 random_;
  Schedule schedule_;
  std::set<std::tuple<ActionKind, int, int>> done_;
};

/// Checks that what the passes make of a schedule can be executed.
void check_passes(const Schedule& schedule) {
  REQUIRE(fault_of(schedule) == "");
  REQUIRE(from_csv(to_csv(schedule), "written") == schedule);
  for (const Recompute recompute : {Recompute::never, Recompute::always, Recompute::except_last}) {
    const Schedule recomputed = with_recompute(schedule, recompute);
    for (const LossForm loss : {LossForm::on_last_stage, LossForm::on_all}) {
      const Schedule lossy = with_loss(recomputed, loss);
      REQUIRE(fault_of(lossy) == "");
      for (const Receives receives : {Receives::at_use, Receives::early}) {
        REQUIRE(fault_of(with_communication(lossy, receives)) == "");
      }
    }
  }
  for (const Offload offload : {Offload::half, Offload::all}) {
    const Schedule offloaded = with_offload(schedule, offload);
    REQUIRE(fault_of(offloaded) == "");
    REQUIRE(from_csv(to_csv(offloaded), "written") == offloaded);
    for (const LossForm loss : {LossForm::on_last_stage, LossForm::on_all})
      for (const Receives receives : {Receives::at_use, Receives::early})
        REQUIRE(fault_of(with_communication(with_loss(offloaded, loss), receives)) == "");
  }
}

}  // namespace

TEST_CASE(
    "validate: what passes make of any lists that can be executed can be executed, and their CSV is the same lists") {
  RandomSchedule random(1);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    check_passes(random.make());
  }
}

TEST_CASE("validate: what passes make of every schedule of any shape can be executed, and its CSV is the same lists" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const ScheduleType& type : schedule_types()) {
    int made = 0;
    test::for_each_shape(type.name, [&](const ScheduleShape& /*shape*/, const Schedule& schedule) {
      ++made;
      check_passes(schedule);
    });
    CHECK_MESSAGE(made >= (type.copies > 1 ? 16 : 60), type.name);
  }
}

TEST_CASE("validate: names the first wrong cell") {
  CHECK(fault_of(small()) == "");
  CHECK(fault_of(with_cell(small(), 0, 1, {forward, 2, 0})) == "0/1: 2F0: there are 2 stages");
  CHECK(fault_of(with_cell(small(), 0, 1, {forward, 0, 2})) == "0/1: 0F2: there are 2 micro-batches");
  CHECK(fault_of(with_cell(small(), 0, 1, {forward, -1, 0})) == "0/1: -1F0: there are 2 stages");
  CHECK(fault_of(with_cell(small(), 1, 2, {forward, 0, 1})) == "1/2: 0F1: stage 0 is on rank 0");
  CHECK(fault_of(with_cell(small(), 0, 1, {forward, 0, 0})) == "0/1: 0F0: appears twice");
  CHECK(fault_of(without_cell(small(), 1, 3)) == "1/3: 1B1: is missing");
  CHECK(fault_of(with_swapped(small(), 1, 0, 1)) == "1/0: 1B0: before its input 1F0");
  CHECK(fault_of({0, {0}, {{}}}) == "0/0: there is nothing to compute");
  CHECK(fault_of({1, {0, 1}, {{}}}) == "0/0: stage 1 is on rank 1, there are 1 ranks");
}

TEST_CASE(
    "validate: the second copy of each stage is the mirror image of the first, and odd micro-batches go through it") {
  const Schedule schedule = chimera({4, 4});
  CHECK(fault_of(schedule) == "");
  CHECK(fault_of(with_cell(schedule, 0, 1, {forward, 0, 1})) == "0/1: 0F1: stage 0 is on rank 3 for this micro-batch");
  CHECK(fault_of(without_cell(schedule, 3, 0)) == "3/5: 0B1: before its input 0F1");
  CHECK(fault_of(without_cell(schedule, 3, 7)) == "3/7: 0B3: is missing");
  Schedule wrong = schedule;
  wrong.second_rank_of = {3, 1, 2, 0};
  CHECK(fault_of(wrong) == "0/0: the second copy of stage 1 is on rank 1, expected rank 2, the mirror image of rank 1");
  wrong.second_rank_of = {3, 2, 1};
  CHECK(fault_of(wrong) == "0/0: the second copy has 3 stages, the first one 4");
  CHECK(fault_of(empty_schedule_of_two_copies(4, looped_stages(3, 1))) ==
        "0/0: two copies of each stage need an even number of ranks, there are 3");
  CHECK(fault_of(empty_schedule_of_two_copies(3, looped_stages(4, 1))) ==
        "0/0: two copies of each stage need an even number of micro-batches, there are 3");
  // Each last stage's rank has the losses of its own micro-batches.
  const Schedule lossy = with_loss(schedule, LossForm::on_last_stage);
  CHECK(fault_of(lossy) == "");
  CHECK(lossy.ranks[0][3] == Action{loss, 3, 1});
  CHECK(fault_of(without_cell(lossy, 0, 3)) == "0/3: 3B1: before its input 3H1");
}

TEST_CASE("validate: a backward is one action, or an input part before a weight part") {
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward_input, 0, 0}, {backward_weight, 0, 0}})) == "");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward_weight, 0, 0}, {backward_input, 0, 0}})) ==
        "0/1: 0W0: before its input 0I0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward_input, 0, 0}})) == "0/2: 0W0: is missing");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward_input, 0, 0}, {backward, 0, 0}})) ==
        "0/2: 0B0: in addition to 0I0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward, 0, 0}, {backward_weight, 0, 0}})) ==
        "0/2: 0W0: in addition to 0B0");
}

TEST_CASE("validate: recomputation lies between forward and backward, the loss before the last stage's backward") {
  CHECK(fault_of(in_parts({{recompute, 0, 0}, {forward, 0, 0}, {backward, 0, 0}})) == "0/0: 0R0: before its input 0F0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward, 0, 0}, {recompute, 0, 0}})) == "0/2: 0R0: after its backward");
  CHECK(fault_of(in_parts({{loss, 0, 0}, {forward, 0, 0}, {backward, 0, 0}})) == "0/0: 0H0: before its input 0F0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward, 0, 0}, {loss, 0, 0}})) == "0/1: 0B0: before its input 0H0");
  Schedule schedule = with_loss(small(), LossForm::on_all);
  CHECK(fault_of(without_cell(schedule, 0, 2)) == "0/5: 1H0: is missing");
  CHECK(fault_of(with_cell(schedule, 0, 2, {loss, 0, 0})) == "0/2: 0H0: the loss follows the last stage, 1");
  CHECK(fault_of(with_cell(schedule, 0, 4, {loss, 1, 0})) == "0/4: 1H0: appears twice");
}

TEST_CASE("validate: O follows F, L follows O, and the backward follows L") {
  CHECK(fault_of(in_parts({{forward, 0, 0}, {offload, 0, 0}, {load, 0, 0}, {backward, 0, 0}})) == "");
  CHECK(fault_of(in_parts({{offload, 0, 0}, {forward, 0, 0}, {load, 0, 0}, {backward, 0, 0}})) ==
        "0/0: 0O0: before its input 0F0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {load, 0, 0}, {backward, 0, 0}})) == "0/1: 0L0: before its input 0O0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {offload, 0, 0}, {backward, 0, 0}, {load, 0, 0}})) ==
        "0/2: 0B0: before its input 0L0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {offload, 0, 0}, {backward_input, 0, 0}, {backward_weight, 0, 0}})) ==
        "0/2: 0I0: before its input 0L0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {backward, 0, 0}, {offload, 0, 0}})) == "0/2: 0O0: after its backward");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {offload, 0, 0}, {load, 0, 0}, {load, 0, 0}, {backward, 0, 0}})) ==
        "0/3: 0L0: appears twice");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {offload, 0, 0}, {load, 0, 0}})) == "0/3: 0B0: is missing");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {offload, 0, 0}, {recompute, 0, 0}, {load, 0, 0}, {backward, 0, 0}})) ==
        "0/2: 0R0: in addition to 0O0");
  CHECK(fault_of(in_parts({{forward, 0, 0}, {recompute, 0, 0}, {offload, 0, 0}, {load, 0, 0}, {backward, 0, 0}})) ==
        "0/2: 0O0: in addition to 0R0");
}

TEST_CASE("walk: a backward waits for the L of what was offloaded, and an L for its O") {
  const auto waits_for = [](std::initializer_list<Action> list) {
    const Walk walked = walk(in_parts(list));
    return std::to_string(walked.reached[0]) + ": " + to_string(walked.waits_for[0]);
  };
  CHECK(waits_for({{forward, 0, 0}, {offload, 0, 0}, {backward, 0, 0}}) == "2: 0L0");
  CHECK(waits_for({{forward, 0, 0}, {load, 0, 0}, {backward, 0, 0}}) == "1: 0O0");
  CHECK(waits_for({{offload, 0, 0}, {forward, 0, 0}}) == "0: 0F0");
}

TEST_CASE("validate: an overlapped pair is one forward and one backward that need nothing of each other") {
  Schedule schedule = one_f_one_b({1, 2});
  schedule.ranks[0] = {{forward, 0, 0}, {forward, 0, 1, true}, {backward, 0, 0}, {backward, 0, 1}};
  CHECK(fault_of(schedule) == "");
  CHECK(fault_of(with_cell(schedule, 0, 3, {backward, 0, 1, true})) ==
        "0/3: 0B1: overlaps the next action, but there is none");
  CHECK(fault_of(with_cell(schedule, 0, 0, {forward, 0, 0, true})) ==
        "0/0: 0F0: overlaps, but the pair is not one forward and one backward of different cells");
  CHECK(fault_of(with_cell(one_f_one_b({1, 1}), 0, 0, {forward, 0, 0, true})) ==
        "0/0: 0F0: overlaps, but the pair is not one forward and one backward of different cells");
}

TEST_CASE("validate: messages follow what they send, are received before use, and in the order of their pair") {
  const Schedule schedule = with_communication(small());
  // 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 ..; 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 ..
  CHECK(fault_of(without_cell(schedule, 0, 3)) == "0/7: 0SEND_F1: is missing");
  CHECK(fault_of(with_swapped(schedule, 0, 0, 1)) == "0/0: 0SEND_F0: before its input 0F0");
  CHECK(fault_of(with_swapped(schedule, 1, 0, 1)) == "1/0: 1F0: before its input 1RECV_F0");
  CHECK(fault_of(without_cell(schedule, 1, 4)) == "1/4: 1F1: before its input 1RECV_F1");
  CHECK(fault_of(with_swapped(schedule, 0, 4, 6)) == "0/5: 0B0: before its input 0RECV_B0");
  CHECK(fault_of(with_cell(schedule, 1, 3, {send_forward, 1, 0})) == "1/3: 1SEND_F0: there is no stage 2");
  CHECK(fault_of(with_cell(schedule, 1, 0, {recv_backward, 1, 0})) == "1/0: 1RECV_B0: there is no stage 2");

  Schedule swapped = with_communication(gpipe({2, 2}));
  // 1: 1RECV_F0 1F0 1RECV_F1 1F1 ..; receive both first, the second before the first.
  std::swap(swapped.ranks[1][1], swapped.ranks[1][2]);
  CHECK(fault_of(swapped) == "");
  std::swap(swapped.ranks[1][0], swapped.ranks[1][1]);
  CHECK(fault_of(swapped) == "1/0: 1RECV_F1: rank 0 sends 0SEND_F0 first");

  Schedule forward_only = with_communication({1, {0, 1}, {{{forward, 0, 0}}, {{forward, 1, 0}}}});
  CHECK(fault_of(forward_only) == "");
  forward_only.ranks[0].push_back({ActionKind::recv_backward, 0, 0});
  CHECK(fault_of(forward_only) == "0/2: 0RECV_B0: no rank sends it");

  Schedule folded =
      with_communication({1, {0, 0}, {{{forward, 0, 0}, {forward, 1, 0}, {backward, 1, 0}, {backward, 0, 0}}}});
  folded.ranks[0].insert(folded.ranks[0].begin() + 1, Action{send_forward, 0, 0});
  CHECK(fault_of(folded) == "0/1: 0SEND_F0: stage 1 is on the same rank");
}

TEST_CASE("validate: ranks that wait for each other are named with their cells") {
  Schedule schedule{2, looped_stages(2, 1), {}};
  schedule.ranks.push_back({{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}});
  schedule.ranks.push_back({{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 0}, {backward, 1, 1}});
  CHECK(fault_of(schedule) == "0/1: 0B0: deadlock: rank 0 waits in 0B0 for 1B0, rank 1 waits in 1F1 for 0F1");
  CHECK(fault_of(with_communication(schedule)) ==
        "0/3: 0B0: deadlock: rank 0 waits in 0B0 for 1SEND_B0, rank 1 waits in 1F1 for 0SEND_F1");

  // The loss is a collective: rank 0 comes to that of micro-batch 0 only after a gradient that needs it.
  Schedule lossy = with_loss(one_f_one_b({2, 3}), LossForm::on_all);
  std::swap(lossy.ranks[0][2], lossy.ranks[0][3]);
  CHECK(fault_of(lossy) == "0/2: 0B0: deadlock: rank 0 waits in 0B0 for 1B0, rank 1 waits in 1H0 for 1H0");
}

TEST_CASE("check: draws the cells around the fault") {
  CHECK_NOTHROW(check(small(), "small"));
  CHECK_THROWS_WITH_AS(check(with_cell(small(), 1, 2, {forward, 1, 0}), "small"),
                       "small: rank 1, cell 3: 1F0: appears twice\n"
                       "rank 0    0F0      0F1      0B0      0B1\n"
                       "rank 1    1F0      1B0     >1F0<     1B1\n",
                       InputError);
  const Schedule schedule = without_cell(gpipe({2, 8}), 1, 15);
  CHECK(draw_around(schedule, *validate(schedule)) ==
        "rank 0   ..  0B3      0B4      0B5      0B6      0B7\n"
        "rank 1   ..  1B3      1B4      1B5      1B6     ><\n");
}

}  // namespace heddle::test::schedule_validation_test
