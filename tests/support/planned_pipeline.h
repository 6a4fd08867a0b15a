// Pipelines on plan, whose clock has no noise.
#pragma once

#include "experiments/training/experiment.h"
#include "tests/support/layouts.h"

namespace heddle::test {

/// Four stages of unequal convolutions. They are direct: Winograd's method transforms weights in the first micro-batch,
/// which then takes longer than the mean that predictions use.
inline Experiment planned_pipeline() {
  Experiment experiment = small_experiment(50, 96, 16, DType::f32);
  experiment.device = DeviceType::plan;
  experiment.model.type = ModelType::resnet18;
  experiment.data.synthetic_identities.image = {3, 32, 32};
  experiment.winograd = WinogradUse::off;
  experiment.mesh.pp = 4;
  experiment.train.micro_batches = 6;
  experiment.train.steps = 3;
  experiment.links.within_node = {.latency = 1e-5, .bandwidth = 1e9};
  return experiment;
}

/// Four stages of linear layers, whose first micro-batch takes hardly longer than the others.
inline Experiment planned_layers() {
  Experiment experiment = planned_pipeline();
  experiment.model = {.type = ModelType::mlp, .embedding = 1024, .hidden = std::vector<std::int64_t>(7, 1024)};
  experiment.train.batch = 4096;
  experiment.train.micro_batches = 8;
  experiment.head.over = last_stage;
  return experiment;
}

}  // namespace heddle::test
