#include "experiments/embed.h"

#include <algorithm>
#include <numeric>

#include "framework/device.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"

namespace heddle {

EmbeddedSplit embed_split(const EvaluationConfig& config, const Dataset& dataset, Split split, Trainer& trainer) {
  Rank& rank = trainer.rank();
  Device& device = rank.device;
  const std::int64_t images = dataset.size(split);
  EmbeddedSplit result;
  std::vector<float> pixels;
  const std::int64_t together = config.batch * rank.mesh.size(Axis::dp);
  for (std::int64_t begin = 0; begin < images; begin += together) {
    const std::int64_t samples = std::min(together, images - begin);
    const ShardRange mine = trainer.input_rows(samples);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(mine.size));
    std::iota(indices.begin(), indices.end(), begin + mine.begin);
    if (device.has_data()) {
      pixels.resize(static_cast<std::size_t>(mine.size * dataset.image().size()));
      read_batch(dataset, split, indices, pixels);
    }
    Tensor embedding = trainer.embed(trainer.to_device(pixels, mine.size), samples);
    if (config.flip) {
      if (device.has_data()) flip_images(dataset.image(), pixels);
      const Tensor mirrored = trainer.embed(trainer.to_device(pixels, mine.size), samples);
      device.backend().elementwise().scale_add(1, mirrored, 1, embedding);
    }
    // Ranks lie in the order of their rows.
    const std::vector<Tensor> parts = rank.world.gather(cast(Variable(embedding), DType::f32).value(), 0);
    if (!device.has_data()) continue;
    for (const Tensor& part : parts) {
      const std::vector<float> values = part.to_host<float>();
      result.values.insert(result.values.end(), values.begin(), values.end());
    }
  }
  if (rank.index != 0 || !device.has_data()) return result;
  for (std::int64_t i = 0; i < images; ++i) result.labels.push_back(dataset.label(split, i));
  return result;
}

}  // namespace heddle
