// A run with averages of its weights, which are evaluated and exported unless the user asks for the weights themselves.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "framework/files/atomic_file.h"
#include "framework/files/safetensors.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test::averaged_weights_test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const Json averaging = Json::parse(R"({
  "data": {"train_per_identity": 2},
  "train": {"steps": 6, "ema": {"decay": 0.8}},
  "evaluation": {"every": 2, "keep_best": true, "sets": [{"name": "faces", "type": "drawn"}]}})");

std::string text_of(const fs::path& file) {
  return read_file(file, 1 << 20);
}

/// The elements of a tensor in f32 that one file has as a whole.
std::vector<float> elements_of(const fs::path& path, const std::string& name) {
  const SafetensorsReader file(path);
  const std::size_t index = file.index_of(name);
  std::vector<float> elements(file.entries()[index].bytes() / sizeof(float));
  file.read(index, std::as_writable_bytes(std::span(elements)));
  return elements;
}

Json printed(std::vector<std::string> arguments) {
  const Called called = call(arguments);
  CAPTURE(called.err);
  REQUIRE(called.code == 0);
  return Json::parse(called.out);
}

std::string refused(const std::vector<std::string>& arguments) {
  const Called called = call(arguments);
  CHECK(called.code == 2);
  return called.err;
}

}  // namespace

TEST_CASE(
    "a run evaluates the averages of its weights, and eval gives the same figures unless --raw-weights is given") {
  const Scratch folder;
  const std::string results = train_small(folder / "", averaging);
  const Json evaluation = Json::parse(text_of(results + "/summary.json"))["variants"][0]["evaluation"];
  CHECK(evaluation["weights"] == "ema");
  // Other ranks would round differently.
  const auto curve = [&](const std::string& of, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"eval", of, "--set", "mesh.dp=2", "--json", "--out", (folder / "evaluated").string()});
    const Json json = printed(more);
    CHECK(json.value("weights", "raw") == (json["sets"] == evaluation["sets"] ? "ema" : "raw"));
    return text_of(folder / "evaluated/roc.csv");
  };
  const std::string averaged = curve(results);
  CHECK(averaged == text_of(results + "/roc.csv"));
  const std::string raw = curve(results, {"--raw-weights"});
  CHECK(raw != averaged);
  CHECK(raw == curve(results, {"--set", "train.ema=null"}));
  CHECK(call({"eval", results}).err.find(", averaged weights, 1 rank\n") != std::string::npos);
  CHECK(call({"eval", results, "--raw-weights"}).err.find("averaged") == std::string::npos);
  const Json best = printed({"eval", results + "/checkpoint/small/best", "--set", "mesh.dp=2", "--json"});
  CHECK(best["sets"][0]["accuracy"] == evaluation["best"]["accuracy"]);
  // The same training without averages has the same weights.
  Json without = averaging;
  without["train"].erase("ema");
  const Scratch other;
  const std::string plain = train_small(other / "", without);
  CHECK(curve(plain) == raw);
  CHECK(text_of(plain + "/roc.csv") == raw);
  CHECK(!Json::parse(text_of(plain + "/summary.json"))["variants"][0]["evaluation"].contains("weights"));
}

TEST_CASE("export writes the averages of weights and running statistics, or with --raw-weights the last step's") {
  const Scratch folder;
  const std::string results = train_small(folder / "", averaging);
  const fs::path saved = results + "/checkpoint/small/step-000006/rank-0.safetensors";
  const auto exported = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"export", results, "--format", "safetensors", "--out", (folder / "model").string()});
    const Called called = call(more);
    REQUIRE(called.code == 0);
    return called.out;
  };
  const auto check_from = [&](const std::string& prefix) {
    for (const char* name : {"fc.bias", "norm.weight", "norm.running_mean", "norm.running_var"}) {
      CAPTURE(name);
      CHECK(elements_of(folder / "model/model.safetensors", name) == elements_of(saved, prefix + name));
    }
  };
  CHECK(exported({}).find(": step 6 of small, averaged weights, 7 tensors,") != std::string::npos);
  check_from("ema.");
  CHECK(exported({"--raw-weights"}).find(": step 6 of small, 7 tensors,") != std::string::npos);
  check_from("");
  CHECK(elements_of(saved, "fc.bias") != elements_of(saved, "ema.fc.bias"));
  CHECK(elements_of(saved, "norm.running_mean") != elements_of(saved, "ema.norm.running_mean"));
  // The classes have no averages.
  CHECK(!SafetensorsReader(saved).contains("ema.head.weight"));
  CHECK(exported({"--with-head"}).find("averaged") != std::string::npos);
  CHECK(SafetensorsReader(folder / "model/model.safetensors").contains("head.weight"));
}

TEST_CASE("embed and search take the averages, and a recorded threshold is only for these") {
  const Scratch folder;
  const std::string results = train_small(folder / "", averaging);
  const std::string faces = (folder / "faces").string();
  const auto embed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"embed", results, faces, "--out", (folder / "rows.csv").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(call(arguments).code == 0);
    return text_of(folder / "rows.csv");
  };
  const std::string averaged = embed({});
  CHECK(averaged != embed({"--raw-weights"}));
  CHECK(averaged != embed({"--set", "train.ema=null"}));
  CHECK(printed({"search", results, faces, faces, "--flip", "--json"})["threshold"]["from"].get<std::string>().find(
            "the threshold of \"faces\" in ") == 0);
  CHECK(refused({"search", results, faces, faces, "--flip", "--raw-weights", "--threshold", "auto"})
            .find("the recorded threshold is for a search with averaged weights") != std::string::npos);
}

TEST_CASE("averages of bf16 weights are evaluated as in the run, rounded to bf16") {
  Json bf16 = averaging;
  bf16["train"].update(
      Json::parse(R"({"dtype": "bf16", "optimizer": {"type": "sgd", "lr": 0.05, "weights": "bf16"}})"));
  const Scratch folder;
  const std::string results = train_small(folder / "", bf16);
  const Json evaluation = Json::parse(text_of(results + "/summary.json"))["variants"][0]["evaluation"];
  CHECK(printed({"eval", results, "--set", "mesh.dp=2", "--json"})["sets"] == evaluation["sets"]);
}

TEST_CASE("a backbone that is frozen as a whole is evaluated, although its weights have no averages") {
  const Scratch folder;
  Json patch = averaging;
  patch["train"]["freeze"] = {"*"};
  const std::string results = train_small(folder / "", patch);
  const Json evaluation = Json::parse(text_of(results + "/summary.json"))["variants"][0]["evaluation"];
  CHECK(printed({"eval", results, "--json"})["sets"] == evaluation["sets"]);
}

TEST_CASE("a run with averages resumes with the same bits, and refuses a checkpoint with others or without") {
  const Scratch folder;
  Json patch = averaging;
  patch["mesh"] = {{"dp", 3}};
  patch["train"]["shard"] = "optimizer";
  const std::string results = train_small(folder / "", patch);
  const std::string whole = text_of(results + "/roc.csv");
  const std::string file = (folder / "small.json").string();
  REQUIRE(call({"run", file, "--out", results, "--force", "--set", "train.steps=4"}).code == 0);
  CHECK(refused({"run", file, "--out", results, "--resume", "--set", "train.ema.decay=0.9"})
            .find("(train.ema.decay was 0.8, is 0.9)") != std::string::npos);
  REQUIRE(call({"run", file, "--out", results, "--resume"}).code == 0);
  CHECK(text_of(results + "/roc.csv") == whole);
  const Scratch other;
  const std::string plain = train_small(other / "", {{"data", {{"train_per_identity", 2}}}});
  const std::string checkpoint = plain + "/checkpoint/small/step-000003";
  CHECK(refused({"eval", plain, "--set", "train.ema={}", "--set",
                 R"(evaluation.sets=[{"name": "faces", "type": "drawn"}])"})
            .find("heddle: " + checkpoint + ": has no averages of weights: it was trained without train.ema\n") !=
        std::string::npos);
}

TEST_CASE("decays out of their range are refused with their place") {
  const Scratch folder;
  train_small(folder / "");
  const std::string file = (folder / "small.json").string();
  const auto error = [&](const std::string& set) { return refused({"validate", file, "--set", set}); };
  CHECK(error("train.ema.decay=1") == "heddle: --set train.ema.decay: expected a number >= 0 and < 1, got 1\n");
  CHECK(error("train.ema.decay=-0.1") == "heddle: --set train.ema.decay: expected a number >= 0 and < 1, got -0.1\n");
  CHECK(error("train.ema={\"rate\": 0.9}") ==
        "heddle: --set train.ema: /train/ema/rate: unknown key; expected \"decay\" or \"warm_up\"\n");
  CHECK(error("train.optimizer.layer_decay=0") ==
        "heddle: --set train.optimizer.layer_decay: expected a number > 0 and <= 1, got 0\n");
  CHECK(error("train.optimizer.layer_decay=1.5") ==
        "heddle: --set train.optimizer.layer_decay: expected a number > 0 and <= 1, got 1.5\n");
  CHECK(error("train.optimizer.layer_decay=0.5") ==
        "heddle: --set train.optimizer.layer_decay: expected 1, got 0.5: the model has no blocks, by which depth is "
        "counted (vision transformers, ResNets, ResNeXts, iResNets and MobileFaceNets have blocks)\n");
}

}  // namespace heddle::test::averaged_weights_test
