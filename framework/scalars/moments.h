// Counts, means and sums of squared deviations of groups of values, merged into those of all values (Chan, Golub and
// LeVeque 1979). Shared by all backends.
#pragma once

#include <cstdint>

#include "framework/host_device.h"

namespace heddle {

struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of the squared deviations from the mean
};

/// The moments of one channel, merged from `groups` rows in order. Each row holds a count, `channels` means and
/// `channels` sums of squared deviations. Rows whose count is 0 add nothing.
template <class T>
HEDDLE_HOST_DEVICE Moments merged_moments(const T* rows, std::int64_t groups, std::int64_t channels,
                                          std::int64_t channel) {
  Moments all;
  for (std::int64_t g = 0; g < groups; ++g) {
    const T* const row = rows + g * (2 * channels + 1);
    const double more = row[0];
    if (more == 0) continue;
    const double difference = static_cast<double>(row[1 + channel]) - all.mean;
    const double count = all.count + more;
    all.mean += difference * more / count;
    all.squares +=
        static_cast<double>(row[1 + channels + channel]) + difference * difference * all.count * more / count;
    all.count = count;
  }
  return all;
}

}  // namespace heddle
