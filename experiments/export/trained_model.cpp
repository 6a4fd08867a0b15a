#include "experiments/export/trained_model.h"

#include <span>

#include "experiments/export/to_floats.h"
#include "experiments/training/evaluation/checkpoint_model.h"
#include "framework/tensors/host_elements.h"

namespace heddle {

namespace {

/// The same model on one rank of this machine.
Experiment on_one_rank(Experiment experiment) {
  const Experiment defaults;
  experiment.mesh = defaults.mesh;
  experiment.transport = defaults.transport;
  experiment.device = defaults.device;
  experiment.evaluation.sets.clear();
  return experiment;
}

std::map<std::string, std::vector<float>> elements_of(Trainer& trainer) {
  std::map<std::string, std::vector<float>> elements;
  for (const StateTensor& state : trainer.backbone_state()) elements.emplace(state.name, to_floats(state.value));
  return elements;
}

void check_finite(const std::string& name, const std::vector<float>& elements, const FoundCheckpoint& checkpoint) {
  if (const auto bad = first_not_finite(std::as_bytes(std::span(elements)), DType::f32))
    fail<InputError>("{}, step {}: {} has an element that is {}: the training has diverged", checkpoint.folder.string(),
                     checkpoint.steps, name, *bad);
}

}  // namespace

TrainedModel load_trained_model(const Experiment& saved, const FoundCheckpoint& checkpoint) {
  const CheckpointModel source(on_one_rank(saved), checkpoint);
  TrainedModel model{.checkpoint = checkpoint,
                     .preprocessing = preprocessing_of(saved.data),
                     .embedding = embedding_size(source.model()),
                     .graph = InferenceGraph(source.model()),
                     .elements = {}};
  std::map<std::string, std::vector<float>> ours;
  source.on_ranks(nullptr, [&ours](Trainer& trainer) { ours = elements_of(trainer); });
  for (const InferenceTensor& tensor : model.graph.tensors()) {
    const std::vector<float>& elements = ours.at(tensor.name);
    check_finite(tensor.name, elements, checkpoint);
    std::vector<float>& result = model.elements[tensor.name];
    result.resize(elements.size());
    tensor.to_torch(elements, result);
  }
  return model;
}

}  // namespace heddle
