// The named schedules as lists: their pictures, and how many micro-batches are alive.
#include "parallel/pipeline/schedules.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"

using namespace heddle;

namespace {

std::string text(const std::vector<Action>& list) {
  std::string result;
  for (const Action& action : list) result += (result.empty() ? "" : " ") + to_string(action);
  return result;
}

/// The most micro-batches of a rank's stages between F and B or I.
int most_alive(const std::vector<Action>& list) {
  int alive = 0;
  int most = 0;
  for (const Action& action : list) {
    if (action.kind == ActionKind::forward) ++alive;
    if (is_backward(action.kind)) --alive;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

TEST_CASE("schedule: actions are written in PyTorch's notation, plus R and H") {
  CHECK(to_string({ActionKind::forward, 2, 0}) == "2F0");
  CHECK(to_string({ActionKind::backward, 0, 17}) == "0B17");
  CHECK(to_string({ActionKind::backward_input, 7, 0}) == "7I0");
  CHECK(to_string({ActionKind::backward_weight, 7, 0}) == "7W0");
  CHECK(to_string({ActionKind::recompute, 1, 3}) == "1R3");
  CHECK(to_string({ActionKind::loss, 3, 4}) == "3H4");
  CHECK(to_string({ActionKind::send_forward, 1, 2}) == "1SEND_F2");
  CHECK(name_of(ActionKind::recv_backward) == "RECV_B");
}

TEST_CASE("schedule: stages loop over the ranks, or go down and up again") {
  CHECK(looped_stages(3, 2) == std::vector<int>{0, 1, 2, 0, 1, 2});
  CHECK(folded_stages(3) == std::vector<int>{0, 1, 2, 2, 1, 0});
}

TEST_CASE("schedule: naive, gpipe and 1f1b are their papers' pictures") {
  const ScheduleShape shape{3, 4};
  CHECK(text(naive({2, 2}).ranks[0]) == "0F0 0B0 0F1 0B1");
  CHECK(text(gpipe(shape).ranks[1]) == "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3");
  const Schedule schedule = one_f_one_b(shape);
  CHECK(text(schedule.ranks[0]) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(text(schedule.ranks[1]) == "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  CHECK(text(schedule.ranks[2]) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST_CASE("schedule: 1f1b keeps min(m, p - r) micro-batches alive on rank r, gpipe all, naive one") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      for (int r = 0; r < p; ++r) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(r);
        const auto rank = static_cast<std::size_t>(r);
        CHECK(most_alive(one_f_one_b({p, m}).ranks[rank]) == std::min(m, p - r));
        CHECK(most_alive(gpipe({p, m}).ranks[rank]) == m);
        CHECK(most_alive(naive({p, m}).ranks[rank]) == 1);
      }
    }
  }
}

TEST_CASE("schedule: what a schedule cannot be made for is said") {
  CHECK_THROWS_WITH_AS(make_schedule("gpip", {2, 2}), "unknown schedule gpip: did you mean gpipe?", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("breadth", {2, 2}), "unknown schedule breadth", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("gpipe", {4, 4, 2}), "gpipe: expected 1 chunk, got 2", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("1f1b", {0, 4}), "1f1b: expected at least 1 rank, got 0", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("naive", {4, 0}), "naive: expected at least 1 micro-batch, got 0", InputError);
}
