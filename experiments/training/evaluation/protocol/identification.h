// Identification: which person of a gallery does an image show? Pure functions, on the calling thread's OpenMP team.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/training/evaluation/protocol/verification.h"
#include "framework/tensors/device.h"

namespace heddle {

/// The share of test rows whose nearest row of the gallery, by cosine, has their label. Among equally near rows the
/// first one counts. A row without direction matches no label.
double rank1(const Embeddings& gallery, const Embeddings& test);

/// The label of distractors: images in a gallery whose people are not among the probes.
inline constexpr std::int64_t distractor = -1;

/// The ranks whose rates are reported.
inline constexpr std::array<std::int64_t, 4> reported_ranks{1, 5, 10, 20};

/// The share of known probes that are identified as their person, at the lowest threshold of cosine that at most
/// 10^-exponent of the unknown probes exceed.
struct TpirAtFpir {
  int exponent = 0;
  double tpir = 0;
};

struct Identification {
  std::int64_t gallery = 0;      // number of images, distractors included
  std::int64_t distractors = 0;  // number of distractors
  std::int64_t known = 0;        // number of probes of people in the gallery
  std::int64_t unknown = 0;      // number of other probes
  /// The share of known probes that have an image of their person among the nearest images, at each of reported_ranks.
  std::array<double, reported_ranks.size()> rates{};
  /// The rates from 10^-1 down for which there are at least 10^exponent unknown probes.
  std::vector<TpirAtFpir> tpir_at_fpir{};
};

/// Compares every probe with the whole gallery by cosine, as matrix products on the device, block by block, so that the
/// memory for the scores is bounded. Equally near images are ranked in the order of the gallery. A probe is identified
/// as the person of its nearest image if that is nearer than a threshold. Error if there are no known probes.
Identification identify(const Embeddings& gallery, const Embeddings& probes, Device& device);

}  // namespace heddle
