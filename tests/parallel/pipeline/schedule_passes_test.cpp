// Passes over schedules: where they put R, H, sends and receives.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

std::string text(const Schedule& schedule, int rank) {
  std::string result;
  for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
    result += (result.empty() ? "" : " ") + to_string(action);
  }
  return result;
}

/// A schedule of two ranks: 0 has stages 0 and 3, 1 has stages 1 and 2; rank 1 computes 2F1 beside 1B0.
Schedule overlapped() {
  using enum ActionKind;
  Schedule schedule{2, folded_stages(2), {}};
  schedule.ranks.push_back({{forward, 0, 0},
                            {forward, 0, 1},
                            {forward, 3, 0},
                            {backward, 3, 0},
                            {forward, 3, 1, true},
                            {backward, 0, 0},
                            {backward, 3, 1},
                            {backward, 0, 1}});
  schedule.ranks.push_back({{forward, 1, 0},
                            {forward, 2, 0},
                            {forward, 1, 1},
                            {backward, 2, 0},
                            {forward, 2, 1, true},
                            {backward, 1, 0},
                            {backward, 2, 1},
                            {backward, 1, 1}});
  return schedule;
}

}  // namespace

TEST_CASE("with_recompute: R stands right before the backward of what is recomputed") {
  const Schedule schedule = one_f_one_b({2, 2});
  CHECK(text(with_recompute(schedule, Recompute::always), 0) == "0F0 0F1 0R0 0B0 0R1 0B1");
  CHECK(text(with_recompute(schedule, Recompute::always), 1) == "1F0 1R0 1B0 1F1 1R1 1B1");
  CHECK(text(with_recompute(schedule, Recompute::except_last), 0) == "0F0 0F1 0R0 0B0 0B1");
  CHECK(with_recompute(schedule, Recompute::never) == schedule);
  CHECK(with_recompute(schedule, Recompute::sqrt) == schedule);
}

TEST_CASE("with_recompute: an overlapped pair stays together, R before it") {
  CHECK(text(with_recompute(overlapped(), Recompute::always), 1) == "1F0 2F0 1F1 2R0 2B0 1R0 2F1 1B0 2R1 2B1 1R1 1B1");
}

TEST_CASE("with_loss: on the last stage's rank alone, H follows its F") {
  const Schedule schedule = with_loss(one_f_one_b({2, 3}), LossForm::on_last_stage);
  CHECK(text(schedule, 0) == "0F0 0F1 0B0 0F2 0B1 0B2");
  CHECK(text(schedule, 1) == "1F0 1H0 1B0 1F1 1H1 1B1 1F2 1H2 1B2");
}

TEST_CASE("with_loss: a loss on all ranks stands between forward and backward if every rank has such a point") {
  const Schedule schedule = with_loss(with_recompute(gpipe({2, 2}), Recompute::always), LossForm::on_all);
  CHECK(text(schedule, 0) == "0F0 0F1 1H0 1H1 0R0 0B0 0R1 0B1");
  CHECK(text(schedule, 1) == "1F0 1F1 1H0 1H1 1R0 1B0 1R1 1B1");
}

TEST_CASE("with_loss: otherwise a loss on all ranks stands where the last stage's F has ended") {
  const Schedule schedule = with_loss(one_f_one_b({2, 3}), LossForm::on_all);
  CHECK(text(schedule, 0) == "0F0 0F1 1H0 0B0 1H1 0F2 0B1 1H2 0B2");
  CHECK(text(schedule, 1) == "1F0 1H0 1B0 1F1 1H1 1B1 1F2 1H2 1B2");
  CHECK(walk(schedule).complete(schedule));
}

TEST_CASE("with_loss: the H of eager_1f1b divide it into periods without messages that are needed in the same period") {
  const Schedule schedule = with_loss(eager_1f1b({3, 6}), LossForm::on_all);
  CHECK(text(schedule, 0) == "0F0 0F1 0F2 2H0 0F3 2H1 0F4 2H2 0B0 0F5 2H3 0B1 2H4 0B2 2H5 0B3 0B4 0B5");
  CHECK(text(schedule, 1) == "1F0 1F1 2H0 1F2 2H1 1B0 1F3 2H2 1B1 1F4 2H3 1B2 1F5 2H4 1B3 2H5 1B4 1B5");
  CHECK(text(schedule, 2) == "2F0 2H0 2B0 2F1 2H1 2B1 2F2 2H2 2B2 2F3 2H3 2B3 2F4 2H4 2B4 2F5 2H5 2B5");
}

TEST_CASE("with_loss: H follows the last stage's F where weight parts fill the gaps: by periods, zb_h2 takes 22") {
  CHECK(simulate(with_loss(zb_h2({3, 6}), LossForm::on_all), {}).step_time == 20);
}

TEST_CASE("with_loss: a head on all ranks adds m times its own time to eager_1f1b, for all costs of F, B and H") {
  for (const double loss : {0.1, 1.0, 10.0})
    for (const double backward : {0.5, 1.0, 2.0}) {
      CAPTURE(loss);
      CAPTURE(backward);
      const int p = 6;
      const int m = 20;
      StageCosts costs;
      costs.forward = 2;
      costs.backward_input = backward;
      costs.backward_weight = backward;
      costs.loss = loss;
      const auto makespan = [&](const Schedule& schedule) {
        return simulate(with_loss(schedule, LossForm::on_all), {{costs}}).step_time;
      };
      CHECK(makespan(eager_1f1b({p, m})) == close_to((m + p - 1) * (2 + 2 * backward) + m * loss));
      // The periods of 1f1b have equally much work if F and B take equally long.
      CHECK((makespan(one_f_one_b({p, m})) > makespan(eager_1f1b({p, m})) + 1e-9) == (backward != 1));
    }
}

TEST_CASE("with_communication: sends follow what they send, receives stand before their use") {
  const Schedule schedule = with_communication(one_f_one_b({2, 2}));
  CHECK(text(schedule, 0) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1");
  CHECK(text(schedule, 1) == "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1");
}

TEST_CASE("with_communication: early receives stand one computing action before") {
  const Schedule schedule = with_communication(one_f_one_b({2, 2}), Receives::early);
  CHECK(text(schedule, 0) == "0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0RECV_B1 0B0 0B1");
  CHECK(text(schedule, 1) == "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1");
}

TEST_CASE("with_communication: nothing is sent between stages of one rank") {
  CHECK(text(with_communication(overlapped()), 1) ==
        "1RECV_F0 1F0 2F0 2SEND_F0 1RECV_F1 1F1 2RECV_B0 2B0 2F1 1B0 2SEND_F1 1SEND_B0 2RECV_B1 2B1 1B1 1SEND_B1");
}

TEST_CASE("with_communication: a pair's receives stand in the order of its sends, whatever is needed first") {
  using enum ActionKind;
  Schedule schedule{2, looped_stages(2, 1), {}};
  schedule.ranks.push_back({{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}});
  schedule.ranks.push_back({{forward, 1, 1}, {forward, 1, 0}, {backward, 1, 1}, {backward, 1, 0}});
  const Schedule sent = with_communication(schedule);
  CHECK(text(sent, 1) == "1RECV_F0 1RECV_F1 1F1 1F0 1B1 1SEND_B1 1B0 1SEND_B0");
  CHECK(text(sent, 0) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0RECV_B0 0B0 0B1");
  CHECK(walk(sent).complete(sent));
}

TEST_CASE("walk: reports the action that a rank waits for when the lists cannot be executed") {
  using enum ActionKind;
  Schedule schedule{1, looped_stages(2, 1), {}};
  schedule.ranks.push_back({{forward, 0, 0}, {backward, 0, 0}});
  schedule.ranks.push_back({{backward, 1, 0}, {forward, 1, 0}});
  const Walk walked = walk(schedule);
  CHECK_FALSE(walked.complete(schedule));
  CHECK(walked.reached == std::vector<int>{1, 0});
  CHECK(to_string(walked.waits_for[0]) == "1B0");
  CHECK(to_string(walked.waits_for[1]) == "1F0");
}

}  // namespace heddle::test
