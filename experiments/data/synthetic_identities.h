// Drawn faces for experiments without files. An identity is some fifty numbers (shape of head, eyes, brows, nose,
// mouth, hair, colours); a photograph adds pose, light, expression, background and noise. Nothing is stored: every
// image is a function of (seed, identity, number), drawn in well under a millisecond.
#pragma once

#include "experiments/data/dataset.h"

namespace heddle {

class SyntheticIdentities final : public Dataset {
 public:
  SyntheticIdentities(const SyntheticIdentitiesConfig& config, ImageShape image, RandomKey seed);

  std::int64_t classes() const override { return identities_; }
  std::int64_t size(Split split) const override { return identities_ * per_identity(split); }
  std::int64_t label(Split split, std::int64_t index) const override;
  /// "identity 3, training image 5": both counted from 0.
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
