// A file of weights that a training starts from: a state dict of PyTorch in a safetensors file, with the names and
// layouts of torchvision or InsightFace (layers/inference_graph.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/training/trainer.h"
#include "framework/files/safetensors.h"
#include "layers/inference_graph.h"

namespace heddle {

class InitialWeights {
 public:
  /// Compares the file's tensors with those of the model; no elements are read. InputError, with a table of the tensors
  /// that do not fit, if none fits, or if `is_strict` and one does not fit.
  InitialWeights(const ModelSpec& model, const std::filesystem::path& file, bool is_strict);

  /// How many tensors fit, and a table of the others.
  std::string report() const;
  /// Loads what this rank holds. InputError names a tensor with an element that is not finite. A collective call.
  void load(Trainer& trainer) const;

 private:
  /// A tensor that is not loaded.
  struct Unfit {
    std::string name;
    std::string in_model;
    std::string in_file;
    std::string what;
  };

  void compare(const InferenceTensor& tensor);
  std::string table() const;
  void load(const InferenceTensor& tensor, const StateTensor& state) const;

  std::vector<InferenceTensor> tensors_;
  SafetensorsReader reader_;
  std::vector<Unfit> unfit_;
  std::size_t fitting_ = 0;
};

}  // namespace heddle
