// Small experiments on plan, all of whose layouts can be planned.
#pragma once

#include <string>
#include <utility>

#include "experiments/config/study.h"
#include "experiments/training/experiment_checks.h"

namespace heddle::test {

/// An experiment on plan.
inline Experiment planned_experiment(const std::string& text) {
  Study<Experiment> study = read_study_text<Experiment>(text, "small.json");
  Experiment experiment = std::move(study.variants.front().root);
  experiment.device = DeviceType::plan;
  experiment.head.product_type = ProductType::f32;
  check(experiment);
  return experiment;
}

inline Experiment small_mlp() {
  return planned_experiment(R"({
    "name": "small", "mesh": {"dp": 4}, "threads": 1,
    "links": {"latency": 1e-5, "bandwidth": 1e9}, "profile": {"flops": 1e10, "bandwidth": 1e10},
    "data": {"type": "synthetic_identities", "identities": 20, "image": [1, 8, 8]},
    "model": {"type": "mlp", "hidden": [256, 256, 256], "embedding": 64},
    "head": {"classes": 400, "parallel": "replicated"},
    "train": {"batch": 64, "micro_batches": 4, "optimizer": {"type": "sgd", "momentum": 0.9}}})");
}

/// Batch norms, which fix the number of parts of the batch.
inline Experiment small_convolutions(const std::string& head) {
  return planned_experiment(R"({
    "name": "small", "mesh": {"dp": 2, "pp": 2}, "threads": 1,
    "links": {"latency": 1e-4, "bandwidth": 1e8}, "profile": {"flops": 1e10, "bandwidth": 1e10},
    "data": {"type": "synthetic_identities", "identities": 20, "image": [1, 16, 16]},
    "model": {"type": "layers", "layers": [
      {"type": "conv2d", "out": 8}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "conv2d", "out": 8, "stride": 2},
      {"type": "relu"}, {"type": "flatten"}, {"type": "linear", "out": 32}]},
    "head": )" + head + R"(,
    "train": {"batch": 32, "micro_batches": 4}})");
}

}  // namespace heddle::test
