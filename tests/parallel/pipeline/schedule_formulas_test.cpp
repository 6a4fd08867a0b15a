// The named schedules against their papers: the bubble, and the micro-batches alive on each rank.
#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/schedule_shapes.h"

namespace heddle::test {

namespace {

struct Costs {
  double f, i, w;
};

/// The costs of one micro-batch on one rank: each of its v stages costs and keeps a v-th.
SimulationCosts costs_of(const Costs& costs, int chunks) {
  StageCosts stage;
  stage.forward = costs.f / chunks;
  stage.backward_input = costs.i / chunks;
  stage.backward_weight = costs.w / chunks;
  stage.activations = 1.0 / chunks;
  stage.weight_inputs = 1.0 / chunks;
  return {{stage}};
}

/// The most time that a rank idles between the first begin of all ranks and the last end.
double bubble(const Simulation& simulation) {
  double min_busy = simulation.step_time;
  for (const auto& rank : simulation.timeline.ranks) {
    double busy = 0;
    double end = 0;
    for (const TimedAction& action : rank) {
      busy += std::max(0.0, action.end - std::max(end, action.begin));  // overlapped actions count once
      end = std::max(end, action.end);
    }
    min_busy = std::min(min_busy, busy);
  }
  return simulation.step_time - min_busy;
}

const std::vector<Costs> cost_cases{{1, 1, 1}, {10, 12, 7}, {2, 3, 1}};

/// Bubble as a formula of shape and costs, for shapes that have at least `min_rounds` p micro-batches, or only for
/// multiples of p.
void check_bubble(std::string_view name, int min_rounds, double (*formula)(int p, int m, const Costs& costs),
                  bool multiples_only = false) {
  test::for_each_shape(name, [&](const ScheduleShape& shape, const Schedule& schedule) {
    if (shape.micro_batches < min_rounds * shape.ranks) return;
    if (multiples_only && shape.micro_batches % shape.ranks != 0) return;
    for (const Costs& costs : cost_cases) {
      const double expected = formula(shape.ranks, shape.micro_batches, costs) / shape.chunks;
      CHECK(bubble(simulate(schedule, costs_of(costs, shape.chunks))) == close_to(expected));
    }
  });
}

/// The most micro-batches alive on a rank as a formula of shape and rank.
void check_alive(std::string_view name, double (*formula)(const ScheduleShape& shape, int rank)) {
  test::for_each_shape(name, [&](const ScheduleShape& shape, const Schedule& schedule) {
    const Simulation simulation = simulate(schedule, costs_of({1, 1, 1}, shape.chunks));
    for (int rank = 0; rank < shape.ranks; ++rank) {
      CAPTURE(rank);
      CHECK(simulation.peak_activations[static_cast<std::size_t>(rank)] == close_to(formula(shape, rank)));
    }
  });
}

}  // namespace

TEST_CASE(
    "formulas: the bubbles of naive, gpipe, 1f1b and its kin, interleaved, looped_bfs, zb_h1, interleaved_zb_long") {
  check_bubble("naive", 0, [](int p, int m, const Costs& c) { return (p - 1.0) * m * (c.f + c.i + c.w); });
  const auto gpipes = [](int p, int /*m*/, const Costs& c) { return (p - 1.0) * (c.f + c.i + c.w); };
  check_bubble("gpipe", 0, gpipes);
  check_bubble("1f1b", 0, gpipes);
  check_bubble("eager_1f1b", 0, gpipes);
  check_bubble("1f1b_plus_1", 0, gpipes);
  check_bubble("1f1b_plus_2", 0, gpipes);
  check_bubble("interleaved", 1, gpipes, true);
  check_bubble("looped_bfs", 1, gpipes);
  const auto zero_bubbles = [](int p, int /*m*/, const Costs& c) { return (p - 1.0) * (c.f + c.i - c.w); };
  check_bubble("zb_h1", 1, zero_bubbles);
  check_bubble("interleaved_zb_long", 1, zero_bubbles, true);
}

TEST_CASE("formulas: zb_h2 leaves (p-1)(F+I-2W) within a rank's span, zb_v nothing where F = I = W") {
  const auto max_idle_in_span = [](const Simulation& simulation) {
    double most = 0;
    for (const auto& rank : simulation.timeline.ranks) {
      double idle = rank.back().end - rank.front().begin;
      for (const TimedAction& action : rank) idle -= action.end - action.begin;
      most = std::max(most, idle);
    }
    return most;
  };
  test::for_each_shape("zb_h2", [&](const ScheduleShape& shape, const Schedule& schedule) {
    for (const Costs& c : cost_cases) {
      CHECK(max_idle_in_span(simulate(schedule, costs_of(c, 1))) ==
            close_to((shape.ranks - 1) * (c.f + c.i - 2 * c.w)).epsilon(1e-9));
    }
  });
  test::for_each_shape("zb_v", [&](const ScheduleShape& shape, const Schedule& schedule) {
    if (shape.micro_batches < 2 * shape.ranks - 1) return;
    const Simulation simulation = simulate(schedule, costs_of({2, 2, 2}, 2));
    CHECK(max_idle_in_span(simulation) == 0);
    CHECK(simulation.timeline.span_bubble() == close_to(0));
    CHECK(bubble(simulation) == close_to(shape.ranks - 1));
  });
}

TEST_CASE("formulas: the bubble of v_half is about half of 1f1b's, that of v_min two thirds") {
  const auto check = [](std::string_view name, int min_micro_batches, double (*most)(int p)) {
    test::for_each_shape(name, [&](const ScheduleShape& shape, const Schedule& schedule) {
      if (shape.ranks < 2 || shape.micro_batches < min_micro_batches) return;
      // 1f1b's is (p - 1) * 6 in stages' units.
      CHECK(2 * bubble(simulate(schedule, costs_of({1, 1, 1}, 2))) <= most(shape.ranks));
    });
  };
  check("v_half", 8, [](int p) { return 3.0 * p; });
  check("v_min", 8, [](int p) { return 4.0 * p - 3; });
}

TEST_CASE("formulas: the bubbles of dualpipe_v and dualpipe are (F&B+B-3W) times (p-1)/2 and p/2-1") {
  const auto check = [](std::string_view name, const Costs& of_rank, int chunks, int (*pairs)(int ranks)) {
    test::for_each_shape(name, [&](const ScheduleShape& shape, const Schedule& schedule) {
      for (const double overlap : {0.0, 0.5, 1.0}) {
        SimulationCosts costs = costs_of(of_rank, chunks);
        costs.overlap = overlap;
        const double pair = 2 + (1 - overlap) * 1;
        CHECK(bubble(simulate(schedule, costs)) == close_to(pairs(shape.ranks) * (pair + 2 - 3)));
      }
    });
  };
  // Stages take one unit each.
  check("dualpipe_v", {2, 2, 2}, 2, [](int ranks) { return ranks - 1; });
  check("dualpipe", {1, 1, 1}, 1, [](int ranks) { return ranks / 2 - 1; });
}

TEST_CASE("formulas: chimera's bubble is (p-2)(B + (m/p-1)(B-F)) if B >= F") {
  for (const int p : {2, 4, 6, 8})
    for (const int units : {1, 2, 3, 4})
      for (const Costs& c : {Costs{2, 1, 1}, Costs{1, 1, 1}, Costs{10, 12, 7}, Costs{2, 3, 1}}) {
        CAPTURE(p);
        CAPTURE(units);
        const Schedule schedule = make_schedule("chimera", {p, units * p, 1});
        const double backward = c.i + c.w;
        CHECK(bubble(simulate(schedule, costs_of(c, 1))) ==
              close_to((p - 2) * (backward + (units - 1) * (backward - c.f))));
      }
}

TEST_CASE("formulas: chimera's idle share is (p-2)/(2m+p-2) where B = F") {
  test::for_each_shape("chimera", [](const ScheduleShape& shape, const Schedule& schedule) {
    const auto [p, m, v] = shape;
    if (m % p == 0)
      CHECK(simulate(schedule, costs_of({2, 1, 1}, 1)).timeline.idle_fraction() ==
            close_to((p - 2.0) / (2 * m + p - 2)));
  });
}

TEST_CASE("formulas: hanayo's bubble is 2(p-1)F/w where B = 2F and m = p, and smaller than that of gpipe") {
  const SimulationCosts costs = costs_of({2, 2, 2}, 1);
  test::for_each_shape("hanayo", [&](const ScheduleShape& shape, const Schedule& schedule) {
    const double found = bubble(simulate(schedule, costs_of({2, 2, 2}, shape.chunks)));
    if (shape.micro_batches == shape.ranks) {
      const int waves = shape.chunks / 2;
      // Where waves cross, some actions wait for half of another one.
      const int waits = waves == 1 ? 0 : (shape.ranks - 1) / 3;
      CHECK(found == close_to(2.0 * (shape.ranks - 1) * 2 / waves + 2.0 * waits / shape.chunks));
    }
    if (shape.micro_batches <= shape.ranks) {
      const Schedule all_forward = make_schedule("gpipe", {shape.ranks, shape.micro_batches});
      CHECK(found <= bubble(simulate(all_forward, costs)) + 1e-9);
    }
  });
}

TEST_CASE("formulas: hanayo holds at most p micro-batches on every rank") {
  test::for_each_shape("hanayo", [&](const ScheduleShape& shape, const Schedule& schedule) {
    const Simulation simulation = simulate(schedule, costs_of({1, 1, 1}, shape.chunks));
    const double most = *std::max_element(simulation.peak_activations.begin(), simulation.peak_activations.end());
    CHECK(most <= std::min(shape.ranks, shape.micro_batches));
    if (shape.micro_batches >= shape.ranks) CHECK(most > shape.ranks - 1);
  });
}

TEST_CASE("formulas: the micro-batches alive on each rank") {
  check_alive("naive", [](const ScheduleShape&, int) { return 1.0; });
  check_alive("gpipe", [](const ScheduleShape& s, int) { return double(s.micro_batches); });
  check_alive("looped_bfs", [](const ScheduleShape& s, int) { return double(s.micro_batches); });
  const auto one_f_one_bs = [](const ScheduleShape& s, int r) {
    return double(std::min(s.micro_batches, s.ranks - r));
  };
  check_alive("1f1b", one_f_one_bs);
  check_alive("zb_h1", one_f_one_bs);
  // PyTorch's rounds have more than p micro-batches if p does not divide m.
  static const auto round_of = [](const ScheduleShape& s) {
    return s.micro_batches / std::max(1, s.micro_batches / s.ranks);
  };
  const auto interleaveds = [](const ScheduleShape& s, int r) {
    return std::min(double(s.micro_batches), ((s.chunks - 1.0) * round_of(s) + 2 * (s.ranks - r - 1) + 1) / s.chunks);
  };
  check_alive("interleaved", interleaveds);
  check_alive("interleaved_zb_long", interleaveds);
  check_alive("interleaved_zb", [](const ScheduleShape& s, int r) {
    return std::min(double(s.micro_batches), ((s.chunks - 1.0) * round_of(s) + (s.ranks - r - 1) + 1) / s.chunks);
  });
  check_alive("eager_1f1b",
              [](const ScheduleShape& s, int r) { return std::min<double>(s.micro_batches, 2 * (s.ranks - r) - 1); });
  check_alive("1f1b_plus_1",
              [](const ScheduleShape& s, int r) { return std::min<double>(s.micro_batches, s.ranks - r + 1); });
  check_alive("1f1b_plus_2",
              [](const ScheduleShape& s, int r) { return std::min<double>(s.micro_batches, s.ranks - r + 2); });
  check_alive("zb_h2", [](const ScheduleShape& s, int r) { return 2.0 * (s.ranks - r) - 1; });
  check_alive("dualpipe_v", [](const ScheduleShape& s, int) { return s.ranks + 0.5; });
  check_alive("dualpipe", [](const ScheduleShape& s, int) { return s.ranks + 1.0; });
  check_alive("chimera", [](const ScheduleShape& s, int r) {
    const int in_unit = std::min(s.ranks, s.micro_batches);
    return double(std::min(in_unit, in_unit / 2 + 1 + std::min(r, s.ranks - 1 - r)));
  });
}

TEST_CASE("formulas: the V-shaped schedules need the same on all ranks: p, (p + 1)/2, p/3 and a constant") {
  const auto check = [](std::string_view name, const std::function<double(int p)>& formula, double least) {
    test::for_each_shape(name, [&](const ScheduleShape& shape, const Schedule& schedule) {
      const Simulation simulation = simulate(schedule, costs_of({1, 1, 1}, 2));
      for (const double alive : simulation.peak_activations) {
        CHECK(alive <= std::min(double(shape.micro_batches), formula(shape.ranks)));
        if (shape.micro_batches >= 2 * shape.ranks) CHECK(alive >= formula(shape.ranks) - least);
      }
    });
  };
  check(
      "zb_v", [](int p) { return double(p); }, 0);
  check(
      "v_half", [](int p) { return (p + 1) / 2.0; }, 0);
  check(
      "v_min", [](int p) { return p / 3 + 1.0; }, 0.5);
}

TEST_CASE("formulas: the inputs of r weight parts wait on rank r in zb_h1, of 2r in zb_h2") {
  // Beside them, for a moment, those of the W that follows its I at once.
  for (const auto& [name, waiting] : {std::pair{"zb_h1", 1}, std::pair{"zb_h2", 2}}) {
    const Simulation simulation = simulate(make_schedule(name, {4, 16}), costs_of({1, 1, 1}, 1));
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(simulation.peak_weight_inputs[static_cast<std::size_t>(rank)] == waiting * rank + 1);
    }
  }
}

TEST_CASE("formulas: in every schedule a stage's micro-batches go forward, back and to their weights in order") {
  for (const ScheduleType& type : schedule_types()) {
    test::for_each_shape(type.name, [](const ScheduleShape& shape, const Schedule& schedule) {
      bool in_order = true;
      for (const auto& list : schedule.ranks) {
        std::vector<int> next(3 * schedule.rank_of.size());
        const auto comes_next = [&](const Action& action, std::size_t part) {
          const int number = next[3 * static_cast<std::size_t>(action.stage) + part]++;
          return action.micro_batch == schedule.copies() * number + schedule.copy_of(action.micro_batch);
        };
        for (const Action& action : list) {
          const bool weight = action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight;
          if (action.kind == ActionKind::forward) in_order = comes_next(action, 0) && in_order;
          if (is_backward(action.kind)) in_order = comes_next(action, 1) && in_order;
          if (weight) in_order = comes_next(action, 2) && in_order;
        }
      }
      CHECK(in_order);
      CHECK(schedule.stages() == shape.ranks * shape.chunks);
    });
  }
}

}  // namespace heddle::test
