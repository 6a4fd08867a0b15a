// Identification: whose image is this? Pure functions, on the calling thread's OpenMP team.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/training/evaluation/protocol/verification.h"
#include "framework/tensors/device.h"

namespace heddle {

/// The share of test rows whose nearest row of the gallery, by cosine, has their label. Among equally near rows the
/// first one counts. A row without direction is nobody's.
double rank1(const Embeddings& gallery, const Embeddings& test);

/// The label of images in a gallery that are nobody's who is asked for: distractors.
inline constexpr std::int64_t nobody = -1;

/// The ranks whose rates are reported.
inline constexpr std::array<std::int64_t, 4> reported_ranks{1, 5, 10, 20};

/// The share of known probes that are identified, and rightly so, where at most 10^-exponent of the unknown ones may be
/// identified at all.
struct TpirAtFpir {
  int exponent = 0;
  double tpir = 0;
};

struct Identification {
  std::int64_t gallery = 0;      // images, distractors among them
  std::int64_t distractors = 0;  // those that are nobody's
  std::int64_t known = 0;        // probes of people in the gallery
  std::int64_t unknown = 0;      // probes of others
  /// For each of reported_ranks: the share of known probes that have an image of their person among so many nearest.
  std::array<double, reported_ranks.size()> rates{};
  /// As far as the unknown probes carry it: from 10^-1, for rates of which there are at least 10^exponent.
  std::vector<TpirAtFpir> tpir_at_fpir{};
};

/// Compares every probe with the whole gallery by cosine, as matrix products on the device, block by block: memory for
/// the scores does not grow with either. Among equally near images the first one comes first. A probe is identified as
/// the person of its nearest image if that is nearer than a threshold. Error if there are no known probes.
Identification identify(const Embeddings& gallery, const Embeddings& probes, Device& device);

}  // namespace heddle
