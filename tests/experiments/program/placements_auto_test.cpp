// The planner's own choice of placements, as `explain` prints it and `run` trains it.
#include <fstream>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/program/explained.h"

namespace heddle::test::placements_auto_test {

namespace {

using test::call;
using test::Called;
using test::explained;
using test::Json;
using test::two_layers;

}  // namespace

TEST_CASE("placements auto are no slower than the plain choices that fit, and stay within the budget") {
  Json experiment = two_layers();
  experiment["model"]["hidden"] = {512, 512};
  experiment["model"]["placements"] = Json::array();
  for (const std::int64_t budget : {0, 3000000, 2500000}) {
    CAPTURE(budget);
    experiment["memory_budget"] = budget;
    const Json variant = explained(experiment, {"--placements", "auto"});
    const auto seconds = [](const Json& totals) {
      return totals["communication"]["seconds"].get<double>() + totals["computing"]["seconds"].get<double>();
    };
    CHECK(variant["placements"] == "auto");
    if (budget > 0) CHECK(variant["totals"]["memory"]["total"] <= budget);
    std::vector<std::string> names;
    for (const Json& choice : variant["choices"]) {
      names.push_back(choice["name"]);
      CAPTURE(names.back());
      if (choice["fits"]) CHECK(seconds(variant["totals"]) <= seconds(choice["totals"]) + 1e-9);
    }
    CHECK(names == std::vector<std::string>{"as written", "data", "column and row", "parameter", "auto"});
  }
}

TEST_CASE("run --placements auto trains what explain proposes, and writes it into experiment.json") {
  for (const char* mesh : {R"({"dp": 2})", R"({"tp": 2})", R"({"dp": 2, "tp": 2})"}) {
    CAPTURE(mesh);
    Json experiment = two_layers();
    experiment["mesh"] = Json::parse(mesh);
    experiment["model"]["hidden"] = {512, 512};
    const Json proposed = explained(experiment, {"--placements", "auto"});
    const Scratch folder;
    const std::string file = (folder / "small.json").string();
    std::ofstream(file) << experiment.dump();
    const auto run = [&](const std::string& from, const char* results, const std::vector<std::string>& more) {
      std::vector<std::string> arguments{"run", from, "--json", "--out", (folder / results).string()};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Called called = test::call(arguments);
      REQUIRE(called.code == 0);
      return Json::parse(called.out)["variants"][0];
    };
    const Json automatic = run(file, "auto", {"--placements", "auto"});
    const std::string written = (folder / "auto/experiment.json").string();
    const Json placements = Json::parse(read_file(written, 1 << 20))["model"]["placements"];
    CHECK(placements.size() == proposed["layers"].size());
    CHECK(automatic["sent_in_step"]["counted"] == automatic["sent_in_step"]["formula"]["total"]);
    const Called again = test::call({"explain", written, "--json"});
    REQUIRE(again.code == 0);
    const Json kept = Json::parse(again.out)["variants"][0];
    for (const char* key : {"layers", "redistributions", "totals"}) CHECK(kept[key] == proposed[key]);
    CHECK(run(written, "written", {})["loss_per_step"] == automatic["loss_per_step"]);
    const Json serial = run(file, "serial", {"--set", "mesh={}", "--set", "model.placements=[]"});
    for (std::size_t step = 0; step < 2; ++step)
      CHECK(automatic["loss_per_step"][step].get<double>() ==
            close_to(serial["loss_per_step"][step].get<double>()).epsilon(2e-5));
  }
}

TEST_CASE("a layer's placement may name its kind along the other axis, too") {
  Json experiment = two_layers();
  experiment["mesh"] = {{"dp", 2}, {"tp", 2}};
  experiment["model"]["placements"] =
      Json::parse(R"([{"layers": "fc", "parallel": "row", "over": "tp", "other": "parameter"}])");
  const Json explanation = explained(experiment);
  for (const Json& layer : explanation["layers"])
    if (layer["layer"] == "fc") CHECK(layer["parallel"] == Json::parse(R"({"dp": "parameter", "tp": "row"})"));
  experiment["model"]["placements"][0]["other"] = "column";
  CHECK(call({"explain"}, experiment)
            .err.find("fc: cannot be placed as row and column: expected at most one of column, "
                      "row and group, parameter at most once, and sequence not with group\n") != std::string::npos);
}

TEST_CASE("run --placements auto reports what does not fit") {
  Json experiment = two_layers();
  experiment["memory_budget"] = 5000;
  const Called called = call({"run", "--placements", "auto"}, experiment);
  CHECK(called.code == 2);
  CHECK(called.err ==
        "heddle: small: the model: no placement fits into 4.57 KiB per rank, the least that is possible is 15.3 KiB "
        "(the head takes 320 B of the 4.88 KiB of memory_budget)\n");
  CHECK(call({"run", "--placements", "best"}, two_layers()).code == 2);
}

}  // namespace heddle::test::placements_auto_test
