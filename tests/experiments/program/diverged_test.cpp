// Trainings whose weights are no longer finite, as a user sees them.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// A study of two ranks and six steps that saves every two steps.
nlohmann::json diverging_study() {
  return nlohmann::json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4,
             "test_per_identity": 2},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5, "embedding_norm": true},
    "head": {"classes": 9},
    "train": {"batch": 8, "steps": 6, "save_every": 2}})");
}

std::string written_to(const std::filesystem::path& file, const nlohmann::json& experiment) {
  std::ofstream(file) << experiment.dump();
  return file.string();
}

}  // namespace

TEST_CASE("weights that are not finite are an error, and never replace the last checkpoint, from which a run resumes") {
  const Scratch folder;
  nlohmann::json experiment = diverging_study();
  experiment["train"]["schedule"] = {{"type", "step"}, {"milestones", {5}}, {"factor", 1e39}};
  const std::string file = written_to(folder / "small.json", experiment);
  for (const bool resume : {false, true}) {
    std::vector<std::string> arguments{"run", file, "--out", (folder / "out").string(), "--json"};
    if (resume) arguments.emplace_back("--resume");
    const Called called = call(arguments);
    CHECK(called.code == 4);
    const nlohmann::json variant = nlohmann::json::parse(called.out)["variants"][0];
    CHECK(variant["status"] == "failed");
    CHECK(variant["error"] == "step 5: layers.0.weight is not finite on rank 0: the training has diverged");
    std::vector<std::string> saved;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "out/checkpoint/small"))
      saved.push_back(entry.path().filename().string());
    CHECK(saved == std::vector<std::string>{"step-000004"});
    CHECK((called.err.find("resuming after step 4") != std::string::npos) == resume);
  }
}

TEST_CASE("weights that are not finite at the end are an error, whether they would be saved or not") {
  const Scratch folder;
  const std::string file = written_to(folder / "small.json", diverging_study());
  for (const char* save : {"train.save=true", "train.save=false"}) {
    const Called called = call({"run", file, "--out", (folder / "out").string(), "--json", "--set", "train.steps=1",
                                "--set", "train.optimizer.lr=1e38", "--set", "evaluation={}", "--set", save});
    CHECK(called.code == 4);
    const nlohmann::json variant = nlohmann::json::parse(called.out)["variants"][0];
    CHECK(variant["status"] == "failed");
    CHECK(variant["error"] == "step 0: layers.0.weight is not finite on rank 0: the training has diverged");
    CHECK_FALSE(std::filesystem::exists(folder / "out/checkpoint/small"));
  }
}

TEST_CASE("a variant that diverges while its stages are measured does not end the study") {
  const Scratch folder;
  nlohmann::json study = diverging_study();
  study["mesh"] = nlohmann::json::parse(R"({"pp": 2})");
  study["variants"] = nlohmann::json::parse(R"([{"name": "wild", "patch": {"train": {"optimizer": {"lr": 1e38}}}},
                                                {"name": "tame"}])");
  const Called called =
      call({"run", written_to(folder / "small.json", study), "--out", (folder / "out").string(), "--json"});
  CHECK(called.code == 4);
  const nlohmann::json variants = nlohmann::json::parse(called.out)["variants"];
  REQUIRE(variants.size() == 2);
  CHECK(variants[0]["status"] == "failed");
  CHECK(variants[1]["status"] == "ok");
}

}  // namespace heddle::test
