// The figures that PLSC and MegEngine publish for the memory of large heads, as plan counts them.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

using Json = nlohmann::json;

/// A head over a backbone of a few kilobytes, which the figures below, given to 0.01 GiB, do not show.
Json head_alone(std::int64_t classes, std::int64_t features, int ranks, std::int64_t batch) {
  return {{"name", "head"},
          {"mesh", {{"dp", ranks}}},
          {"threads", 1},
          {"data", {{"type", "synthetic_identities"}, {"identities", 2}, {"image", {1, 1, 1}}}},
          {"model", {{"type", "mlp"}, {"hidden", Json::array()}, {"embedding", features}}},
          {"head", {{"classes", classes}, {"logits", "sharded"}}},
          {"train", {{"batch", batch}, {"steps", 2}, {"optimizer", {{"type", "sgd"}, {"momentum", 0.9}}}}}};
}

/// Bytes of rank 0 when it held the most, by category.
Json planned(const Json& experiment) {
  const Scratch folder;
  const std::string file = (folder / "head.json").string();
  std::ofstream(file) << experiment.dump();
  const test::Called called = test::call({"plan", file, "--json"});
  REQUIRE(called.code == 0);
  return Json::parse(called.out)["variants"][0]["ranks"][0]["peak_bytes"];
}

std::string gibibytes(const Json& bytes) {
  return fmt::format("{:.2f}", bytes.get<double>() / 0x1p30);
}

}  // namespace

TEST_CASE("plan gives the published bytes of weights: 10, 40 and 1 million classes, on one rank and on eight") {
  const auto weights = [](std::int64_t classes, std::int64_t features, int ranks) {
    return gibibytes(planned(head_alone(classes, features, ranks, 8))["parameters"]);
  };
  CHECK(weights(10'000'000, 512, 1) == "19.07");
  CHECK(weights(10'000'000, 512, 8) == "2.38");
  CHECK(weights(40'000'000, 512, 1) == "76.29");
  CHECK(weights(40'000'000, 512, 8) == "9.54");
  CHECK(weights(1'000'000, 1024, 1) == "3.81");
}

TEST_CASE("plan gives the published bytes of logits: 512 samples by 5 million classes, all and a tenth of them") {
  // For the classes of one rank: activations grow by B * C.
  const auto logits = [](double rate, int ranks) {
    const auto activations = [&](std::int64_t batch) {
      Json experiment = head_alone(5'000'000 * ranks, 16, ranks, batch);
      experiment["head"]["sample"] = {{"rate", rate}};
      return planned(experiment)["activations"].get<double>();
    };
    return fmt::format("{:.3f}", 2 * (activations(512) - activations(256)) / 0x1p30);
  };
  CHECK(logits(1, 1) == "9.537");
  CHECK(logits(0.1, 1) == "0.954");
  CHECK(logits(0.1, 8) == "0.954");
}

TEST_CASE("plan gives PLSC's head of 40 million classes on eight ranks, without its sparse optimizer and with it") {
  // Copies of the weights, the logits of the sample, and its rows, which have the size of the logits here.
  const auto total = [](const char* gradient) {
    Json experiment = head_alone(40'000'000, 512, 8, 512);
    experiment["head"]["sample"] = {{"rate", 0.1}, {"unsampled", "dense"}, {"gradient", gradient}};
    return gibibytes(planned(experiment)["total"]);
  };
  CHECK(total("dense") == "30.53");
  CHECK(total("rows") == "20.99");
}

TEST_CASE("plan gives MegEngine's head of a million classes: weight, gradient and momentum, whole and on eight") {
  Json experiment = head_alone(1'000'000, 1024, 1, 8);
  experiment["head"]["parallel"] = "replicated";
  const Json peak = planned(experiment);
  const double three =
      peak["parameters"].get<double>() + peak["gradients"].get<double>() + peak["optimizer"].get<double>();
  CHECK(gibibytes(three) == "11.44");
  CHECK(gibibytes(three / 8) == "1.43");
}

}  // namespace heddle::test
