// A small training by the program, whose checkpoint tests take further.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/images/drawn_faces.h"
#include "tests/support/program/called.h"

namespace heddle::test {

/// Trains on four people in `folder`/faces for three steps on two ranks, and returns the results folder. `patch`
/// changes the experiment.
inline std::string train_small(const std::filesystem::path& folder, const nlohmann::json& patch = {}) {
  write_people(folder / "faces", {4, 4, 4, 4});
  nlohmann::json experiment = nlohmann::json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "image_folder", "image": [1, 8, 8], "train_per_identity": 3},
    "model": {"type": "layers", "layers": [
      {"type": "conv2d", "name": "conv", "out": 4}, {"type": "batch_norm", "name": "norm", "activation": "relu"},
      {"type": "flatten"}, {"type": "linear", "name": "fc", "out": 5}]},
    "head": {"classes": 4},
    "train": {"batch": 6, "steps": 3, "optimizer": {"type": "sgd", "lr": 0.05}},
    "evaluation": {}})");
  experiment["data"]["path"] = (folder / "faces").string();
  if (!patch.is_null()) experiment.merge_patch(patch);
  std::ofstream(folder / "small.json") << experiment.dump();
  const std::string results = (folder / "results").string();
  const Called run = call({"run", (folder / "small.json").string(), "--out", results, "--force"});
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  return results;
}

}  // namespace heddle::test
