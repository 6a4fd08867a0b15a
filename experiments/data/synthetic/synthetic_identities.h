// Synthetic faces for experiments without files. A person is some fifty numbers (shape of head, eyes, brows, nose,
// mouth, hair, colours); a photograph adds pose, light, expression, background and noise. Nothing is stored: every
// image is a function of (seed, person, number) and is painted in well under a millisecond.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/data/dataset.h"

namespace heddle {

class Describer;

struct SyntheticIdentitiesConfig {
  std::int64_t identities = 100;
  std::vector<std::int64_t> image = {3, 112, 112};
  std::int64_t train_per_identity = 20;
  std::int64_t test_per_identity = 5;

  /// The number of people, if it is known before the images are opened.
  std::optional<std::int64_t> known_classes() const { return identities; }
};
void describe(Describer& d, SyntheticIdentitiesConfig& config);
/// `seed` determines the people and their images.
std::unique_ptr<const Dataset> open_data(const SyntheticIdentitiesConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed);

class SyntheticIdentities final : public Dataset {
 public:
  SyntheticIdentities(const SyntheticIdentitiesConfig& config, Preprocessing preprocessing, RandomKey seed);

  std::int64_t classes() const override { return identities_; }
  std::int64_t size(Split split) const override { return identities_ * per_identity(split); }
  std::int64_t label(Split split, std::int64_t index) const override;
  /// "person 3, training image 5"; both numbers count from 0.
  std::string sample_name(Split split, std::int64_t index) const override;
  void read(Split split, std::int64_t index, std::span<float> pixels) const override;

 private:
  std::int64_t per_identity(Split split) const {
    return split == Split::train ? train_per_identity_ : test_per_identity_;
  }

  std::int64_t identities_;
  std::int64_t train_per_identity_;
  std::int64_t test_per_identity_;
  RandomKey seed_;
};

}  // namespace heddle
