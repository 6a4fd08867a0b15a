// The search for the largest value that fits a budget, by itself and as `heddle plan --maximise`.
#include "experiments/program/plan/maximise.h"

#include <cmath>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/training/experiment.h"
#include "framework/error.h"
#include "tests/support/devices.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test::maximise_test {

namespace {

using Json = nlohmann::json;
using test::call;
using test::Called;
using test::Files;
using test::summary;

using Bytes = std::function<std::int64_t(std::int64_t)>;

VariantResult holding(std::int64_t bytes) {
  VariantResult result;
  result.ranks.resize(2);
  result.ranks[1].rank = 1;
  result.ranks[1].peak.bytes[0] = bytes;
  return result;
}

struct Found {
  Largest largest;
  int trials = 0;
};

void takes_all(std::int64_t /*value*/) {}

Found search(std::int64_t budget, const IntegerField& field, const Bytes& bytes, const CheckOf& check = takes_all) {
  Found found;
  found.largest = max_within(budget, field, check, [&](std::int64_t value) {
    check(value);
    CHECK(value >= field.min);
    CHECK(value <= field.max);
    ++found.trials;
    return holding(bytes(value));
  });
  return found;
}

Json small() {
  return Json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 3},
    "data": {"type": "synthetic_identities", "identities": 60, "image": [1, 2, 2]},
    "model": {"type": "mlp", "hidden": [], "embedding": 16},
    "head": {"classes": 100},
    "train": {"batch": 12, "steps": 4}})");
}

std::int64_t fullest(const Json& variant) {
  std::int64_t most = 0;
  for (const Json& rank : variant["ranks"]) most = std::max(most, rank["peak_bytes"]["total"].get<std::int64_t>());
  return most;
}

}  // namespace

TEST_CASE("the search finds the last value that fits, whatever the bytes grow by, in few trials") {
  const std::vector<std::pair<std::string, Bytes>> kinds{
      {"linear", [](std::int64_t v) { return 5 * v + 1000; }},
      {"in stairs", [](std::int64_t v) { return 4096 * ((v + 7) / 8) + 3'000'000; }},
      {"with a kink", [](std::int64_t v) { return std::max(2 * v + 500'000, 100 * v - 7'000'000); }},
      {"flat at first", [](std::int64_t v) { return std::max<std::int64_t>(123'456, 1000 * v); }},
      {"in two steps", [](std::int64_t v) { return v < 70'000 ? 10 : 1'000'000'000'000; }},
      {"squared", [](std::int64_t v) { return v * v; }},
      {"by its root",
       [](std::int64_t v) { return static_cast<std::int64_t>(1e5 * std::sqrt(static_cast<double>(v))); }}};
  for (const auto& [kind, bytes] : kinds)
    for (const std::int64_t limit : {2, 3, 999, 70'001, 1'234'567, 88'888'889})
      for (const std::int64_t start : {2, 500, 100'000, 50'000'000}) {
        CAPTURE(kind);
        CAPTURE(limit);
        CAPTURE(start);
        const std::int64_t budget = bytes(limit);
        const Found found = search(budget, {start, 2, 100'000'000}, bytes);
        REQUIRE(found.largest.fits);
        CHECK(bytes(found.largest.value) <= budget);
        if (found.largest.value < 100'000'000) CHECK(bytes(found.largest.value + 1) > budget);
        CHECK(found.largest.plan.ranks[1].peak.bytes[0] == bytes(found.largest.value));
        CHECK(found.trials <= 40);
      }
  CHECK(search(5'000'001'000, {1000, 2, 10'000'000'000}, kinds[0].second).trials <= 5);
}

TEST_CASE("the search gives the reason why the next value does not fit") {
  const Bytes bytes = [](std::int64_t v) { return 5 * v; };
  CHECK(search(1003, {7, 1, 10'000}, bytes).largest.why == "with 201, rank 1 needs 1005 B");
  const Found whole = search(1003, {7, 1, 150}, bytes);
  CHECK(whole.largest.value == 150);
  CHECK(whole.largest.why == "its range ends here");
  const Found none = search(14, {7, 3, 150}, bytes);
  CHECK_FALSE(none.largest.fits);
  CHECK(none.largest.value == 3);
  CHECK(none.largest.why == "with 3, rank 1 needs 15 B");
  CHECK(none.largest.plan.ranks[1].peak.bytes[0] == 15);
}

TEST_CASE("values that the experiment refuses bound the search on both sides") {
  const auto refusing = [](std::int64_t budget, std::int64_t start) {
    return search(
               budget, {start, 1, 1'000'000}, [](std::int64_t value) { return 10 * value; },
               [](std::int64_t value) {
                 if (value < 40 || value > 700) fail<InputError>("{} is no value", value);
               })
        .largest;
  };
  CHECK(refusing(5000, 600).value == 500);
  CHECK(refusing(5000, 41).value == 500);
  CHECK(refusing(100'000, 41).value == 700);
  CHECK(refusing(100'000, 41).why == "701 is refused: 701 is no value");
  CHECK_FALSE(refusing(399, 600).fits);
  CHECK(refusing(399, 600).why == "with 40, rank 1 needs 400 B");
  CHECK_THROWS_WITH_AS(refusing(5000, 20), "20 is no value", InputError);
}

TEST_CASE("if a larger value may hold less, the largest possible value is planned at once") {
  const Bytes shared = [](std::int64_t ranks) { return 1'000'000 / ranks + 50; };
  const CheckOf up_to_700 = [](std::int64_t value) {
    if (value > 700) fail<InputError>("{} is no value", value);
  };
  for (const std::int64_t start : {1, 4, 300, 650}) {
    CAPTURE(start);
    const Found fitting = search(10'000'000, {start, 1, 1'000'000}, shared, up_to_700);
    CHECK(fitting.largest.fits);
    CHECK(fitting.largest.value == 700);
    CHECK(fitting.largest.why == "701 is refused: 701 is no value");
    CHECK(fitting.trials <= 3);
    // Only very large values fit, which the trial of the largest value shows.
    CHECK(search(2000, {start, 1, 1'000'000}, shared, up_to_700).largest.value == 700);
    const Found none = search(1000, {start, 1, 1'000'000}, shared, up_to_700);
    CHECK_FALSE(none.largest.fits);
    CHECK(none.largest.why == "with 700, rank 1 needs 1478 B");
  }
  CHECK(search(10'000'000, {8, 1, 1024}, shared).largest.why == "its range ends here");
}

TEST_CASE("where bytes fall and rise again, a value that was found to fit is never abandoned") {
  const Bytes valley = [](std::int64_t v) { return 1000 + 10 * (v - 20) * (v - 20); };
  for (const std::int64_t start : {12, 15, 18, 20, 25}) {
    CAPTURE(start);
    const Found found = search(1640, {start, 1, 700}, valley);
    CHECK(found.largest.fits);
    CHECK(found.largest.value == 28);
    CHECK(found.largest.why == "with 29, rank 1 needs 1810 B");
  }
}

TEST_CASE("a value on which no bytes depend does not matter, and one that bounds them only for others does") {
  CHECK_FALSE(search(1000, {7, 0, 1'000'000}, [](std::int64_t) { return 500; }).largest.memory_varies);
  CHECK_FALSE(search(1000, {0, 0, 1'000'000}, [](std::int64_t) { return 500; }).largest.memory_varies);
  const Bytes only_of_small = [](std::int64_t v) { return v < 5 ? 400 : 500; };
  CHECK(search(1000, {7, 0, 1'000'000}, only_of_small).largest.memory_varies);
  CHECK(search(499, {7, 0, 1'000'000}, [](std::int64_t) { return 500; }).largest.memory_varies);
  CHECK(search(1000, {3, 3, 3}, [](std::int64_t) { return 500; }).largest.memory_varies);
}

TEST_CASE("plan --maximise refuses a field that memory does not depend on") {
  Files files;
  const std::string file = files.write(small());
  for (const std::string field : {"seed", "train.steps", "train.save_every"}) {
    const Called refused = call({"plan", file, "--maximise", field, "--budget", "100MB"});
    CHECK(refused.code == 2);
    CHECK(refused.err.starts_with("heddle: --maximise: " + field + " needs the same memory with every value, "));
    CHECK(refused.err.ends_with(" B: name a field that memory depends on, such as train.batch or head.classes\n"));
  }
}

TEST_CASE("an integer field is found by its path, with its range; the nearest name is offered for another") {
  Experiment experiment;
  experiment.model.type = ModelType::layers;
  experiment.model.layers.resize(2);
  experiment.model.layers[1].type = LayerType::linear;
  const auto find = [&](const std::string& path) {
    return integer_field([&experiment](Describer& d) { describe(d, experiment); }, path);
  };
  const IntegerField batch = find("train.batch");
  CHECK(batch.value == 64);
  CHECK(batch.min == 1);
  CHECK(batch.max == 1'000'000);
  CHECK(find("model.layers.1.out").min == 1);
  const auto error = [&](const std::string& path) -> std::string {
    try {
      (void)find(path);
    } catch (const InputError& refused) {
      return refused.what();
    }
    return "";
  };
  CHECK(error("train.bach") == "no field \"train.bach\"; did you mean \"train.batch\"?");
  CHECK(error("classes") == "no field \"classes\"; did you mean \"head.classes\"?");
  CHECK(error("qqqqqqqq") == "no field \"qqqqqqqq\"");
  CHECK(error("evaluation.batch") == "no field \"evaluation.batch\"");
  CHECK(error("head") == "expected a field that holds an integer, \"head\" holds an object");
  CHECK(error("device") == "expected a field that holds an integer, \"device\" holds one of several names");
  CHECK(error("timeout") ==
        "expected a field that holds an integer, \"timeout\" holds a number that need not be whole");
  CHECK(error("evaluate") == "no field \"evaluate\"");
}

TEST_CASE("plan --maximise finds the last number of classes that fits, though the data has more people") {
  Files files;
  const std::string file = files.write(small());
  for (const std::int64_t budget : {8'000, 20'000, 12'345'678}) {
    CAPTURE(budget);
    const std::string budget_text = fmt::format("{}", budget);
    const Called searched = call({"plan", file, "--maximise", "head.classes", "--budget", budget_text, "--json"});
    REQUIRE(searched.code == 0);
    const Json variant = summary(searched)["variants"][0];
    CHECK(variant["maximised"]["field"] == "head.classes");
    const auto classes = variant["maximised"]["value"].get<std::int64_t>();
    CHECK(fullest(variant) <= budget);
    const auto planned = [&](std::int64_t value) {
      return call({"plan", file, "--set", fmt::format("head.classes={}", value), "--set", "data.identities=2", "--set",
                   "memory_budget=" + budget_text, "--json"});
    };
    CHECK(fullest(summary(planned(classes))["variants"][0]) == fullest(variant));
    CHECK(planned(classes).code == 0);
    CHECK(planned(classes + 1).code == 3);
  }
  CHECK(summary(call({"plan", file, "--json"}))["variants"][0].count("maximised") == 0);
}

TEST_CASE("plan --maximise searches every variant, by its own memory_budget if none is given") {
  Files files;
  Json experiment = small();
  experiment["variants"] = Json::parse(R"([
    {"name": "small", "patch": {"memory_budget": 100000}},
    {"name": "none", "patch": {"memory_budget": 100}},
    {"name": "large", "patch": {"memory_budget": 200000}}])");
  const std::string file = files.write(experiment);
  const Called searched = call({"plan", file, "--maximise", "train.batch", "--json"});
  CHECK(searched.code == 3);
  const Json variants = summary(searched)["variants"];
  CHECK(variants[0]["maximised"]["value"].get<int>() > 12);
  CHECK(variants[1]["maximised"]["value"].is_null());
  CHECK(variants[1]["status"] == "out_of_memory");
  const std::int64_t needed = fullest(variants[1]);
  CHECK(needed > 100);
  CHECK(variants[1]["error"] ==
        fmt::format("no value of train.batch fits into 100 B: with 1, rank 0 needs {} B", needed));
  CHECK(variants[2]["maximised"]["value"].get<int>() > variants[0]["maximised"]["value"].get<int>());
  const std::string text = call({"plan", file, "--maximise", "train.batch"}).out;
  CHECK(text.find(fmt::format("small: train.batch = {}; with ", variants[0]["maximised"]["value"].get<int>())) !=
        std::string::npos);
}

TEST_CASE("a search reports if a field's range or the experiment ends it" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Files files;
  const std::string file = files.write(small());
  const auto searched = [&](const std::string& field, const std::string& budget = "1MB") {
    return call({"plan", file, "--maximise", field, "--budget", budget}).out;
  };
  CHECK(searched("head.classes").find("small: head.classes = ") != std::string::npos);
  CHECK(searched("train.batch", "8TB").find("small: train.batch = 1000000; its range ends here\n") !=
        std::string::npos);
  // The line breaks before the path of the file if that is long.
  const std::string refused = searched("data.identities");
  CHECK(refused.find("small: data.identities = 100; 101 is refused:") != std::string::npos);
  CHECK(refused.find(file.substr(0, 10)) != std::string::npos);
}

TEST_CASE("a search over a thousand million classes is exact") {
  Files files;
  Json experiment = small();
  experiment["model"]["embedding"] = 512;
  experiment["mesh"]["dp"] = 8;
  const std::string file = files.write(experiment);
  const Json variant =
      summary(call({"plan", file, "--maximise", "head.classes", "--budget", "1.5TB", "--json"}))["variants"][0];
  CHECK(variant["maximised"]["value"].get<std::int64_t>() > 1'000'000'000);
  CHECK(fullest(variant) <= 1'500'000'000'000);
  CHECK(fullest(variant) > 1'499'999'990'000);
}

TEST_CASE("wrong searches print the error and exit with 2") {
  Files files;
  const std::string file = files.write(small());
  const auto error = [&](const std::string& field, const std::string& budget) {
    const Called called = call({"plan", file, "--maximise", field, "--budget", budget});
    CHECK(called.code == 2);
    return called.err;
  };
  CHECK(error("head.clases", "1GB") ==
        "heddle: --maximise: no field \"head.clases\"; did you mean \"head.classes\"?\n");
  CHECK(error("head.logits", "1GB") ==
        "heddle: --maximise: expected a field that holds an integer, \"head.logits\" holds one of several names\n");
  CHECK(error("head.classes", "1 gig") ==
        "heddle: --budget: expected bytes such as 32GB, 1.5GiB or 4096, up to 9 PB (numbers below 1000 need a unit), "
        "got \"1 "
        "gig\"\n");
  const Called without = call({"plan", file, "--maximise", "head.classes"});
  CHECK(without.code == 2);
  CHECK(without.err == "heddle: --maximise: expected --budget, or a memory_budget in the experiment; small has none\n");
  const Called several = call({"plan", file, "--maximise", "head.classes", "--set", "ranks.memory_budget=[20000]"});
  CHECK(several.code == 2);
  CHECK(several.err == "heddle: --maximise: expected --budget: small has ranks.memory_budget, one for each rank\n");
  CHECK(call({"plan", file, "--budget", "1GB"}).code == 2);
}

TEST_CASE("bytes are read as people write them") {
  CHECK(budget_bytes("32GB") == 32'000'000'000);
  CHECK(budget_bytes("32GiB") == std::int64_t{32} << 30);
  CHECK(budget_bytes("4096") == 4096);
  CHECK(budget_bytes("1KB") == 1000);
  CHECK(budget_bytes("17 B") == 17);
  CHECK(budget_bytes("1.5 MiB") == 3 << 19);
  CHECK(budget_bytes("2kB") == 2000);
  CHECK(budget_bytes("0.5KiB") == 512);
  CHECK(budget_bytes("8TB") == 8'000'000'000'000);
  CHECK(budget_bytes("8TiB") == std::int64_t{8} << 40);
  for (const char* wrong : {"", "GB", "-1", "+1", "0", "0.4B", "32gb", "32 GBs", "1e9", "inf", "nan", "0x10", "1,5GB",
                            "10000TB", "32", "99999999999999999999999", "3  GB", " 3GB"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(
        budget_bytes(wrong),
        fmt::format(
            "expected bytes such as 32GB, 1.5GiB or 4096, up to 9 PB (numbers below 1000 need a unit), got \"{}\"",
            wrong)
            .c_str(),
        InputError);
  }
}

}  // namespace heddle::test::maximise_test
