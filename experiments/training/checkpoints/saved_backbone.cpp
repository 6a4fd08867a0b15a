#include "experiments/training/checkpoints/saved_backbone.h"

#include <algorithm>
#include <set>

#include "framework/description/wildcard.h"
#include "framework/tensors/device.h"

namespace heddle {

SavedBackbone::SavedBackbone(Trainer& trainer, const CheckpointFiles& files)
    : held_(trainer.backbone_state()), wanted_(held_) {
  const TrainConfig& train = trainer.experiment().train;
  if (!train.averages_weights) return;
  const auto is_average = [](const std::string& name) { return name.starts_with(average_prefix); };
  const std::vector<std::string> names = files.names();
  const bool has_averages = std::any_of(names.begin(), names.end(), is_average);
  std::set<std::string, std::less<>> untrained;
  for (const Parameter* parameter : trainer.parameters().all())
    if (!parameter->trainable || matches_any(train.freeze, parameter->name)) untrained.insert(parameter->name);
  for (StateTensor& tensor : wanted_) {
    if (untrained.contains(tensor.name)) continue;
    const std::string name = average_prefix + tensor.name;
    if (!has_averages)
      fail<InputError>("{}: has no averages of weights: it was trained without train.ema", files.folder().string());
    if (!files.find(name)) fail<InputError>("{}: has no average of {}", files.folder().string(), tensor.name);
    tensor.name = name;
    if (const DType type = compute_dtype(tensor.value.dtype()); type != tensor.value.dtype()) {
      const MemoryScope scope(tensor.value.device(), Category::workspace);
      tensor.value = Tensor::empty(tensor.value.device(), tensor.value.shape(), type);
    }
  }
}

void SavedBackbone::convert() const {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    Tensor weight = held_[i].value;
    if (wanted_[i].value.dtype() != weight.dtype())
      weight.device().backend().elementwise().cast(wanted_[i].value, weight);
  }
}

}  // namespace heddle
