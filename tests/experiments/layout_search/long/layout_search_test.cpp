// The search for layouts, compared with plans of all layouts of small spaces.
#include "experiments/layout_search/layout_search.h"

#include <algorithm>
#include <limits>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "experiments/config/study.h"
#include "experiments/layout_search/pareto_front.h"
#include "experiments/training/experiment_checks.h"
#include "framework/error.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/program/shipped.h"
#include "tests/support/program/small_experiments.h"

namespace heddle::test {

namespace {

const char* const replicated = R"({"classes": 100, "parallel": "replicated"})";

LayoutSearchResult searched(const Experiment& experiment, const LayoutSearchOptions& options) {
  return search_layouts(experiment, LayoutSpace(experiment, options.ranks, options.allowed), open_datasets(experiment),
                        options);
}

/// Plans of all layouts: the time of the fastest that fits, or infinity, and the smallest peak.
struct Exhaustive {
  std::size_t count = 0;
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
};
Exhaustive planned_all(const Experiment& experiment, int ranks) {
  const LayoutSpace space(experiment, ranks, {});
  LayoutPlanner planner(open_datasets(experiment));
  Exhaustive found;
  for (const heddle::Layout& layout : space.all(100'000)) {
    ++found.count;
    try {
      const LayoutFigures figures = planner.plan(space.experiment(layout));
      CHECK(min_step_seconds(experiment, ranks) <= figures.seconds);
      found.bytes = std::min(found.bytes, figures.bytes);
      if (experiment.min_budget(ranks) == 0 || figures.fullness <= 1)
        found.seconds = std::min(found.seconds, figures.seconds);
    } catch (const InputError&) {
      continue;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a search finds the fastest layout of all, which it does not plan all") {
  struct Case {
    const char* name;
    Experiment experiment;
    int ranks;
    std::int64_t budget;
    std::vector<std::int64_t> rank_budgets{};
    double max_work = 12'000;  // too little to plan all
  };
  const std::vector<Case> cases{
      {"mlp, 4 ranks, short of memory", small_mlp(), 4, 1'300'000},
      {"mlp, 4 ranks, one of them short of memory", small_mlp(), 4, 2'000'000, {2'000'000, 2'000'000, 900'000}},
      {"large head, 4 ranks", small_convolutions(R"({"classes": 5000, "logits": "fused", "stash": true})"), 4, 0},
      {"replicated head, 8 ranks", small_convolutions(replicated), 8, 0, {}, LayoutSearchOptions().max_work}};
  for (Case each : cases) {
    CAPTURE(std::string(each.name));
    each.experiment.memory_budget = each.budget;
    each.experiment.ranks.memory_budget = each.rank_budgets;
    const LayoutSearchResult result = searched(each.experiment, {.ranks = each.ranks, .max_work = each.max_work});
    const Exhaustive all = planned_all(each.experiment, each.ranks);
    REQUIRE_FALSE(result.best.empty());
    CHECK(result.best.front().is_planned());
    CHECK(result.best.front().figures.seconds == close_to(all.seconds).epsilon(1e-9));
    CHECK(result.planned < all.count);
    CHECK(result.bound <= all.seconds);
    for (const LayoutCandidate& best : result.best) CHECK(best.fits);
  }
}

TEST_CASE("the layouts of searched.json are those that a search finds") {
  const Study<Experiment> study = read_study<Experiment>(experiment_file("searched"));
  const auto variant = [&](const std::string& name) {
    for (const auto& member : study.variants)
      if (member.name == name) {
        Experiment experiment = member.root;
        experiment.device = DeviceType::plan;
        experiment.head.product_type = ProductType::f32;
        check(experiment);
        return experiment;
      }
    throw std::runtime_error(name);
  };
  for (const std::string setting : {"communication", "memory", "unequal", "head"}) {
    CAPTURE(setting);
    const auto fastest_from = [&](const std::string& start) {
      const LayoutSearchResult result =
          searched(variant(setting + ", " + start),
                   {.ranks = 8, .allowed = {AllowedChange::recompute, AllowedChange::micro_batches}});
      REQUIRE_FALSE(result.best.empty());
      CHECK(result.best.front().is_planned());
      return result.best.front().figures.seconds;
    };
    const Experiment shipped = variant(setting + ", searched");
    const double seconds = LayoutPlanner(open_datasets(shipped)).plan(shipped).seconds;
    CHECK(fastest_from("gpipe") == close_to(seconds).epsilon(1e-3));
    CHECK(fastest_from("Megatron") <= 1.001 * seconds);  // wherever it begins
  }
}

TEST_CASE("the bound of a step has the operations of all samples, and no more, whatever the micro-batches") {
  Experiment experiment = small_mlp();
  experiment.train.micro_batches = 1;
  const double whole = min_step_seconds(experiment, 2);
  experiment.train.micro_batches = experiment.train.batch - 1;  // one of which has two samples
  CHECK(min_step_seconds(experiment, 2) == close_to(whole).epsilon(1e-12));
  experiment.head = {.classes = 400, .split = {200, 200}};
  const double with_parts = min_step_seconds(experiment, 2);
  experiment.head.split.clear();
  CHECK(min_step_seconds(experiment, 2) == close_to(with_parts).epsilon(1e-12));
}

TEST_CASE("a space that is small enough is planned whole") {
  const Experiment experiment = small_mlp();
  const LayoutSearchResult result = searched(experiment, {.ranks = 1});
  CHECK(result.planned == LayoutSpace(experiment, 1, {}).all(1000).size());
  CHECK(result.estimated == 0);
}

TEST_CASE("every layout keeps the batch, the micro-batches and the parts that batch norms normalise") {
  const Experiment experiment = small_convolutions(replicated);
  const LayoutSpace space(experiment, 8, {});
  CHECK(space.fixed_norm_groups() == 8);
  for (const heddle::Layout& layout : space.starts()) {
    CHECK(layout.mesh.dp == 2);
    CHECK(layout.micro_batches == 4);
    CHECK(layout.recompute == Recompute::never);
  }
  const LayoutSpace wider(experiment, 8, {AllowedChange::micro_batches});
  for (const heddle::Layout& layout : wider.starts()) CHECK(layout.mesh.dp * layout.micro_batches == 8);
  std::set<std::int64_t> dp;
  const LayoutSpace any_groups(experiment, 8, {AllowedChange::norm_groups});
  for (const MeshConfig& mesh : any_groups.meshes()) dp.insert(mesh.dp);
  CHECK(dp == std::set<std::int64_t>{1, 2, 4, 8});
}

TEST_CASE("norms of a network that is written out layer by layer may be synchronized, too") {
  for (const bool is_synchronized : {false, true}) {
    const Experiment experiment = planned_experiment(fmt::format(
        R"({{"name": "norms", "mesh": {{"dp": 2}}, "head": {{"classes": 40}},
             "data": {{"type": "synthetic_identities", "identities": 40, "image": [1, 8, 8]}},
             "model": {{"type": "layers", "layers": [{{"type": "flatten"}}, {{"type": "linear", "out": 16}},
                                                     {{"type": "batch_norm", "synchronized": {}}}]}},
             "train": {{"batch": 16, "micro_batches": 2}}}})",
        is_synchronized));
    const LayoutSpace space(experiment, 4, {AllowedChange::micro_batches});
    CHECK(space.fixed_norm_groups() == (is_synchronized ? 2 : 4));
    for (const heddle::Layout& layout : space.starts())
      CHECK((is_synchronized ? 1 : layout.mesh.dp) * layout.micro_batches == space.fixed_norm_groups());
  }
}

TEST_CASE("a change of one option leaves the others as they are, unless the mesh does not permit them") {
  const Experiment experiment = small_convolutions(R"({"classes": 100})");
  const LayoutSpace space(
      experiment, 4,
      {AllowedChange::recompute, AllowedChange::offload, AllowedChange::micro_batches, AllowedChange::norm_groups});
  for (const LayoutOption option : all_of<LayoutOption>) {
    CAPTURE(name_of(option));
    const std::vector<heddle::Layout> changes = space.neighbours(space.written(), option);
    // The planner may find no placements of its own; only the work of fused logits can be divided.
    if (option != LayoutOption::placements && option != LayoutOption::head_work) CHECK_FALSE(changes.empty());
    for (const heddle::Layout& changed : changes)
      for (const LayoutOption other : all_of<LayoutOption>) {
        const bool may_follow = option == LayoutOption::mesh || other == option;
        if (!may_follow) CHECK(value_of(changed, other) == value_of(space.written(), other));
      }
  }
}

TEST_CASE("offloading is tried where it is allowed, and where a pipeline keeps activations") {
  const Experiment experiment = small_convolutions(R"({"classes": 100})");
  CHECK(LayoutSpace(experiment, 4, {AllowedChange::recompute})
            .neighbours({.mesh = {.pp = 4}}, LayoutOption::offload)
            .empty());
  const LayoutSpace space(experiment, 4,
                          {AllowedChange::recompute, AllowedChange::offload, AllowedChange::norm_groups});
  heddle::Layout layout = space.written();
  CHECK(space.neighbours(layout, LayoutOption::offload).size() == 2);
  layout.offload = Offload::all;
  for (const LayoutOption option : {LayoutOption::recompute, LayoutOption::mesh}) {
    int offloading = 0;
    const std::vector<heddle::Layout> changes = space.neighbours(layout, option);
    for (const heddle::Layout& changed : changes) {
      const bool keeps_activations = changed.recompute == Recompute::never || changed.recompute == Recompute::sqrt;
      const bool offloads = changed.mesh.pp > 1 && keeps_activations;
      CHECK(changed.offload == (offloads ? Offload::all : Offload::never));
      offloading += offloads;
    }
    CHECK(offloading > 0);
    CHECK(offloading < static_cast<int>(changes.size()));
  }
}

TEST_CASE("all layouts of a space are different, and not more than its size") {
  const Experiment experiment = small_convolutions(R"({"classes": 100, "logits": "fused"})");
  const LayoutSpace space(experiment, 4,
                          {AllowedChange::recompute, AllowedChange::offload, AllowedChange::micro_batches});
  std::set<std::string> names;
  const std::vector<heddle::Layout> all = space.all(1'000'000);
  int offloading = 0;
  for (const heddle::Layout& layout : all) {
    names.insert(to_string(layout));
    offloading += layout.offload != Offload::never;
  }
  CHECK(offloading > 0);
  CHECK(names.size() == all.size());
  CHECK(all.size() <= space.size());
}

TEST_CASE("a search that may offload finds how much memory offloading alone saves") {
  Experiment experiment = small_mlp();
  experiment.mesh = {.pp = 4};
  const LayoutSearchResult result =
      searched(experiment, {.ranks = 4, .allowed = {AllowedChange::offload}, .max_work = 50'000});
  REQUIRE(result.written);
  const auto change = std::find_if(result.changes.begin(), result.changes.end(),
                                   [](const LayoutChange& each) { return each.option == LayoutOption::offload; });
  REQUIRE(change != result.changes.end());
  CHECK(change->changed.is_planned());
  CHECK(change->changed.layout.offload != Offload::never);
  CHECK(change->changed.figures.bytes < result.written->figures.bytes);
}

TEST_CASE("where estimates of memory promise too much, the search goes on until something fits") {
  Experiment experiment = planned_experiment(R"({
    "name": "resnet", "mesh": {"pp": 4}, "threads": 1,
    "links": {"latency": 2e-5, "bandwidth": 5e9, "host_bandwidth": 1e10},
    "data": {"type": "synthetic_identities", "identities": 40, "image": [3, 112, 112]},
    "model": {"type": "resnet18", "embedding": 128}, "head": {"classes": 400}, "pipeline": {"schedule": "1f1b"},
    "train": {"batch": 256, "micro_batches": 16}})");
  experiment.memory_budget = 200'000'000;
  const LayoutSearchResult result =
      searched(experiment, {.ranks = 4, .allowed = {AllowedChange::offload, AllowedChange::norm_groups}});
  REQUIRE_FALSE(result.best.empty());
  CHECK(result.best.front().is_planned());
  CHECK(result.best.front().figures.bytes <= experiment.memory_budget);
}

TEST_CASE("the work of a head is divided where all stages share fused logits, and at once where they do not") {
  const Experiment experiment = small_convolutions(R"({"classes": 100, "logits": "fused"})");
  const LayoutSpace space(experiment, 4, {AllowedChange::norm_groups});
  heddle::Layout layout = space.written();
  layout.mesh = {.pp = 4};
  CHECK(space.neighbours(layout, LayoutOption::head_work).size() == 2);
  layout.head_work = HeadWork::one_exchange;
  for (const LayoutOption option : {LayoutOption::over, LayoutOption::logits, LayoutOption::mesh}) {
    int divided = 0;
    for (const heddle::Layout& changed : space.neighbours(layout, option)) {
      const bool is_shared = changed.mesh.pp > 1 && changed.over.contains(Axis::pp) && changed.logits == Logits::fused;
      CHECK(changed.head_work == (is_shared ? HeadWork::one_exchange : HeadWork::at_once));
      divided += is_shared;
    }
    CHECK((divided > 0) == (option == LayoutOption::mesh));
  }
}

TEST_CASE("where some layouts can be planned and others cannot, both are ranked by what is known of them") {
  Experiment experiment = small_mlp();
  experiment.train.batch = 256;
  const LayoutSearchResult result = searched(experiment, {.ranks = 32, .max_work = 6'000});
  REQUIRE(result.best.size() == 10);
  const auto is_planned = [](const LayoutCandidate& each) { return each.is_planned(); };
  CHECK(result.planned > 0);
  CHECK_FALSE(std::all_of(result.best.begin(), result.best.end(), is_planned));
  for (std::size_t i = 1; i < result.best.size(); ++i)
    CHECK(static_cast<float>(result.best[i - 1].figures.seconds) <= static_cast<float>(result.best[i].figures.seconds));
}

TEST_CASE(
    "of layouts that take equally long, the smaller one comes first, and of nearly equal ones there is the first") {
  const Experiment experiment = small_convolutions(replicated);
  const LayoutSpace space(experiment, 4, {});
  const LayoutSearchResult result = searched(experiment, {.ranks = 4});
  CHECK(result.best.size() == 10);
  CHECK(result.has_equal_layouts);
  for (std::size_t i = 1; i < result.best.size(); ++i) {
    CHECK(result.best[i - 1].cost() < result.best[i].cost());
    CHECK_FALSE(have_equal_figures(result.best[i - 1], result.best[i]));
  }
  for (const LayoutCandidate& best : result.best)
    for (const LayoutCandidate& other : result.layouts)
      if (other.cost() == best.cost())
        CHECK(distance(best.layout, space.written()) <= distance(other.layout, space.written()));
}

TEST_CASE("the numbers of micro-batches are the divisors of the batch, and the experiment's own") {
  Experiment experiment = small_mlp();
  experiment.train.micro_batches = 5;
  std::set<std::int64_t> counts;
  const LayoutSpace space(experiment, 4, {AllowedChange::micro_batches});
  for (const heddle::Layout& layout : space.starts())
    if (layout.mesh.dp == 4) counts.insert(layout.micro_batches);
  CHECK(counts == std::set<std::int64_t>{1, 2, 4, 5, 8, 16});
}

TEST_CASE("a search within a budget finds no slower layout than a search without one that stays below it") {
  Experiment experiment = small_convolutions(R"({"classes": 2000})");
  experiment.mesh = {.pp = 4};
  const LayoutSearchOptions options{
      .ranks = 4,
      .allowed = {AllowedChange::recompute, AllowedChange::micro_batches, AllowedChange::norm_groups},
      .max_work = 100'000};
  const LayoutSearchResult free = searched(experiment, options);
  REQUIRE(free.front.size() > 3);
  for (std::size_t i = 0; i < free.front.size(); i += 3) {
    const LayoutCandidate& known = free.front[i];
    if (!known.is_planned()) continue;
    CAPTURE(to_string(known.layout));
    experiment.memory_budget = known.figures.bytes;
    const LayoutSearchResult result = searched(experiment, options);
    REQUIRE_FALSE(result.best.empty());
    CHECK(result.best.front().is_planned());
    CHECK(result.best.front().figures.seconds <= 1.001 * known.figures.seconds);
    // A search that begins at what another has found does not lose it.
    Experiment again = LayoutSpace(experiment, 4, options.allowed).experiment(result.best.front().layout);
    const LayoutSearchResult second = searched(again, options);
    REQUIRE_FALSE(second.best.empty());
    CHECK(second.best.front().figures.seconds <= result.best.front().figures.seconds);
  }
}

TEST_CASE("a search that may plan little still does not write a slower layout than the file's own") {
  Experiment experiment = small_mlp();
  experiment.mesh = {.pp = 4};
  const LayoutSearchResult result = searched(experiment, {.ranks = 4, .max_work = 1'000});
  REQUIRE(result.written);
  CHECK(result.written->is_planned());
  REQUIRE_FALSE(result.best.empty());
  CHECK(result.best.front().is_planned());
  CHECK(result.best.front().figures.seconds <= result.written->figures.seconds);
  CHECK(result.is_exhausted);
}

TEST_CASE("an interrupted search gives the best that it has found") {
  const Experiment experiment = small_mlp();
  int polls = 0;
  const LayoutSearchResult result =
      searched(experiment, {.ranks = 4, .is_interrupted = [&polls] { return ++polls > 40; }});
  CHECK(result.is_interrupted);
  REQUIRE_FALSE(result.best.empty());
  CHECK(result.best.front().is_planned());
  CHECK(result.estimated + result.planned < 100);
}

TEST_CASE("ranks that no mesh divides are an error with the reason for each mesh") {
  CHECK_THROWS_WITH_AS(
      LayoutSpace(small_convolutions(replicated), 97, {}),
      "no mesh of 97 ranks trains small:\n"
      "  dp 97: train.batch = 32 has fewer samples than parts, dp 97 x 4 micro-batches\n"
      "  pp 97: the model has 7 layers, fewer than stages\n"
      "  tp 97: batch norms would not normalise 8 parts of the batch, as in the file (--allow norm_groups)",
      InputError);
}

TEST_CASE("layouts that are too large to plan are estimated") {
  Experiment experiment = small_mlp();
  experiment.train.batch = 4096;
  const LayoutSearchResult result = searched(experiment, {.ranks = 256, .max_work = 100});
  CHECK(result.planned == 0);
  REQUIRE_FALSE(result.best.empty());
  CHECK_FALSE(result.best.front().is_planned());
  CHECK(mesh_of(result.best.front().layout.mesh).size() == 256);
}

}  // namespace heddle::test
