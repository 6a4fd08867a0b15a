#include "experiments/data/encoded_images.h"

namespace heddle {

Image EncodedImages::decode(Split split, std::int64_t index) const {
  std::vector<std::uint8_t> buffer;
  return decode_image(encoded(split, index, buffer), sample_name(split, index));
}

void EncodedImages::read(Split split, std::int64_t index, std::span<float> pixels) const {
  std::vector<std::uint8_t> buffer;
  preprocessing().resize(encoded(split, index, buffer), sample_name(split, index), pixels);
}

}  // namespace heddle
