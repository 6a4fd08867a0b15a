#include "experiments/export/saved_tensor.h"

#include <algorithm>
#include <cmath>

#include "experiments/export/to_floats.h"
#include "framework/backends/backend.h"

namespace heddle {

namespace {

constexpr std::int64_t block_elements = std::int64_t{1} << 22;

}  // namespace

SavedTensor::SavedTensor(const CheckpointFiles& files, std::string name)
    : files_(files), name_(std::move(name)), shape_(files.find(name_).value().shape) {}

std::vector<float> SavedTensor::rows(const std::string& tensor, const IndexRange& range) const {
  Device host(make_backend("cpu"));
  const CheckpointFiles::Whole whole = files_.find(tensor).value();
  ParameterPart part = ParameterPart::all_of(whole.shape);
  part.box[0] = range;
  const StateTensor block{tensor, Tensor::empty(host, part.shape(), whole.dtype), part};
  files_.check(block);
  for (int file = 0; file < files_.size(); ++file) files_.load(file, {block});
  return to_floats(block.value);
}

void SavedTensor::read(const std::function<void(std::span<const float>)>& use) const {
  const std::int64_t width = std::max<std::int64_t>(1, shape_.numel() / std::max<std::int64_t>(1, shape_[0]));
  const std::int64_t most = std::max<std::int64_t>(1, block_elements / width);
  const std::string scale = name_ + ".scale";
  for (std::int64_t begin = 0; begin < shape_[0]; begin += most) {
    const IndexRange range{begin, std::min(most, shape_[0] - begin)};
    std::vector<float> block = rows(name_, range);
    if (files_.find(scale)) {
      const std::vector<float> scales = rows(scale, range);
      for (std::size_t i = 0; i < block.size(); ++i) block[i] *= scales.at(i / static_cast<std::size_t>(width));
    }
    const auto bad = std::find_if(block.begin(), block.end(), [](float x) { return !std::isfinite(x); });
    if (bad != block.end())
      fail<InputError>("{}: {} has an element that is {} in row {}", files_.folder().string(), name_, *bad,
                       begin + (bad - block.begin()) / width);
    use(block);
  }
}

std::vector<SavedTensor> saved_heads(const CheckpointFiles& files) {
  std::vector<SavedTensor> heads;
  for (const std::string& name : files.names())
    if (name.starts_with("head.") && (name.ends_with(".weight") || name.ends_with(".bias")))
      heads.emplace_back(files, name);
  return heads;
}

}  // namespace heddle
