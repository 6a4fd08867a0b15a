// A trained backbone as other programs take it: a graph of ONNX operators and its tensors in PyTorch's layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/data/preprocessing.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/experiment.h"
#include "layers/inference_graph.h"

namespace heddle {

struct TrainedModel {
  FoundCheckpoint checkpoint;
  Preprocessing preprocessing;
  std::int64_t embedding = 0;  ///< its size
  InferenceGraph graph;
  std::map<std::string, std::vector<float>> elements;  ///< of each tensor of the graph, in PyTorch's order
};

/// Reads the backbone of a checkpoint; `saved` is its experiment. InputError if the checkpoint is damaged, or has an
/// element that is not finite, whose tensor it names.
TrainedModel load_trained_model(const Experiment& saved, const FoundCheckpoint& checkpoint);

}  // namespace heddle
