#include "experiments/face_search/far_threshold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/training/evaluation/protocol/compare.h"
#include "experiments/training/evaluation/protocol/pairs.h"

namespace heddle {

namespace {

std::vector<std::int64_t> labels_of(const People& people, std::int64_t images) {
  std::vector<std::int64_t> labels;
  for (std::int64_t person = 0; static_cast<std::int64_t>(labels.size()) < images; ++person) {
    const std::int64_t end = people.starts()[static_cast<std::size_t>(person) + 1];
    labels.resize(static_cast<std::size_t>(std::min(end, images)), person);
  }
  return labels;
}

std::vector<double> sorted_distances(const UnitRows& rows, const std::vector<Pair>& pairs) {
  std::vector<double> distances;
  for (const ComparedPair& pair : compare(rows, pairs)) distances.push_back(pair.distance);
  std::sort(distances.begin(), distances.end());
  return distances;
}

}  // namespace

std::optional<FarThreshold> threshold_at_far(const Gallery& gallery, double far) {
  constexpr std::int64_t max_pairs = 1'000'000;
  const std::int64_t images = static_cast<std::int64_t>(gallery.first_images().size()) / gallery.rows().dimension();
  const std::vector<std::int64_t> labels = labels_of(gallery.people(), images);
  const PairChooser chooser(labels, {});
  const std::int64_t impostor_pairs = std::min(chooser.impostor_count(), max_pairs);
  const auto accepted = static_cast<std::size_t>(static_cast<double>(impostor_pairs) * far * (1 + 1e-12));
  if (accepted == 0) return {};
  const UnitRows rows(gallery.first_images(), labels.size());
  const std::vector<double> impostors = sorted_distances(rows, chooser.impostors(max_pairs));
  const std::vector<double> genuine = sorted_distances(rows, chooser.genuine(max_pairs));
  const double refused = accepted < impostors.size() ? impostors[accepted] : 4.0;
  FarThreshold result{.similarity = std::nextafter(1 - refused / 2, std::numeric_limits<double>::infinity()),
                      .far = far,
                      .impostors = static_cast<std::int64_t>(impostors.size()),
                      .genuine = static_cast<std::int64_t>(genuine.size())};
  const auto near = std::lower_bound(genuine.begin(), genuine.end(), refused) - genuine.begin();
  if (!genuine.empty()) result.tar = static_cast<double>(near) / static_cast<double>(genuine.size());
  return result;
}

}  // namespace heddle
