// The output of a run in f16 about its loss scale, and the errors of an experiment about 16-bit types.
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "framework/files/atomic_file.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// A few steps of a small network on synthetic faces, in f16.
constexpr const char* small_f16 = R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4,
             "test_per_identity": 2},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5},
    "head": {"classes": 9},
    "train": {"batch": 8, "micro_batches": 2, "steps": 9, "save_every": 4, "dtype": "f16",
              "loss_scale": {"init_scale": 262144}}})";

}  // namespace

TEST_CASE("the metrics have the loss scale, the summary counts the skipped steps, and a resumed run continues both") {
  using Json = nlohmann::json;
  const Scratch folder;
  const std::string file = (folder / "small.json").string();
  write_file_atomically(file, small_f16);
  const auto run = [&](const char* results, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run", file, "--json", "--out", (folder / results).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Json::parse(test::call(arguments).out)["variants"][0];
  };
  const Json whole = run("whole", {});
  CHECK(whole["status"] == "ok");
  const auto skipped = whole["skipped_steps"].get<std::int64_t>();
  CHECK(skipped > 0);
  CHECK(skipped < 9);
  std::istringstream metrics(read_file(folder / "whole/metrics.jsonl", 1 << 20));
  double scale = 262144;
  std::int64_t counted = 0;
  for (std::string line; std::getline(metrics, line);) {
    const Json step = Json::parse(line);
    CHECK(step["loss_scale"] == scale);
    if (!step["skipped"].get<bool>()) continue;
    scale /= 2;
    ++counted;
  }
  CHECK(counted == skipped);
  (void)run("parts", {"--set", "train.steps=4"});
  const Json rest = run("parts", {"--resume"});
  CHECK(rest["loss_per_step"] == whole["loss_per_step"]);
  CHECK(rest["skipped_steps"] == skipped);
  CHECK(run("bf16", {"--set", "train.dtype=bf16", "--set", "train.loss_scale=null"})["skipped_steps"].is_null());
}

TEST_CASE("options of 16-bit types must match train.dtype; errors name file and place") {
  const Scratch folder;
  const std::string file = (folder / "small.json").string();
  write_file_atomically(file, small_f16);
  const auto error = [&](std::vector<std::string> sets) {
    std::vector<std::string> arguments{"validate", file};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    const test::Called called = test::call(arguments);
    CHECK(called.code == (called.err.empty() ? 0 : 2));
    return called.err;
  };
  CHECK(error({}).empty());
  CHECK(error({"train.optimizer.weights=bf16"}) ==
        "heddle: --set train.optimizer.weights: expected \"f32\" or \"f16\" with train.dtype f16: bf16 weights are "
        "multiplied with bf16 activations\n");
  CHECK(error({"train.dtype=f32", "train.loss_scale=null", "train.optimizer.weights=f16"}) ==
        "heddle: --set train.optimizer.weights: expected \"f32\" with train.dtype f32: f16 weights are multiplied with "
        "f16 activations\n");
  CHECK(error({"train.optimizer.weights=f16", "head.state.weights=f16", "head.state.momentum=f16"}).empty());
  CHECK(error({"train.dtype=bf16"}) ==
        "heddle: " + file + ": /train/loss_scale: expected none with train.dtype bf16: only f16 has a loss scale\n");
  CHECK(error({"train.dtype=bf16", "train.loss_scale=null", "train.optimizer.weights=bf16"}).empty());
  CHECK(error({"train.optimizer={\"type\": \"adamw\", \"weights\": \"bf16\"}"}).find("unknown key") !=
        std::string::npos);
  CHECK(error({"train.loss_scale.backoff_factor=1"}) ==
        "heddle: --set train.loss_scale.backoff_factor: expected a number > 0 and < 1, got 1\n");
}

}  // namespace heddle::test
