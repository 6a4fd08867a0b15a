#include "experiments/training/evaluation/protocol/templates.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Adds the mean of the medium's images to `sum`.
void add_mean(std::span<const float> embeddings, std::span<const TemplateImage> medium, std::vector<double>& sum) {
  const std::size_t dimension = sum.size();
  for (const TemplateImage& member : medium) {
    const float* const row = &embeddings[static_cast<std::size_t>(member.image) * dimension];
    for (std::size_t k = 0; k < dimension; ++k) sum[k] += row[k] / static_cast<double>(medium.size());
  }
}

/// The number of members at the front that agree with the first one.
template <class Same>
std::size_t run_length(std::span<const TemplateImage> members, const Same& same) {
  const auto end = std::find_if_not(members.begin(), members.end(),
                                    [&](const TemplateImage& member) { return same(members.front(), member); });
  return static_cast<std::size_t>(end - members.begin());
}

}  // namespace

std::vector<float> template_embeddings(std::span<const float> embeddings, std::int64_t dimension,
                                       const std::vector<TemplateImage>& images, std::int64_t templates) {
  std::vector<TemplateImage> sorted = images;
  std::stable_sort(sorted.begin(), sorted.end(), [](const TemplateImage& a, const TemplateImage& b) {
    return std::tie(a.group, a.medium) < std::tie(b.group, b.medium);
  });
  std::vector<std::span<const TemplateImage>> groups;
  for (std::span<const TemplateImage> rest = sorted; !rest.empty();) {
    if (rest.front().group != static_cast<std::int64_t>(groups.size())) break;
    groups.push_back(rest.first(
        run_length(rest, [](const TemplateImage& a, const TemplateImage& b) { return a.group == b.group; })));
    rest = rest.subspan(groups.back().size());
  }
  if (static_cast<std::int64_t>(groups.size()) != templates)
    fail("evaluation: template {} of {} has no image", groups.size(), templates);
  const auto columns = static_cast<std::size_t>(dimension);
  std::vector<float> values(groups.size() * columns);
  parallel_for(templates, [&](std::int64_t i) {
    const auto group = static_cast<std::size_t>(i);
    std::vector<double> sum(columns, 0);
    for (std::span<const TemplateImage> rest = groups[group]; !rest.empty();) {
      const std::size_t medium =
          run_length(rest, [](const TemplateImage& a, const TemplateImage& b) { return a.medium == b.medium; });
      add_mean(embeddings, rest.first(medium), sum);
      rest = rest.subspan(medium);
    }
    double norm = 0;
    for (const double value : sum) norm += value * value;
    for (std::size_t k = 0; k < columns; ++k)
      values[group * columns + k] = static_cast<float>(sum[k] / std::sqrt(norm));
  });
  return values;
}

}  // namespace heddle
