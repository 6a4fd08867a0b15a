// Calls of `heddle explain`, and a small experiment for them.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

using Json = nlohmann::json;

inline Called call(const std::vector<std::string>& arguments, const Json& experiment) {
  const Scratch folder;
  const std::string file = (folder / "small.json").string();
  std::ofstream(file) << experiment.dump();
  std::vector<std::string> all = arguments;
  all.insert(all.begin() + 1, file);
  return call(all);
}

inline Json explained(const Json& experiment, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"explain", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Called called = call(arguments, experiment);
  CHECK(called.err.empty());
  REQUIRE(called.code == 0);
  return Json::parse(called.out)["variants"][0];
}

/// A column-parallel and a row-parallel layer on two ranks, in two micro-batches of 4 samples.
inline Json two_layers() {
  return Json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"tp": 2},
    "links": {"latency": 1e-3, "bandwidth": 1e6}, "profile": {"flops": 1e6, "bandwidth": 1e9},
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4},
    "model": {"type": "mlp", "hidden": [32], "embedding": 8,
              "placements": [{"layers": "layers.0", "parallel": "column"}, {"layers": "fc", "parallel": "row"}]},
    "head": {"classes": 10},
    "train": {"batch": 8, "micro_batches": 2, "steps": 2}})");
}

}  // namespace heddle::test
