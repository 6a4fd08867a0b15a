// A trained model as a state dict of PyTorch in a safetensors file.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/export/trained_model.h"

namespace heddle {

struct StateDictOptions {
  /// The weights of the classes: `head.weight` [classes, d], or [classes * sub_centres, d], in f32, and `head.bias` if
  /// there are biases. `config.json` has their names, if the checkpoint has them, as Hugging Face's configurations do:
  /// `id2label` and `label2id`; with several heads, `heads` has both for each.
  bool with_head = false;
  /// If a head has more names than this, `config.json` has only `class_names`, the name of a text file beside it, one
  /// line for each class as in the checkpoint.
  std::size_t max_labels = 100'000;
};

/// Writes `model.safetensors`, with the names and layouts that torchvision and InsightFace have for the model, and
/// `config.json` into a folder, which it makes. `saved` is the experiment of the checkpoint, `experiment` the same as
/// JSON. InputError if the folder cannot be written, or the head or its names are damaged.
void write_state_dict(const TrainedModel& model, const Experiment& saved, const std::string& experiment,
                      const StateDictOptions& options, const std::filesystem::path& folder);

}  // namespace heddle
