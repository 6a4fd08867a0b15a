// The table of docs/pipelines.md, "Which schedule when", has the fastest named schedules.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "framework/files/atomic_file.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/files/source_folder.h"

namespace heddle::test::schedule_guide_test {

namespace {

constexpr int ranks = 8;

/// Empty if the schedule does not take so few micro-batches.
std::optional<Schedule> made(const ScheduleType& type, int micro_batches) {
  try {
    return make_schedule(type.name, {ranks, micro_batches, default_chunks(type.name)});
  } catch (const InputError&) {
    return {};
  }
}

std::string fastest(int micro_batches, int copies, double memory, double transfer) {
  struct Best {
    double makespan = std::numeric_limits<double>::infinity();
    double memory = 0;
    std::string_view name;
  } best;
  for (const ScheduleType& type : schedule_types()) {
    const std::optional<Schedule> schedule = made(type, micro_batches);
    if (!schedule || schedule->copies() != copies) continue;
    SimulationCosts costs;
    costs.stages = costs_per_stage(StageCosts(), schedule->rank_of);
    costs.transfer = [transfer](int, int) { return TransferCosts{.latency = transfer}; };
    const Simulation simulation = simulate(*schedule, costs);
    const double peak = *std::max_element(simulation.peak_activations.begin(), simulation.peak_activations.end());
    if (peak > memory + 1e-9) continue;
    const bool is_faster = simulation.step_time < best.makespan - 1e-9;
    if (is_faster || (simulation.step_time < best.makespan + 1e-9 && peak < best.memory - 1e-9))
      best = {simulation.step_time, peak, type.name};
  }
  return fmt::format("`{}` {:.4g}", best.name, best.makespan);
}

}  // namespace

TEST_CASE("the guide to schedules has the fastest named schedule by micro-batches, memory and transfers") {
  const std::string page = read_file(source_folder() / "docs/pipelines.md", 1 << 20);
  for (const int per_rank : {1, 2, 4})
    for (const double memory : {4.5, 8.0, 1000.0}) {
      std::string row = fmt::format("| {} | {} |", per_rank, memory > 100 ? "any" : fmt::format("{}", memory));
      for (const double transfer : {0.0, 0.1, 0.5, 1.0, 2.0})
        row += fmt::format(" {} |", fastest(per_rank * ranks, 1, memory, transfer));
      CHECK_MESSAGE(page.find(row + "\n") != std::string::npos, row);
    }
}

TEST_CASE("the guide to schedules has the faster of those with two copies of each stage") {
  const std::string page = read_file(source_folder() / "docs/pipelines.md", 1 << 20);
  for (const int per_rank : {1, 2, 4}) {
    std::string row = fmt::format("| {} |", per_rank);
    for (const double transfer : {0.0, 0.1, 0.5, 1.0, 2.0})
      row += fmt::format(" {} |", fastest(per_rank * ranks, 2, 1000, transfer));
    CHECK_MESSAGE(page.find(row + "\n") != std::string::npos, row);
  }
}

}  // namespace heddle::test::schedule_guide_test
