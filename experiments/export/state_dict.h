// A trained model as a state dict of PyTorch in a safetensors file.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/export/trained_model.h"

namespace heddle {

/// Writes `model.safetensors`, with the names and layouts that torchvision and InsightFace have for the model, and
/// `config.json` into a folder, which it makes. `experiment` is the experiment of the checkpoint as JSON. With
/// `with_head` the file also has the weights of the classes: `head.weight` [classes, d], or [classes * sub_centres, d],
/// in f32, and `head.bias` if it has biases. InputError if the folder cannot be written, or the head is damaged.
void write_state_dict(const TrainedModel& model, const std::string& experiment, bool with_head,
                      const std::filesystem::path& folder);

}  // namespace heddle
