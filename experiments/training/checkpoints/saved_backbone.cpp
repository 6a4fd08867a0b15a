#include "experiments/training/checkpoints/saved_backbone.h"

#include "framework/tensors/device.h"

namespace heddle {

SavedBackbone::SavedBackbone(Trainer& trainer, const CheckpointFiles& files)
    : held_(trainer.backbone_state()), wanted_(held_) {
  if (!trainer.experiment().train.averages_weights) return;
  bool has_averages = false;
  for (StateTensor& tensor : wanted_) {
    const std::string name = average_prefix + tensor.name;
    if (!files.find(name)) continue;
    has_averages = true;
    tensor.name = name;
    if (const DType type = compute_dtype(tensor.value.dtype()); type != tensor.value.dtype()) {
      const MemoryScope scope(tensor.value.device(), Category::workspace);
      tensor.value = Tensor::empty(tensor.value.device(), tensor.value.shape(), type);
    }
  }
  if (!has_averages)
    fail<InputError>("{}: has no averages of weights: it was trained without train.ema", files.folder().string());
}

void SavedBackbone::convert() const {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    Tensor weight = held_[i].value;
    if (wanted_[i].value.dtype() != weight.dtype())
      weight.device().backend().elementwise().cast(wanted_[i].value, weight);
  }
}

}  // namespace heddle
