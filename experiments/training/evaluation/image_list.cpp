#include "experiments/training/evaluation/image_list.h"

#include "experiments/data/image.h"
#include "experiments/data/parallel_for.h"

namespace heddle {

ImageList images_of(const Dataset& dataset, Split split) {
  return {.size = dataset.size(split), .read = [&dataset, split](std::int64_t image, std::span<float> pixels) {
            dataset.read(split, image, pixels);
          }};
}

ImageList images_of_files(std::vector<std::string> files, const ImageShape& shape) {
  const auto count = static_cast<std::int64_t>(files.size());
  parallel_for(count, [&](std::int64_t i) { (void)load_image_header(files[static_cast<std::size_t>(i)]); });
  return {.size = count, .read = [files = std::move(files), shape](std::int64_t image, std::span<float> pixels) {
            const Image decoded =
                with_channels(load_image(files[static_cast<std::size_t>(image)]), static_cast<int>(shape.channels));
            resize_to_floats(decoded, static_cast<int>(shape.height), static_cast<int>(shape.width), pixels);
          }};
}

}  // namespace heddle
