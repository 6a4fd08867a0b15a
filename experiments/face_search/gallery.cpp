#include "experiments/face_search/gallery.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

constexpr std::int64_t max_first_images = 100'000;

bool has_direction(std::span<const double> sum) {
  double square = 0;
  for (const double x : sum) square += x * x;
  return square > 0 && std::isfinite(square);
}

}  // namespace

Gallery::Gallery(const SearchedImages& images, PersonRow way, Device& device, std::int64_t dimension)
    : images_(images),
      people_(images),
      has_means_(way == PersonRow::mean && people_.size() < people_.images()),
      way_(way),
      rows_(device, way == PersonRow::mean ? people_.size() : people_.images(), dimension),
      sum_(static_cast<std::size_t>(dimension)) {}

void Gallery::append(std::span<const float> embeddings) {
  check_embeddings(images_, embeddings, rows_.dimension(),
                   [this](std::int64_t i) { return people_.image(appended_ + i); });
  const auto dimension = static_cast<std::size_t>(rows_.dimension());
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(0, max_first_images - appended_)) * dimension;
  const std::span<const float> first = embeddings.first(std::min(embeddings.size(), kept));
  first_images_.insert(first_images_.end(), first.begin(), first.end());
  if (has_means_)
    append_means(embeddings);
  else
    rows_.append(embeddings);
  appended_ += static_cast<std::int64_t>(embeddings.size() / dimension);
}

void Gallery::append_means(std::span<const float> embeddings) {
  std::vector<float> unit(sum_.size());
  std::vector<float> means;
  std::int64_t place = appended_;
  for (; !embeddings.empty(); embeddings = embeddings.subspan(unit.size())) {
    std::copy_n(embeddings.begin(), unit.size(), unit.begin());
    scale_to_unit(unit);
    for (std::size_t i = 0; i < unit.size(); ++i) sum_[i] += static_cast<double>(unit[i]);
    if (++place < people_.starts()[static_cast<std::size_t>(person_) + 1]) continue;
    if (!has_direction(sum_))
      fail<InputError>("{}: the embeddings of {} cancel each other: --nearest-image compares with each image",
                       images_.path, in_quotes(people_.name(person_)));
    for (double& x : sum_) means.push_back(static_cast<float>(std::exchange(x, 0)));
    ++person_;
  }
  rows_.append(means);
}

void Gallery::read_embeddings() {
  std::function<std::int64_t(std::int64_t)> image_of;
  if (!people_.is_in_order()) image_of = [this](std::int64_t place) { return people_.image(place); };
  heddle::read_embeddings(images_, image_of, [this](std::span<const float> rows) { append(rows); });
}

std::vector<Neighbours> Gallery::nearest(const UnitRows& probes, std::int64_t count) const {
  const std::span<const std::int64_t> groups =
      way_ == PersonRow::nearest_image ? people_.starts() : std::span<const std::int64_t>();
  return nearest_rows(rows_, groups, probes, count);
}

std::int64_t Gallery::shown_image(const Neighbour& found) const {
  return way_ == PersonRow::nearest_image ? found.row : people_.starts()[static_cast<std::size_t>(found.group)];
}

}  // namespace heddle
