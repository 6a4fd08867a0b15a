// The weights and running statistics of a checkpoint with which images are embedded: their averages if the experiment
// keeps averages (train.ema), else those of the last step.
#pragma once

#include <vector>

#include "experiments/training/checkpoints/checkpoint_files.h"
#include "experiments/training/trainer.h"

namespace heddle {

class SavedBackbone {
 public:
  /// For a trainer that has no optimizer. InputError if the experiment keeps averages and the checkpoint lacks one.
  SavedBackbone(Trainer& trainer, const CheckpointFiles& files);

  /// The tensors of the checkpoint that are to be loaded. Frozen parameters have no average.
  const std::vector<StateTensor>& wanted() const { return wanted_; }
  /// Once they are loaded, converts those that have another type than the weights: averages of 16-bit weights.
  void convert() const;

 private:
  std::vector<StateTensor> held_;
  std::vector<StateTensor> wanted_;
};

}  // namespace heddle
