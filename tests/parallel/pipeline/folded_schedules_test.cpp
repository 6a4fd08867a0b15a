// The schedules made of published building blocks, against those of their authors' program.
#include "parallel/pipeline/search/folded_schedules.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "parallel/pipeline/search/folded_blocks.h"
#include "parallel/pipeline/simulation.h"
#include "parallel/pipeline/validation.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

TEST_CASE("folded blocks: as many as the authors' program has, and no rank executes two actions at once") {
  CHECK(folded_blocks(16).size() == 928);
  CHECK(folded_blocks(100).size() < 1200);
  for (const int ranks : {2, 3, 7}) {
    const std::vector<FoldedBlock> blocks = folded_blocks(ranks);
    REQUIRE(!blocks.empty());
    CHECK(std::set<FoldedBlock>(blocks.begin(), blocks.end()).size() == blocks.size());
    for (const FoldedBlock& block : blocks) {
      CHECK(block.size() == static_cast<std::size_t>(ranks));
      for (const auto& times : block) {
        std::set<int> slots;
        for (const int time : times) slots.insert(time % block_period);
        CHECK(slots.size() == slot_kinds);
      }
    }
  }
}

TEST_CASE("folded schedules can be executed, and hold no more than zb_v") {
  for (const int ranks : {2, 3, 5})
    for (const int micro_batches : {1, 2, ranks, 2 * ranks - 1, 2 * ranks, 4 * ranks + 1}) {
      CAPTURE(ranks);
      CAPTURE(micro_batches);
      std::size_t schedules = 0;
      for (const FoldedBlock& block : folded_blocks(ranks))
        for (const Schedule& schedule : folded_schedules(block, micro_batches)) {
          ++schedules;
          CHECK(schedule.micro_batches == micro_batches);
          CHECK(schedule.rank_of == folded_stages(ranks));
          CHECK(!validate(schedule));
          SimulationCosts costs;
          costs.stages = costs_per_stage({}, schedule.rank_of);
          const std::vector<double> peaks = simulate(schedule, costs).peak_memory;
          CHECK(*std::max_element(peaks.begin(), peaks.end()) <= ranks);
        }
      CHECK(schedules > 0);
    }
}

TEST_CASE("folded schedules with idle slots filled are as fast as those of the authors' program") {
  struct Row {
    int ranks, micro_batches;
    StageCosts stage;
    double latency;
    double memory;  // in micro-batches, each of which is held in two stages
    double theirs;
  };
  for (const Row& row :
       {Row{3, 2, {1, 1, 1}, 0, 3, 16}, Row{4, 12, {1, 1, 1}, 0, 2, 83}, Row{4, 12, {1, 1, 1}, 0, 3, 77},
        Row{4, 12, {1, 1, 1}, 0, 4, 75}, Row{4, 12, {3, 4, 2}, 0.5, 2, 338}, Row{4, 12, {3, 4, 2}, 0.5, 3, 253},
        Row{4, 12, {3, 4, 2}, 0.5, 4, 236}, Row{5, 7, {2, 3, 1}, 0.25, 3, 134.5}, Row{5, 7, {2, 3, 1}, 0.25, 5, 107},
        Row{8, 20, {29, 30, 19}, 1, 4.5, 4217}, Row{8, 20, {29, 30, 19}, 1, 6, 3620},
        Row{8, 20, {29, 30, 19}, 1, 8, 3363}}) {
    CAPTURE(row.ranks);
    CAPTURE(row.memory);
    SimulationCosts costs;
    costs.stages.assign(at_index(2 * row.ranks), row.stage);
    for (StageCosts& stage : costs.stages) stage.activations = stage.weight_inputs = 0.5;
    costs.transfer = [&](int, int) { return TransferCosts{.latency = row.latency}; };
    double best = std::numeric_limits<double>::infinity();
    for (const FoldedBlock& block : folded_blocks(row.ranks)) {
      const std::vector<Schedule> schedules = folded_schedules(block, row.micro_batches);
      if (schedules.empty()) continue;
      REQUIRE(schedules.size() == 2);
      const Simulation simulation = simulate(schedules.back(), costs);
      const double peak = *std::max_element(simulation.peak_memory.begin(), simulation.peak_memory.end());
      if (peak <= row.memory) best = std::min(best, simulation.step_time);
    }
    CHECK(best == close_to(row.theirs).epsilon(1e-12));
  }
}

}  // namespace heddle::test
