#include "experiments/data/synthetic/synthetic_identities.h"

#include <fmt/core.h>

#include "experiments/data/synthetic/synthetic_face.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

void describe(Describer& d, SyntheticIdentitiesConfig& c) {
  d.field("identities", c.identities, between(2, 1e12), "number of synthetic people");
  describe_image(d, c.image);
  d.field("train_per_identity", c.train_per_identity, between(1, 1e6), "training images of each person");
  d.field("test_per_identity", c.test_per_identity, between(1, 1e6), "test images of each person");
}

std::unique_ptr<const Dataset> open_data(const SyntheticIdentitiesConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed) {
  if (preprocessing.config().crop > 0)
    fail<InputError>("data.preprocessing.crop: expected 0, got {}: synthetic faces have the size of data.image",
                     preprocessing.config().crop);
  return std::make_unique<SyntheticIdentities>(config, preprocessing, seed);
}

SyntheticIdentities::SyntheticIdentities(const SyntheticIdentitiesConfig& config, Preprocessing preprocessing,
                                         RandomKey seed)
    : Dataset(std::move(preprocessing)),
      identities_(config.identities),
      train_per_identity_(config.train_per_identity),
      test_per_identity_(config.test_per_identity),
      seed_(seed) {}

std::int64_t SyntheticIdentities::label(Split split, std::int64_t index) const {
  if (index < 0 || index >= size(split))
    fail("synthetic identities: sample {} is out of range, there are {}", index, size(split));
  return index / per_identity(split);
}

std::string SyntheticIdentities::sample_name(Split split, std::int64_t index) const {
  return fmt::format("person {}, {} image {}", label(split, index), split == Split::train ? "training" : "test",
                     index % per_identity(split));
}

void SyntheticIdentities::read(Split split, std::int64_t index, std::span<float> pixels) const {
  const auto identity = static_cast<std::uint64_t>(label(split, index));
  const auto number = static_cast<std::uint64_t>(index % per_identity(split));
  // Step 0 draws the person, odd steps draw training images and even ones test images, so that the number of images of
  // one kind does not change the other kind.
  const FaceIdentity face = draw_identity(RandomStream(seed_, Purpose::synthetic_data, 0, identity));
  RandomStream draws(seed_, Purpose::synthetic_data, 2 * number + (split == Split::train ? 1 : 2), identity);
  const FacePose pose = draw_pose(draws);
  paint_face(face, pose, image(), draws, pixels);
}

}  // namespace heddle
