#include "experiments/training/image_reader.h"

#include <algorithm>

#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

Tensor ImageReader::to_device(std::span<const float> pixels, std::int64_t images) const {
  const ImageShape& image = dataset_.image();
  const Shape shape{images, image.height, image.width, image.channels};
  const Tensor x = rank_.device.has_data() ? Tensor::from_host(rank_.device, shape, pixels)
                                           : Tensor::empty(rank_.device, shape, DType::f32);
  return cast(Variable(x), experiment_.precision().activations).value();
}

Tensor ImageReader::read(std::span<const std::int64_t> indices, std::int64_t step, std::int64_t first) {
  // Piece by piece through a small buffer, because the meter does not count memory of the host.
  constexpr std::int64_t piece_floats = std::int64_t{4} << 20;
  const ImageShape& image = dataset_.image();
  const auto images = static_cast<std::int64_t>(indices.size());
  const std::int64_t piece = std::max<std::int64_t>(piece_floats / image.size(), 1);
  const Tensor x = Tensor::empty(rank_.device, {images, image.height, image.width, image.channels}, DType::f32);
  for (std::int64_t begin = 0; rank_.device.has_data() && begin < images; begin += piece) {
    const std::int64_t end = std::min(begin + piece, images);
    const auto part = indices.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    pixels_.resize(static_cast<std::size_t>((end - begin) * image.size()));
    read_training_batch(dataset_, part, experiment_.data.augmentation, rank_.key, step, first + begin, pixels_);
    x.rows(begin, end).load_bytes(std::as_bytes(std::span(pixels_)));
  }
  return cast(Variable(x), experiment_.precision().activations).value();
}

}  // namespace heddle
