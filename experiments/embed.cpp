#include "experiments/embed.h"

#include <algorithm>
#include <numeric>

#include "framework/device.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"

namespace heddle {

EmbeddedSplit embed_split(const EvaluationConfig& config, const Dataset& dataset, Split split, Trainer& trainer) {
  const Rank& rank = trainer.rank();
  Device& device = rank.device;
  const std::int64_t images = dataset.size(split);
  const ShardRange mine = shard(images, rank.along(Axis::dp).size(), rank.along(Axis::dp).rank());
  std::vector<Tensor> parts;
  std::vector<float> pixels;
  // A rank without images still makes one empty batch, and so has rows of the right width to gather.
  for (std::int64_t begin = mine.begin; begin < mine.end() || parts.empty(); begin += config.batch) {
    const std::int64_t count = std::clamp<std::int64_t>(mine.end() - begin, 0, config.batch);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), begin);
    if (device.has_data()) {
      pixels.resize(static_cast<std::size_t>(count * dataset.image().size()));
      read_batch(dataset, split, indices, pixels);
    }
    Tensor embedding = trainer.embed(trainer.to_device(pixels, count));
    if (config.flip) {
      if (device.has_data()) flip_images(dataset.image(), pixels);
      const Tensor mirrored = trainer.embed(trainer.to_device(pixels, count));
      device.backend().elementwise().scale_add(1, mirrored, 1, embedding);
    }
    parts.push_back(cast(Variable(embedding), DType::f32).value());
  }
  const Tensor own = concat_tensors(parts, 0);
  parts.clear();
  const std::vector<Tensor> all = rank.along(Axis::dp).gather(own, 0);
  EmbeddedSplit result;
  if (all.empty() || !device.has_data()) return result;
  for (std::int64_t i = 0; i < images; ++i) result.labels.push_back(dataset.label(split, i));
  for (const Tensor& part : all) {
    const std::vector<float> values = part.to_host<float>();
    result.values.insert(result.values.end(), values.begin(), values.end());
  }
  return result;
}

}  // namespace heddle
