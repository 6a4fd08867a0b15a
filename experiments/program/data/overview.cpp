#include "experiments/program/data/overview.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "framework/error.h"

namespace heddle {

namespace {

void count_people(const StoredImages& images, SplitOverview& overview) {
  std::unordered_map<std::int64_t, std::int64_t> images_of;
  for (std::int64_t i = 0; i < images.size(); ++i)
    if (const std::int64_t label = images.label(i); label >= 0) ++images_of[label];
  std::vector<std::int64_t> numbers;
  numbers.reserve(images_of.size());
  for (const auto& [label, number] : images_of) numbers.push_back(number);
  overview.people = static_cast<std::int64_t>(numbers.size());
  overview.images_per_person = quantiles_of(numbers);
  for (std::int64_t least = 1; least <= overview.images_per_person.most; least *= 2) {
    const auto fits = [least](std::int64_t number) { return number >= least && number < 2 * least; };
    overview.histogram.push_back({least, 2 * least - 1, std::count_if(numbers.begin(), numbers.end(), fits)});
  }
}

std::optional<ImageHeader> header_of(const StoredImages& images, std::int64_t i) {
  try {
    return images.header(i);
  } catch (const InputError&) {  // is counted
    return {};
  }
}

}  // namespace

Quantiles quantiles_of(std::vector<std::int64_t> numbers) {
  if (numbers.empty()) return {};
  std::sort(numbers.begin(), numbers.end());
  return {numbers.front(), numbers[(numbers.size() - 1) / 2], numbers.back()};
}

SplitOverview overview_of(const StoredImages& images, const OnImages& on_images) {
  SplitOverview overview;
  overview.images = images.size();
  overview.broken = static_cast<std::int64_t>(images.broken().size());
  count_people(images, overview);
  std::vector<std::int64_t> heights;
  std::vector<std::int64_t> widths;
  constexpr std::int64_t piece = 4096;
  const auto count = [&](std::int64_t /*i*/, const std::optional<ImageHeader>& header) {
    if (!header) {
      ++overview.broken;
      return;
    }
    heights.push_back(header->height);
    widths.push_back(header->width);
    ++overview.formats[header->format];
  };
  in_pieces(
      images.size(), piece, [&](std::int64_t i) { return header_of(images, i); }, count, on_images);
  overview.height = quantiles_of(std::move(heights));
  overview.width = quantiles_of(std::move(widths));
  return overview;
}

}  // namespace heddle
