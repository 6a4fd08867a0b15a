// The figures of pipelines in results: the speedup over naive, the bubble, the schedule.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/results/summary.h"
#include "framework/description/text.h"
#include "parallel/pipeline/schedule_csv.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/results/sample_results.h"

namespace heddle::test {
namespace {

using OrderedJson = nlohmann::ordered_json;

TEST_CASE("a pipeline's speedup is given over naive on the same mesh with the same recomputation, and the ideal") {
  RunResult run;
  run.variants = {variant_result("serial", 1, 8), pipeline_variant("naive_2", "naive", 2, 6, 0.5, 1),
                  pipeline_variant("recomputed", "naive", 4, 16, 0.25, 1),
                  pipeline_variant("naive_4", "naive", 4, 8, 0.25, 1),
                  pipeline_variant("gpipe", "gpipe", 4, 4, 0.5, 2.5)};
  run.variants[2].pipeline->recompute = "always";
  run.variants[4].predicted_seconds = {.median = 3.5, .minimum = 3.25, .maximum = 4};
  run.variants[4].pipeline->stage_begins = {"stem", "layer2.0"};
  CHECK(naive_of(run, run.variants[0]) == nullptr);
  CHECK(naive_of(run, run.variants[2]) == &run.variants[2]);
  CHECK(naive_of(run, run.variants[4]) == &run.variants[3]);
  run.variants[3].batch = 128;
  CHECK(naive_of(run, run.variants[4]) == nullptr);
  run.variants[3].batch = 64;
  run.variants[3].ranks[3].coordinates[0].second = 1;
  CHECK(naive_of(run, run.variants[4]) == nullptr);
  run.variants[3].ranks[3].coordinates[0].second = 0;
  const OrderedJson summary = OrderedJson::parse(summary_json(run));
  const OrderedJson& gpipe = summary["variants"][4];
  CHECK(gpipe["schedule"] == "gpipe");
  CHECK(gpipe["recompute"] == "never");
  CHECK(gpipe["stages"] == 4);
  CHECK(gpipe["stage_begins"] == OrderedJson({"stem", "layer2.0"}));
  CHECK(gpipe["micro_batches"] == 2);
  CHECK(gpipe["bubble_fraction"] == 0.5);
  CHECK(gpipe["ranks"][3]["utilisation"] == 0.5);
  CHECK(gpipe["ideal_speedup"] == 2.5);
  CHECK(gpipe["speedup_over_naive"] == 2.0);
  CHECK(gpipe["share_of_ideal"] == 0.8);
  CHECK(gpipe["predicted_seconds"] == 3.5);
  CHECK(gpipe["predicted_min_seconds"] == 3.25);
  CHECK(summary["variants"][3]["share_of_ideal"] == 1.0);
  CHECK(summary["variants"][3]["predicted_seconds"].is_null());
  const OrderedJson& serial = summary["variants"][0];
  CHECK(serial["stages"] == 1);
  CHECK(serial["bubble_fraction"] == 0.0);
  for (const char* key : {"schedule", "recompute", "stage_begins", "speedup_over_naive", "share_of_ideal"})
    CHECK(serial[key].is_null());
  run.variants.erase(run.variants.begin() + 3);
  CHECK(naive_of(run, run.variants.back()) == nullptr);
}

TEST_CASE("a pipeline is compared with the last naive variant before it, else with the first one after it") {
  RunResult run;
  run.variants = {
      pipeline_variant("early", "gpipe", 2, 4, 0.5, 1),       pipeline_variant("naive", "naive", 2, 6, 0.5, 1),
      pipeline_variant("gpipe", "gpipe", 2, 4, 0.5, 1),       pipeline_variant("slow, naive", "naive", 2, 12, 0.5, 1),
      pipeline_variant("slow, gpipe", "gpipe", 2, 8, 0.5, 1),
  };
  CHECK(naive_of(run, run.variants[0]) == &run.variants[1]);
  CHECK(naive_of(run, run.variants[1]) == &run.variants[1]);
  CHECK(naive_of(run, run.variants[2]) == &run.variants[1]);
  CHECK(naive_of(run, run.variants[3]) == &run.variants[3]);
  CHECK(naive_of(run, run.variants[4]) == &run.variants[3]);
}

TEST_CASE("the bubble is the idle share of the median step; a resumed run's is that of its own steps") {
  VariantResult variant = pipeline_variant("gpipe", "gpipe", 2, 4, 0.75, 1.5);
  variant.steps = {step_record(0, 1, 9), step_record(1, 1, 1), step_record(2, 1, 4), step_record(3, 1, 5)};
  for (RankResult& rank : variant.ranks) rank.busy_in_step = {9, 1, rank.rank == 0 ? 4.0 : 2.0, 0};
  CHECK(bubble_fraction(variant) == 1 - 6.0 / 8);
  variant.first_step = 3;
  for (RankResult& rank : variant.ranks) rank.busy_in_step = {4};
  CHECK(bubble_fraction(variant) == close_to(0.2));
  variant.device = "cuda";
  CHECK_FALSE(bubble_fraction(variant));
  variant.device = "cpu";
  variant.ranks[1].busy_in_step.clear();
  CHECK_FALSE(bubble_fraction(variant));
}

TEST_CASE("the busy time of ranks on a GPU is not known, and null") {
  RunResult run;
  run.variants = {pipeline_variant("gpipe", "gpipe", 2, 4, 0.75, 1.5)};
  const auto written = [&] { return OrderedJson::parse(summary_json(run))["variants"][0]; };
  CHECK(written()["ranks"][0]["busy_seconds"].is_number());
  CHECK(written()["ranks"][0]["utilisation"].is_number());
  run.variants[0].device = "cuda";
  CHECK(written()["ranks"][0]["busy_seconds"].is_null());
  CHECK(written()["ranks"][0]["utilisation"].is_null());
  CHECK(written()["bubble_fraction"].is_null());
}

TEST_CASE("schedule.csv of a pipeline is its schedule") {
  VariantResult variant = pipeline_variant("gpipe", "gpipe", 2, 1, 1, 1);
  variant.pipeline->schedule = {.micro_batches = 1,
                                .rank_of = {0, 1},
                                .ranks = {{{ActionKind::forward, 0, 0}, {ActionKind::backward, 0, 0}},
                                          {{ActionKind::forward, 1, 0}, {ActionKind::backward, 1, 0}}}};
  CHECK(schedule_csv(variant) == to_csv(variant.pipeline->schedule));
}

}  // namespace
}  // namespace heddle::test
