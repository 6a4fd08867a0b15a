// The search: which schedules it tries, how it sorts them, and that the list scheduler's are valid.
#include "parallel/pipeline/search/schedule_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/search/list_scheduler.h"
#include "parallel/pipeline/validation.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

ScheduleSearchSpace space(int ranks, int micro_batches, const StageCosts& costs = {}) {
  ScheduleSearchSpace space;
  space.ranks = ranks;
  space.micro_batches = micro_batches;
  space.max_tried_micro_batches = micro_batches;
  space.costs = costs;
  space.effort = 0.02;  // enough for what is checked here
  return space;
}

const ScheduleCandidate* find(const std::vector<ScheduleCandidate>& candidates, std::string_view name,
                              int micro_batches, int chunks) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const ScheduleCandidate& w) {
    return w.name == name && w.shape.micro_batches == micro_batches && w.shape.chunks == chunks;
  });
  return found == candidates.end() ? nullptr : &*found;
}

const ScheduleCandidate& best(const std::vector<ScheduleCandidate>& candidates, bool is_named) {
  return *std::find_if(candidates.begin(), candidates.end(),
                       [&](const ScheduleCandidate& w) { return w.is_named == is_named; });
}

/// Whether each stage's F, and its backwards, are in the order of the micro-batches.
bool visits_in_order(const Schedule& schedule) {
  std::vector<int> forward(schedule.rank_of.size());
  std::vector<int> backward(schedule.rank_of.size());
  for (const auto& list : schedule.ranks)
    for (const Action& action : list) {
      if (action.kind == ActionKind::backward_weight) continue;
      int& next = (is_backward(action.kind) ? backward : forward)[static_cast<std::size_t>(action.stage)];
      if (action.micro_batch != next++) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("every schedule of the search can be executed, in the order of the micro-batches, and costs what it says") {
  ScheduleSearchSpace searched = space(4, 8, {.forward = 3, .backward_input = 4, .backward_weight = 2});
  searched.transfer = {.latency = 0.5, .occupancy = 0.25};
  for (const std::optional<double> memory : {std::optional<double>{}, std::optional<double>{3}}) {
    searched.memory = memory;
    for (const ScheduleCandidate& w : search_schedules(searched).schedules) {
      CAPTURE(w.name);
      CHECK(!validate(w.schedule));
      CHECK(visits_in_order(w.schedule));
      const Simulation simulation = simulate(w.schedule, costs_of(searched, w.schedule));
      CHECK(simulation.step_time == w.makespan);
      CHECK(*std::max_element(simulation.peak_memory.begin(), simulation.peak_memory.end()) == w.peak_memory);
      CHECK(w.fits == (!memory || w.peak_memory <= *memory + 1e-6));
      CHECK(w.schedule.micro_batches == w.shape.micro_batches);
      CHECK(w.schedule.stages() == w.shape.ranks * w.shape.chunks);
    }
  }
}

TEST_CASE("schedules that fit come first, sorted by time; then those that do not fit, sorted by memory") {
  ScheduleSearchSpace searched = space(4, 8);
  searched.memory = 3;
  const std::vector<ScheduleCandidate> candidates = search_schedules(searched).schedules;
  bool fits = true;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    CHECK((fits || !candidates[i].fits));
    if (i > 0 && fits == candidates[i].fits)
      CHECK((fits ? candidates[i - 1].makespan <= candidates[i].makespan + 1e-6
                  : candidates[i - 1].peak_memory <= candidates[i].peak_memory + 1e-6));
    fits = candidates[i].fits;
  }
  CHECK(candidates.front().fits);
  CHECK(!candidates.back().fits);
}

TEST_CASE("all named schedules with one copy of each stage are compared, with every number of stages that they take") {
  const std::vector<ScheduleCandidate> candidates = search_schedules(space(2, 4)).schedules;
  for (const ScheduleType& type : schedule_types()) {
    CAPTURE(type.name);
    CHECK((find(candidates, type.name, 4, std::max(1, type.min_chunks)) != nullptr) == (type.copies == 1));
  }
  for (int chunks = 1; chunks <= 4; ++chunks) CHECK(find(candidates, "looped_bfs", 4, chunks) != nullptr);
  ScheduleSearchSpace one_stage = space(2, 4);
  one_stage.max_chunks = 1;
  for (const ScheduleCandidate& w : search_schedules(one_stage).schedules) CHECK(w.shape.chunks == 1);
}

TEST_CASE("different numbers of micro-batches have the costs of the step's samples") {
  ScheduleSearchSpace searched =
      space(2, 4, {.forward = 2, .backward_input = 3, .backward_weight = 4, .activations = 10});
  searched.max_tried_micro_batches = 8;
  searched.transfer = {.latency = 1, .occupancy = 1};
  const std::vector<ScheduleCandidate> candidates = search_schedules(searched).schedules;
  const auto gpipe = [&](int m) { return find(candidates, "gpipe", m, 1); };
  REQUIRE((gpipe(2) && gpipe(4) && gpipe(8)));
  CHECK(find(candidates, "gpipe", 3, 1) == nullptr);
  CHECK(find(candidates, "gpipe", 1, 1) == nullptr);  // fewer than ranks
  // (m + 1) times a micro-batch, and a transfer there and back: 1 + 4 / m each.
  CHECK(gpipe(4)->makespan == close_to(5 * 9 + 2 * 2));
  CHECK(gpipe(2)->makespan == close_to(3 * 18 + 2 * 3));
  CHECK(gpipe(8)->makespan == close_to(9 * 4.5 + 2 * 1.5));
  for (const int m : {2, 4, 8}) CHECK(gpipe(m)->peak_memory == close_to(40));
}

TEST_CASE("the searched schedule is faster where no named one accounts for the costs or the memory") {
  const auto gain = [](const ScheduleSearchSpace& searched) {
    const std::vector<ScheduleCandidate> candidates = search_schedules(searched).schedules;
    REQUIRE(best(candidates, false).fits);
    return 1 - best(candidates, false).makespan / best(candidates, true).makespan;
  };
  ScheduleSearchSpace tight = space(8, 32);
  tight.memory = 6;
  CHECK(gain(tight) > 0.05);
  ScheduleSearchSpace profiled = space(8, 24, {.forward = 18522, .backward_input = 18086, .backward_weight = 9337});
  profiled.transfer.latency = 601;
  CHECK(gain(profiled) > 0.02);
}

TEST_CASE("if a named schedule is the best, it comes first") {
  ScheduleSearchSpace searched = space(8, 32);
  searched.max_chunks = 1;
  CHECK(search_schedules(searched).schedules.front().is_named);
}

TEST_CASE("with little memory, blocks and reordering beat the other ways to make a schedule") {
  ScheduleSearchSpace searched = space(8, 32);
  searched.max_chunks = 2;
  for (const auto& [memory, most] : {std::pair(4.0, 107.5), std::pair(5.0, 104.5), std::pair(6.0, 101.5)}) {
    CAPTURE(memory);
    searched.memory = memory;
    const ScheduleCandidate best = search_schedules(searched).schedules.front();
    CHECK(best.makespan <= most);
    CHECK((best.name.ends_with(", block") || best.name.ends_with(", reordered")));
  }
}

TEST_CASE("no schedule that fits is below the bound, and none is left to find where one reaches it") {
  for (const double memory : {2.0, 3.0, 4.0, 8.0})
    for (const StageCosts& costs :
         {StageCosts{}, StageCosts{.forward = 3, .backward_input = 4, .backward_weight = 2}}) {
      CAPTURE(memory);
      ScheduleSearchSpace searched = space(4, 8, costs);
      searched.memory = memory;
      searched.transfer.latency = 0.25;
      const ScheduleSearchResult result = search_schedules(searched);
      CHECK(result.schedules.front().fits);
      CHECK(result.bound >= 8 * (costs.forward + costs.backward_input + costs.backward_weight));
      for (const ScheduleCandidate& w : result.schedules)
        if (w.fits) CHECK(w.makespan >= result.bound * (1 - 1e-9));
    }
  const ScheduleSearchResult roomy = search_schedules(space(4, 8));
  CHECK(roomy.schedules.front().makespan == close_to(roomy.bound));
}

TEST_CASE("a search that is ended early has the best schedules so far, and the same bound") {
  ScheduleSearchSpace searched = space(8, 16);
  searched.memory = 4;
  const ScheduleSearchResult whole = search_schedules(searched);
  CHECK(!whole.is_interrupted);
  CHECK(whole.tried.named > 20);
  CHECK(whole.tried.placements > 1);
  CHECK(whole.tried.list_schedules > 20);
  CHECK(whole.tried.blocks > 100);
  CHECK(whole.tried.reorderings > 100);
  CHECK(whole.tried.bound == whole.bound);
  CHECK(whole.tried.best == close_to(whole.schedules.front().makespan));
  double best = std::numeric_limits<double>::infinity();
  for (const std::int64_t most : {std::int64_t{0}, std::int64_t{5}, whole.tried.named + 1, whole.tried.named + 200,
                                  whole.tried.schedules() - 10, whole.tried.schedules() + 10}) {
    CAPTURE(most);
    bool is_ended = false;
    int calls_after_the_end = 0;
    const ScheduleSearchOptions options{.on_progress =
                                            [&](const ScheduleSearchProgress& tried) {
                                              calls_after_the_end += is_ended ? 1 : 0;
                                              is_ended = tried.schedules() >= most;
                                            },
                                        .is_interrupted = [&] { return is_ended; }};
    const ScheduleSearchResult result = search_schedules(searched, options);
    CHECK(calls_after_the_end == 0);
    CHECK(result.is_interrupted == is_ended);
    CHECK(is_ended == (most < whole.tried.schedules()));
    CHECK(result.bound == whole.bound);
    CHECK(result.tried.named <= std::max(std::int64_t{1}, most));
    REQUIRE(!result.schedules.empty());
    for (const ScheduleCandidate& w : result.schedules) CHECK(!validate(w.schedule));
    const ScheduleCandidate& front = result.schedules.front();
    if (front.fits) CHECK(front.makespan <= best + 1e-9);
    if (front.fits) best = front.makespan;
  }
  CHECK(best == whole.schedules.front().makespan);
}

TEST_CASE("two searches give the same result") {
  const auto names = [] {
    std::vector<std::string> all;
    for (const ScheduleCandidate& w : search_schedules(space(4, 8)).schedules) all.push_back(w.name);
    return all;
  };
  CHECK(names() == names());
}

TEST_CASE("one rank, one micro-batch and costs of zero are searched, too") {
  CHECK(search_schedules(space(1, 1)).schedules.front().makespan == 3);
  const StageCosts nothing{.forward = 0, .backward_input = 0, .backward_weight = 0};
  CHECK(search_schedules(space(2, 2, nothing)).schedules.front().makespan == 0);
  CHECK_THROWS_WITH_AS(search_schedules(space(0, 1)), "search: expected at least 1 rank and 1 micro-batch, got 0 and 1",
                       InputError);
  ScheduleSearchSpace deep = space(16, 64);
  deep.max_chunks = 64;
  CHECK_THROWS_WITH_AS(search_schedules(deep),
                       "search: expected at most 262144 cells to try in all, got 3727360 of 16 ranks, up to 64 "
                       "micro-batches and up to 64 chunks",
                       InputError);
}

TEST_CASE("list schedules: the micro-batches in flight open the step, and memory holds back") {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  const auto made = [](int max_in_flight, double memory) {
    const std::vector<StageCosts> costs(3);
    return list_schedule(scheduling_problem(6, {0, 1, 2}, costs, {}, memory), {.max_in_flight = max_in_flight});
  };
  for (const int max_in_flight : {1, 2, 3, 5}) {
    const std::optional<Schedule> schedule = made(max_in_flight, unlimited);
    REQUIRE(schedule);
    CHECK(!validate(*schedule));
    const auto first_backward = std::find_if(schedule->ranks[0].begin(), schedule->ranks[0].end(),
                                             [](const Action& action) { return action.kind != ActionKind::forward; });
    CHECK(first_backward - schedule->ranks[0].begin() == max_in_flight);
  }
  const std::optional<Schedule> tight = made(6, 2);
  REQUIRE(tight);
  for (const double peak : simulate(*tight, {}).peak_memory) CHECK(peak <= 2);
  CHECK(!made(6, 0.5));
}

}  // namespace heddle::test
