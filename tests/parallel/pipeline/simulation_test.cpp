// The simulator on lists short enough to be timed by hand.
#include "parallel/pipeline/simulation.h"

#include <cmath>
#include <sstream>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

/// `0F0` or `1SEND_F0`; an asterisk after it means that it overlaps the next.
Action action_of(std::string cell) {
  Action action;
  action.overlaps_next = cell.ends_with('*');
  if (action.overlaps_next) cell.pop_back();
  const std::size_t letters = cell.find_first_not_of("0123456789");
  const std::size_t digits = cell.find_last_not_of("0123456789") + 1;
  action.stage = std::stoi(cell.substr(0, letters));
  action.micro_batch = std::stoi(cell.substr(digits));
  for (const ActionKind kind : all_of<ActionKind>)
    if (name_of(kind) == cell.substr(letters, digits - letters)) action.kind = kind;
  return action;
}

Schedule by_hand(int micro_batches, std::vector<int> rank_of, const std::vector<std::string>& lists) {
  Schedule schedule{.micro_batches = micro_batches, .rank_of = std::move(rank_of), .ranks = {}};
  for (const std::string& list : lists) {
    std::istringstream words(list);
    schedule.ranks.emplace_back();
    for (std::string word; words >> word;) schedule.ranks.back().push_back(action_of(word));
  }
  return schedule;
}

/// `0F0 0-2  0B0 7-13`
std::string times(const Simulation& simulation, int rank) {
  std::string text;
  for (const TimedAction& timed : simulation.timeline.ranks[static_cast<std::size_t>(rank)])
    text += fmt::format("{}{} {}-{}", text.empty() ? "" : "  ", to_string(timed.action), timed.begin, timed.end);
  return text;
}

SimulationCosts costs(StageCosts stage, TransferCosts transfer = {}) {
  return {.stages = {stage}, .transfer = [transfer](int, int) { return transfer; }};
}

constexpr StageCosts two_three_four{.forward = 2, .backward_input = 3, .backward_weight = 4};

}  // namespace

TEST_CASE("an action begins when the one before it has ended and its input is there") {
  const Schedule schedule = by_hand(2, {0, 1}, {"0F0 0F1 0I0 0W0 0B1", "1F0 1I0 1F1 1W0 1B1"});
  const Simulation simulation = simulate(schedule, costs(two_three_four));
  CHECK(times(simulation, 0) == "0F0 0-2  0F1 2-4  0I0 7-10  0W0 10-14  0B1 20-27");
  CHECK(times(simulation, 1) == "1F0 2-4  1I0 4-7  1F1 7-9  1W0 9-13  1B1 13-20");
  CHECK(simulation.step_time == 27);
  CHECK(simulation.timeline.makespan() == 27);
  CHECK(simulation.timeline.idle_fraction() == close_to(1 - 36.0 / 54));
  // The busiest rank is busy for 18; rank 0's span is the longest.
  CHECK(simulation.timeline.span_bubble() == close_to(1 - 18.0 / 27));
}

TEST_CASE("a message takes its time, queues on its link, and a link is one direction of a pair of ranks") {
  const Schedule schedule = by_hand(2, {0, 1}, {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
  // 0F0 is sent from 2 to 7, and 0F1, ready at 4, from 7 to 12; each arrives 10 later. The other direction is free.
  const Simulation simulation = simulate(schedule, costs(two_three_four, {.latency = 10, .occupancy = 5}));
  CHECK(times(simulation, 1) == "1F0 17-19  1F1 22-24  1B0 24-31  1B1 31-38");
  CHECK(times(simulation, 0) == "0F0 0-2  0F1 2-4  0B0 46-53  0B1 53-60");
}

TEST_CASE("messages of several stages share the link of their ranks") {
  // Rank 0 has stages 0 and 2: what it sends is stage 0's output and stage 2's gradient.
  const Schedule schedule = by_hand(2, {0, 1, 0}, {"0F0 2F0 2B0 0F1 0B0 2F1 2B1 0B1", "1F0 1F1 1B0 1B1"});
  const Simulation simulation = simulate(schedule, costs({}, {.latency = 0, .occupancy = 10}));
  CHECK(times(simulation, 0).starts_with("0F0 0-1  2F0 22-23  2B0 23-25  0F1 25-26"));
  // The gradient is sent from 25 to 35, stage 0's second output after it; back come 1F1, from 46 to 56, and 1B0.
  CHECK(times(simulation, 1) == "1F0 11-12  1F1 45-46  1B0 46-48  1B1 81-83");
}

TEST_CASE("a value that stays on its rank is not sent") {
  const Schedule schedule = by_hand(1, {0, 1, 1, 0}, {"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"});
  CHECK(times(simulate(schedule, costs({}, {.latency = 5})), 1) == "1F0 6-7  2F0 7-8  2B0 21-23  1B0 23-25");
}

TEST_CASE("transfers may differ from stage to stage and between the directions") {
  const Schedule schedule = by_hand(1, {0, 1}, {"0F0 0B0", "1F0 1B0"});
  SimulationCosts given;
  given.transfer = [](int from, int to) { return TransferCosts{.latency = 10.0 * from + to}; };
  const Simulation simulation = simulate(schedule, given);
  CHECK(times(simulation, 1) == "1F0 2-3  1B0 3-5");
  CHECK(times(simulation, 0) == "0F0 0-1  0B0 15-17");
}

TEST_CASE("lists with communication send where they say, and receive without blocking") {
  // Rank 0 sends its first output late; rank 1 posts its receives early, which delays nothing.
  const Schedule schedule = by_hand(
      2, {0, 1},
      {"0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F0 1RECV_F1 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1"});
  CHECK(times(simulate(schedule, costs({}, {.latency = 3})), 1) == "1F0 5-6  1F1 6-7  1B0 7-9  1B1 9-11");
}

TEST_CASE("the communication pass changes no time, wherever it posts receives") {
  const SimulationCosts given = costs(two_three_four, {.latency = 1, .occupancy = 2});
  for (const ScheduleType& type : schedule_types()) {
    CAPTURE(type.name);
    const Schedule schedule =
        make_schedule(type.name, {.ranks = 4, .micro_batches = 8, .chunks = type.max_chunks.value_or(4)});
    const Simulation simulation = simulate(schedule, given);
    for (const Receives receives : {Receives::at_use, Receives::early}) {
      const Simulation other = simulate(with_communication(schedule, receives), given);
      for (int rank = 0; rank < 4; ++rank) CHECK(times(other, rank) == times(simulation, rank));
    }
  }
}

TEST_CASE("a loss on the last stage's rank stands between its forward and its backward") {
  const Schedule schedule = by_hand(1, {0, 1}, {"0F0 0B0", "1F0 1H0 1B0"});
  const Simulation simulation = simulate(schedule, costs({.loss = 7}));
  CHECK(times(simulation, 1) == "1F0 1-2  1H0 2-9  1B0 9-11");
}

TEST_CASE("a loss on all ranks begins when the last of them is there, and lasts as long as the slowest takes") {
  const Schedule schedule = by_hand(1, {0, 1}, {"0F0 1H0 0B0", "1F0 1H0 1B0"});
  SimulationCosts given = costs({.loss = 6});
  given.speed = {0.5};
  const Simulation simulation = simulate(schedule, given);
  CHECK(times(simulation, 0) == "0F0 0-2  1H0 3-15  0B0 17-21");
  CHECK(times(simulation, 1) == "1F0 2-3  1H0 3-15  1B0 15-17");
}

TEST_CASE("stages have costs of their own, and ranks their speed") {
  const Schedule schedule = by_hand(1, {0, 1}, {"0F0 0B0", "1F0 1R0 1I0 1W0"});
  SimulationCosts given;
  given.stages = {two_three_four,
                  {.forward = 10, .backward_input = 20, .backward_weight = 30, .recompute = 40, .loss = 0}};
  given.speed = {1, 10};
  const Simulation simulation = simulate(schedule, given);
  CHECK(times(simulation, 1) == "1F0 2-3  1R0 3-7  1I0 7-9  1W0 9-12");
  CHECK(times(simulation, 0) == "0F0 0-2  0B0 9-16");
}

TEST_CASE("overlapped actions begin and end together, without overlap they follow each other; both send at the end") {
  const Schedule schedule = by_hand(2, {0, 1}, {"0F0 0F1* 0B0 0B1", "1F0 1B0 1F1* 1B1"});
  // Rank 1's pair is nonsense: its B needs the F beside it.
  CHECK_THROWS_AS(simulate(schedule, {}), InputError);
  const Schedule sound = by_hand(2, {0, 1}, {"0F0 0F1* 0B0 0B1", "1F0 1B0 1F1 1B1"});
  SimulationCosts given;
  CHECK(times(simulate(sound, given), 0) == "0F0 0-1  0F1 1-2  0B0 4-6  0B1 9-11");
  given.overlap = 1;
  CHECK(times(simulate(sound, given), 0) == "0F0 0-1  0F1 4-6  0B0 4-6  0B1 9-11");
  given.overlap = 0.5;
  const Simulation half = simulate(sound, given);
  CHECK(times(half, 0) == "0F0 0-1  0F1 4-6.5  0B0 4-6.5  0B1 9.5-11.5");
  // Two actions at a time are one rank's time.
  CHECK(half.timeline.idle_fraction() == close_to(1 - (1 + 2.5 + 2 + 6) / (2 * 11.5)));
}

TEST_CASE("the optimizer follows a rank's last action, or the last of all ranks behind a barrier") {
  // Rank 1 has stages 1 and 2.
  const Schedule schedule = by_hand(1, {0, 1, 1}, {"0F0 0B0", "1F0 2F0 2B0 1B0"});
  SimulationCosts given = costs({.optimizer = 100});
  CHECK(simulate(schedule, given).timeline.makespan() == 9);
  CHECK(simulate(schedule, given).step_time == 207);
  given.barrier_before_optimizer = true;
  CHECK(simulate(schedule, given).step_time == 209);
}

TEST_CASE("activations are held from F to B or I, weight inputs from I to W") {
  const Schedule schedule = by_hand(3, {0}, {"0F0 0F1 0I0 0F2 0I1 0I2 0W0 0W1 0W2"});
  const Simulation simulation = simulate(schedule, costs({.activations = 10, .weight_inputs = 4, .input = 1000}));
  CHECK(simulation.peak_activations == std::vector<double>{20});
  CHECK(simulation.peak_weight_inputs == std::vector<double>{12});
  CHECK(simulation.peak_memory == std::vector<double>{24});
}

TEST_CASE("where a stage recomputes, its input alone is held from F to R") {
  const Schedule schedule = with_recompute(gpipe({.ranks = 2, .micro_batches = 4}), Recompute::always);
  const Simulation all = simulate(schedule, costs({.activations = 10, .input = 3}));
  CHECK(all.peak_activations == std::vector<double>{10, 10});
  CHECK(all.peak_memory == std::vector<double>{19, 19});
  const Schedule but_last = with_recompute(gpipe({.ranks = 2, .micro_batches = 4}), Recompute::except_last);
  CHECK(simulate(but_last, costs({.activations = 10, .input = 3})).peak_memory == std::vector<double>{26, 26});
}

TEST_CASE("a stage of several on a rank counts with its own memory") {
  const Schedule schedule = by_hand(1, {0, 0}, {"0F0 1F0 1B0 0B0"});
  SimulationCosts given;
  given.stages = {{.activations = 5}, {.activations = 7}};
  CHECK(simulate(schedule, given).peak_activations == std::vector<double>{12});
}

TEST_CASE("costs that do not belong to the schedule are refused") {
  const Schedule schedule = gpipe({.ranks = 3, .micro_batches = 1});
  CHECK_THROWS_WITH_AS(simulate(schedule, {.stages = {{}, {}}}), "costs: expected those of 1 or of 3 stages, got 2",
                       InputError);
  CHECK_THROWS_WITH_AS(simulate(schedule, {.speed = {1, 1, 1, 1}}),
                       "costs: expected at most 3 speeds, one for each rank, got 4", InputError);
}

TEST_CASE("the bubbles that the Zero Bubble paper prints for profiled costs, to four decimals") {
  // Table 5 of Qi et al. 2023, p = 8; F, I, W and transfer in microseconds. Its column of interleaved 1f1b leaves out
  // dependencies; with them it is this, for three and four stages per rank.
  struct Row {
    std::string_view name;
    int chunks;
    double bubble;
  };
  const auto check_rows = [](int micro_batches, const StageCosts& rank, double transfer, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      CAPTURE(row.name);
      CAPTURE(micro_batches);
      const Schedule schedule =
          make_schedule(row.name, {.ranks = 8, .micro_batches = micro_batches, .chunks = row.chunks});
      SimulationCosts given = costs({}, {.latency = transfer});
      given.stages = costs_per_stage(rank, schedule.rank_of);
      CHECK(std::abs(simulate(schedule, given).timeline.span_bubble() - row.bubble) < 0.00005);
      // Nor does it matter that messages queue on their link, where sends and receives stand, or which come early.
      given.transfer = [transfer](int, int) { return TransferCosts{.occupancy = transfer}; };
      CHECK(std::abs(simulate(with_communication(schedule, Receives::early), given).timeline.span_bubble() -
                     row.bubble) < 0.00005);
    }
  };
  check_rows(24, {.forward = 18522, .backward_input = 18086, .backward_weight = 9337}, 601,
             {{"1f1b", 1, 0.2431}, {"zb_h1", 1, 0.1585}, {"zb_h2", 1, 0.1083}, {"interleaved", 3, 0.1090}});
  check_rows(64, {.forward = 29935, .backward_input = 29621, .backward_weight = 19388}, 535,
             {{"1f1b", 1, 0.1091}, {"zb_h1", 1, 0.0554}, {"zb_h2", 1, 0.0294}, {"interleaved", 4, 0.0328}});
}

TEST_CASE("zb_h2 idles for (p-1)(F+I+2c-2W) in the longest of its ranks' spans") {
  const StageCosts rank{.forward = 10, .backward_input = 12, .backward_weight = 7};
  for (const int p : {1, 2, 3, 5, 8})
    for (const int m : {2 * p - 1, 2 * p, 5 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const Schedule schedule = zb_h2({.ranks = p, .micro_batches = m});
      // With transfers only where no steady state follows, in which they would be waited for once per micro-batch.
      for (const double transfer : m == 2 * p - 1 ? std::vector<double>{0, 1, 3} : std::vector<double>{0}) {
        const double bubble = simulate(schedule, costs(rank, {.latency = transfer})).timeline.span_bubble();
        const double idle = (p - 1) * (10 + 12 + 2 * transfer - 14);
        CHECK(bubble == close_to(idle / (m * 29 + idle)).epsilon(1e-12));
      }
    }
}

TEST_CASE("zb_h1 holds r weight inputs on rank r beside 1f1b's activations, zb_h2 2r") {
  const double weight_input = 0.5;
  for (const int p : {1, 2, 4, 7}) {
    const SimulationCosts given = costs({.weight_inputs = weight_input});
    const Simulation h1 = simulate(zb_h1({.ranks = p, .micro_batches = 2 * p}), given);
    const Simulation h2 = simulate(zb_h2({.ranks = p, .micro_batches = 2 * p}), given);
    for (int r = 0; r < p; ++r) {
      CHECK(h1.peak_memory[static_cast<std::size_t>(r)] == p - r + r * weight_input);
      CHECK(h2.peak_memory[static_cast<std::size_t>(r)] == 2 * (p - r) - 1 + 2 * r * weight_input);
    }
  }
}

TEST_CASE("gpipe's bubble with recomputation: R belongs to backward, but the first one's is done while a rank waits") {
  for (const int p : {1, 2, 4, 8})
    for (const int m : {1, 2, 5, 16}) {
      const StageCosts rank{.forward = 2, .backward_input = 3, .backward_weight = 4, .recompute = 2};
      const Schedule schedule = gpipe({.ranks = p, .micro_batches = m});
      CHECK(simulate(with_recompute(schedule, Recompute::always), costs(rank)).step_time == m * 11 + (p - 1) * 9);
      // As formulas count it.
      const StageCosts whole{.forward = 2, .backward_input = 5, .backward_weight = 4};
      CHECK(simulate(schedule, costs(whole)).step_time == (m + p - 1) * 11);
    }
}

TEST_CASE("a rank's stages share its costs, but not what crosses a cut") {
  const StageCosts rank{.forward = 6,
                        .backward_input = 12,
                        .backward_weight = 18,
                        .recompute = 24,
                        .loss = 5,
                        .optimizer = 30,
                        .activations = 36,
                        .weight_inputs = 42,
                        .input = 7};
  const std::vector<StageCosts> stages = costs_per_stage(rank, std::vector<int>{0, 1, 1, 0, 0});
  REQUIRE(stages.size() == 5);
  CHECK(stages[0].forward == 2);
  CHECK(stages[1].backward_input == 6);
  CHECK(stages[2].backward_weight == 9);
  CHECK(stages[3].recompute == 8);
  CHECK(stages[4].optimizer == 10);
  CHECK(stages[4].activations == 12);
  CHECK(stages[4].weight_inputs == 14);
  CHECK(stages[4].loss == 5);
  CHECK(stages[4].input == 7);
}

TEST_CASE("256 ranks and 4,096 micro-batches are simulated") {
  const Schedule schedule = one_f_one_b({.ranks = 256, .micro_batches = 4096});
  const Simulation simulation = simulate(schedule, {});
  CHECK(simulation.step_time == 3.0 * (4096 + 255));
}

}  // namespace heddle::test
