// Groups the images of a search by person. The folder in the name of an image says who it shows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/face_search/searched_images.h"

namespace heddle {

/// Images in the order of their people, who are in the order in which they are first named. The person of an image is
/// the first folder of its name below the common folder; an image that is in no such folder is a person of its own.
class People {
 public:
  /// `images` must outlive this object.
  explicit People(const SearchedImages& images);

  std::int64_t size() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  std::int64_t images() const { return starts_.back(); }
  /// Person i has the places starts()[i] .. starts()[i + 1] - 1.
  std::span<const std::int64_t> starts() const { return starts_; }
  /// The index of the image at a place.
  std::int64_t image(std::int64_t place) const {
    return order_.empty() ? place : order_[static_cast<std::size_t>(place)];
  }
  std::string_view name(std::int64_t person) const;
  std::string_view image_name(std::int64_t place) const { return images_.names[image(place)]; }
  /// Whether the places are the images' own order.
  bool is_in_order() const { return order_.empty(); }

 private:
  std::string_view person_of(std::int64_t image) const;

  const SearchedImages& images_;
  std::vector<std::int64_t> starts_;
  std::vector<std::int64_t> order_;  // the image at each place; empty: place i has image i
};

}  // namespace heddle
