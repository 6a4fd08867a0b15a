// A trained backbone as an ONNX model: operator set 17, any number of images, f32.
#pragma once

#include <cstdint>
#include <filesystem>

#include "experiments/export/trained_model.h"

namespace heddle {

struct OnnxOptions {
  /// The input takes pixels from 0 to 255 in the order red, green, blue; else what the network takes: the mean is
  /// subtracted, the scale multiplied, and the colours are in the order of the training.
  bool takes_pixels = false;
  /// The output has unit length.
  bool normalizes = false;
  /// The weights of larger models are in a file `NAME.data` beside the model, because protobuf is limited to 2 GiB.
  std::int64_t max_bytes = 2'000'000'000;
};

/// Writes the input `input` [n, c, h, w] and the output `embedding` [n, d], with PyTorch's names of the tensors.
/// InputError if the file cannot be written.
void write_onnx(const TrainedModel& model, const OnnxOptions& options, const std::filesystem::path& file);

}  // namespace heddle
