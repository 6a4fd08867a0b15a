// Restarts of a job in the files and the table of a results folder.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/results/restarts_json.h"
#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "experiments/results/table.h"
#include "framework/files/atomic_file.h"
#include "tests/support/files/experiment_files.h"

namespace heddle::test::restarts_test {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::vector<Restart> two_restarts() {
  return {
      {.number = 1,
       .why = "rank 3: its process has ended",
       .failed_at = 1000.5,
       .step = 4,
       .ranks = 2,
       .seconds = 5.25},
      {.number = 2, .why = "rank 1: its process has ended", .failed_at = 2000, .step = 4, .ranks = 1, .seconds = 6}};
}

const char* const text_of_two =
    R"([{"number": 1, "why": "rank 3: its process has ended", "failed_at": 1000.5, "step": 4, "ranks": 2, "seconds": 5.25},
        {"number": 2, "why": "rank 1: its process has ended", "failed_at": 2000.0, "step": 4, "ranks": 1, "seconds": 6.0}])";

}  // namespace

TEST_CASE("results: restarts are in the line of the first step after them, and known when this step is trained again") {
  Files files;
  {
    ResultsFolder folder(files.path("out"), "{}", false);
    (void)folder.begin_variant("base", 0, 8);
    folder.step({.step = 3});
    folder.step({.step = 4, .restarts = two_restarts()});
    folder.step({.step = 5});
  }
  const std::string metrics = read_file(files.path("out") + "/metrics.jsonl", 1 << 20);
  const std::size_t second = metrics.find('\n') + 1;
  CHECK_FALSE(OrderedJson::parse(metrics.substr(0, second)).contains("restarts"));
  CHECK(OrderedJson::parse(metrics.substr(second, metrics.find('\n', second) - second))["restarts"] ==
        OrderedJson::parse(text_of_two));
  for (const std::int64_t first : {6, 4}) {
    ResultsFolder resumed(files.path("out"), "{}", true);
    const EarlierRun earlier = resumed.begin_variant("base", first, 8);
    CHECK(earlier.steps.size() == static_cast<std::size_t>(first - 3));
    CHECK(earlier.restarts == two_restarts());
  }
}

TEST_CASE("results: restarts are below the table and in summary.json") {
  RunResult run;
  VariantResult variant;
  variant.name = "base";
  variant.restarts = two_restarts();
  run.variants = {variant};
  const std::string table = results_table(run);
  CHECK(table.find("base restart 1: 2 ranks went on from step 4 after 5.2 s: rank 3: its process has ended\n") !=
        std::string::npos);
  CHECK(table.find("base restart 2: 1 rank went on from step 4 after 6.0 s: rank 1: its process has ended\n") !=
        std::string::npos);
  CHECK(OrderedJson::parse(summary_json(run))["variants"][0]["restarts"] == OrderedJson::parse(text_of_two));
}

TEST_CASE("results: restarts that are not as we write them are read as far as they go") {
  CHECK(restarts_of(OrderedJson::parse(R"({"restarts": 3})")).empty());
  CHECK(restarts_of(OrderedJson::parse(R"({"restarts": [3, {"number": "x", "why": 4}]})")) ==
        std::vector<Restart>{Restart{}});
}

}  // namespace heddle::test::restarts_test
