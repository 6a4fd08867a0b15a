// The people who can be found by a search: one row for each person or for each image, in the memory of a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/face_search/people.h"
#include "experiments/training/evaluation/protocol/nearest.h"

namespace heddle {

/// How a person who has several images is compared.
enum class PersonRow {
  mean,          ///< by the mean of the normalised embeddings of the images
  nearest_image  ///< by the image that is nearest to the probe
};

class Gallery {
 public:
  Gallery(const SearchedImages& images, PersonRow way, Device& device, std::int64_t dimension);

  const People& people() const { return people_; }
  /// Appends embeddings of the images in the order of the people's places; InputError if one, or the mean of a
  /// person's, has no direction.
  void append(std::span<const float> embeddings);
  /// Reads all rows of the images' .npy.
  void read_embeddings();

  /// The nearest people to each probe.
  std::vector<Neighbours> nearest(const UnitRows& probes, std::int64_t count) const;
  /// The image to show for a person who was found: the nearest one, or the person's first. A place.
  std::int64_t shown_image(const Neighbour& found) const;

  const RowTable& rows() const { return rows_; }
  PersonRow way() const { return way_; }
  /// Embeddings of the images at the first places, at most 100,000, whose pairs give a threshold.
  const std::vector<float>& first_images() const { return first_images_; }

 private:
  void append_means(std::span<const float> embeddings);

  const SearchedImages& images_;
  People people_;
  bool has_means_;  // of several images, for at least one person
  PersonRow way_;
  RowTable rows_;
  std::int64_t appended_ = 0;
  std::int64_t person_ = 0;  // whose images are being appended
  std::vector<double> sum_;  // of this person's normalised embeddings so far
  std::vector<float> first_images_;
};

}  // namespace heddle
