#include "experiments/training/evaluation/image_source.h"

#include "experiments/data/image.h"
#include "experiments/data/parallel_for.h"

namespace heddle {

namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

void check(const ImageHeader& header, const Preprocessing& preprocessing, std::string_view name) {
  preprocessing.check_size(header.height, header.width, name);
}

}  // namespace

ImageSource images_of(const Dataset& dataset, Split split) {
  return {.size = dataset.size(split), .read = [&dataset, split](std::int64_t image, std::span<float> pixels) {
            dataset.read(split, image, pixels);
            dataset.preprocessing().normalise(pixels);
          }};
}

ImageSource images_of_files(std::vector<std::string> files, const Preprocessing& preprocessing) {
  const auto count = static_cast<std::int64_t>(files.size());
  parallel_for(count, [&](std::int64_t i) { check(load_image_header(files[at(i)]), preprocessing, files[at(i)]); });
  return {.size = count, .read = [files = std::move(files), preprocessing](std::int64_t i, std::span<float> pixels) {
            preprocessing.apply(read_image_file(files[at(i)]), files[at(i)], pixels);
          }};
}

ImageSource images_of_bin(std::shared_ptr<const BinFile> file, const Preprocessing& preprocessing) {
  const std::int64_t count = file->images();
  parallel_for(count, [&](std::int64_t i) {
    const std::string name = file->image_name(i);
    check(decode_image_header(file->image(i), file->image(i).size(), name), preprocessing, name);
  });
  return {.size = count, .read = [file = std::move(file), preprocessing](std::int64_t i, std::span<float> pixels) {
            preprocessing.apply(file->image(i), file->image_name(i), pixels);
          }};
}

}  // namespace heddle
