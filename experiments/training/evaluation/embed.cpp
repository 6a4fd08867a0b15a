#include "experiments/training/evaluation/embed.h"

#include <algorithm>
#include <numeric>

#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// Some batches of a split, one after the other.
class Batches {
 public:
  Batches(const EvaluationConfig& config, const Dataset& dataset, Split split, Trainer& trainer)
      : dataset_(dataset),
        split_(split),
        trainer_(trainer),
        together_(config.batch * trainer.rank().mesh.size(Axis::dp)) {}

  /// From an image on.
  void start(std::int64_t image) {
    begin_ = image;
    sizes_.clear();
    for (int i = 0; i < trainer_.embedding_batches(); ++i)
      sizes_.push_back(std::clamp<std::int64_t>(dataset_.size(split_) - first(i), 0, together_));
  }
  std::int64_t end() const { return first(trainer_.embedding_batches()); }

  std::vector<Tensor> embed(bool mirrored) {
    return trainer_.embed(sizes_, [&](int batch) {
      const ShardRange rows = trainer_.input_rows(sizes_[static_cast<std::size_t>(batch)]);
      std::vector<std::int64_t> indices(static_cast<std::size_t>(rows.size));
      std::iota(indices.begin(), indices.end(), first(batch) + rows.begin);
      if (trainer_.rank().device.has_data()) {
        pixels_.resize(static_cast<std::size_t>(rows.size * dataset_.image().size()));
        read_batch(dataset_, split_, indices, pixels_);
        if (mirrored) flip_images(dataset_.image(), pixels_);
      }
      return trainer_.images().to_device(pixels_, rows.size);
    });
  }

 private:
  std::int64_t first(int batch) const { return begin_ + batch * together_; }

  const Dataset& dataset_;
  Split split_;
  Trainer& trainer_;
  std::int64_t together_;
  std::int64_t begin_ = 0;
  std::vector<std::int64_t> sizes_;
  std::vector<float> pixels_;
};

}  // namespace

EmbeddedSplit embed_split(const EvaluationConfig& config, const Dataset& dataset, Split split, Trainer& trainer) {
  Rank& rank = trainer.rank();
  Device& device = rank.device;
  const std::int64_t images = dataset.size(split);
  EmbeddedSplit result;
  Batches batches(config, dataset, split, trainer);
  for (std::int64_t begin = 0; begin < images; begin = batches.end()) {
    batches.start(begin);
    std::vector<Tensor> embeddings = batches.embed(false);
    if (config.flip) {
      const std::vector<Tensor> mirrored = batches.embed(true);
      for (std::size_t i = 0; i < embeddings.size(); ++i)
        device.backend().elementwise().scale_add(1, mirrored[i], 1, embeddings[i]);
    }
    for (const Tensor& embedding : embeddings) {
      // Ranks lie in the order of their rows.
      const std::vector<Tensor> parts = rank.world.gather(cast(Variable(embedding), DType::f32).value(), 0);
      if (!device.has_data()) continue;
      for (const Tensor& part : parts) {
        const std::vector<float> values = part.to_host<float>();
        result.values.insert(result.values.end(), values.begin(), values.end());
      }
    }
  }
  if (rank.index != 0 || !device.has_data()) return result;
  for (std::int64_t i = 0; i < images; ++i) result.labels.push_back(dataset.label(split, i));
  return result;
}

}  // namespace heddle
