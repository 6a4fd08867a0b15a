// The similarity threshold at a false accept rate, measured on pairs of the gallery's own images.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/face_search/gallery.h"

namespace heddle {

struct FarThreshold {
  double similarity = 0;        ///< the lowest at which at most `far` of the impostor pairs are accepted
  double far = 0;               ///< as it was asked for
  std::int64_t impostors = 0;   ///< pairs of images of two people
  std::int64_t genuine = 0;     ///< pairs of images of one person
  std::optional<double> tar{};  ///< the share of the genuine pairs that are accepted; absent without any
};

/// The lowest rate that can be asked for: one pair of a million.
inline constexpr double min_far = 1e-6;

/// Compares at most a million pairs of each kind, drawn from the gallery's first 100,000 images. Nothing if there are
/// fewer than 1 / far impostor pairs.
std::optional<FarThreshold> threshold_at_far(const Gallery& gallery, double far);

}  // namespace heddle
