#include "experiments/training/evaluation/embed.h"

#include <algorithm>
#include <exception>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// The batches that the ranks embed together in one pass.
class Batches {
 public:
  Batches(const EvaluationConfig& config, const ImageSource& images, Trainer& trainer)
      : images_(images), trainer_(trainer), together_(config.batch * trainer.rank().mesh.size(Axis::dp)) {}

  /// Begins a pass at `image`.
  void start(std::int64_t image) {
    begin_ = image;
    sizes_.clear();
    for (int i = 0; i < trainer_.embedding_batches(); ++i)
      sizes_.push_back(std::clamp<std::int64_t>(images_.size - first(i), 0, together_));
    pixels_.assign(sizes_.size(), {});
  }
  std::int64_t end() const { return first(trainer_.embedding_batches()); }

  std::vector<Tensor> embed() {
    return trainer_.embed(sizes_, [&](int batch) {
      std::vector<float>& pixels = pixels_[static_cast<std::size_t>(batch)];
      const IndexRange rows = rows_of(batch);
      if (trainer_.rank().device.has_data()) read(first(batch) + rows.begin, rows.size, pixels);
      return trainer_.images().to_device(pixels, rows.size);
    });
  }

  /// Embeds the mirror images. Must be called after `embed`, which reads the images.
  std::vector<Tensor> embed_mirrored() {
    return trainer_.embed(sizes_, [&](int batch) {
      std::vector<float>& pixels = pixels_[static_cast<std::size_t>(batch)];
      flip_images(trainer_.images().shape(), pixels);
      return trainer_.images().to_device(pixels, rows_of(batch).size);
    });
  }

 private:
  std::int64_t first(int batch) const { return begin_ + batch * together_; }
  IndexRange rows_of(int batch) const { return trainer_.input_rows(sizes_[static_cast<std::size_t>(batch)]); }

  void read(std::int64_t begin, std::int64_t count, std::vector<float>& pixels) const {
    const auto size = static_cast<std::size_t>(trainer_.images().shape().size());
    pixels.resize(static_cast<std::size_t>(count) * size);
    try {
      parallel_for(count, [&](std::int64_t i) {
        images_.read(begin + i, std::span(pixels).subspan(static_cast<std::size_t>(i) * size, size));
      });
    } catch (const InputError&) {
      trainer_.images().record_broken(std::current_exception());
    }
  }

  const ImageSource& images_;
  Trainer& trainer_;
  std::int64_t together_;
  std::int64_t begin_ = 0;
  std::vector<std::int64_t> sizes_;
  std::vector<std::vector<float>> pixels_;  // this rank's rows of each batch
};

}  // namespace

std::vector<float> embed_images(const EvaluationConfig& config, const ImageSource& images, Trainer& trainer) {
  Rank& rank = trainer.rank();
  Device& device = rank.device;
  std::vector<float> result;
  Batches batches(config, images, trainer);
  for (std::int64_t begin = 0; begin < images.size; begin = batches.end()) {
    batches.start(begin);
    std::vector<Tensor> embeddings = batches.embed();
    if (config.flip) {
      const std::vector<Tensor> mirrored = batches.embed_mirrored();
      for (std::size_t i = 0; i < embeddings.size(); ++i)
        device.backend().elementwise().scale_add(1, mirrored[i], 1, embeddings[i]);
    }
    for (const Tensor& embedding : embeddings) {
      // The parts are in the order of their rows.
      const std::vector<Tensor> parts = rank.world.gather(cast(Variable(embedding), DType::f32).value(), 0);
      if (!device.has_data()) continue;
      for (const Tensor& part : parts) {
        const std::vector<float> values = part.to_host<float>();
        result.insert(result.end(), values.begin(), values.end());
      }
    }
  }
  trainer.share_broken_image();
  if (trainer.has_broken_image()) return {};
  return result;
}

}  // namespace heddle
