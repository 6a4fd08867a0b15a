// The smallest experiment with which a run trains: a multilayer perceptron on synthetic faces.
#pragma once

#include "experiments/training/experiment.h"

namespace heddle::test {

inline Experiment mlp_experiment(const MeshConfig& mesh, std::int64_t steps) {
  Experiment experiment;
  experiment.name = "small";
  experiment.threads = 1;
  experiment.mesh = mesh;
  experiment.pipeline.schedule = "gpipe";
  experiment.data.synthetic_identities.identities = 6;
  experiment.data.synthetic_identities.image = {1, 8, 8};
  experiment.model.type = ModelType::mlp;
  experiment.head.classes = 6;
  experiment.evaluate = false;
  experiment.train.batch = 8;
  experiment.train.micro_batches = mesh.pp;
  experiment.train.steps = steps;
  return experiment;
}

}  // namespace heddle::test
