// A tensor of a checkpoint, read in blocks of rows: the weights of all classes may not fit into memory.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/training/checkpoints/checkpoint_files.h"
#include "framework/tensors/device.h"

namespace heddle {

class SavedTensor {
 public:
  SavedTensor(const CheckpointFiles& files, std::string name);

  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  /// Calls `use` with all rows in f32, block by block; rows of int8 are multiplied by their scales. InputError if the
  /// files do not have all elements, or if one is not finite.
  void read(const std::function<void(std::span<const float>)>& use) const;

 private:
  std::vector<float> rows(const std::string& tensor, const IndexRange& range) const;

  const CheckpointFiles& files_;
  std::string name_;
  Shape shape_;
};

/// The weights and biases of the checkpoint's heads: `head.weight` [classes, d], or [classes * centres, d], and
/// `head.bias` [classes, 1]; with several heads, `head.NAME.weight`. `files` must outlive the result.
std::vector<SavedTensor> saved_heads(const CheckpointFiles& files);

}  // namespace heddle
