#include "experiments/program/data/check.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/results/grid.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Replaces words that contain digits with .., so that reasons that differ only in numbers are counted as one.
std::string kind_of_reason(const std::string& reason) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string kind;
  for (std::size_t at = 0; at < reason.size();) {
    const std::size_t end = std::min(reason.find_first_of(" (),:", at), reason.size());
    const std::string word = reason.substr(at, end - at);
    kind += std::any_of(word.begin(), word.end(), is_digit) ? ".." : word;
    if (end < reason.size()) kind += reason[end];
    at = end + 1;
  }
  return kind;
}

/// `preprocessing` is null if any size will do.
std::optional<BrokenImage> broken_in(const StoredImages& images, const Preprocessing* preprocessing, std::int64_t i) {
  const std::string name = images.name(i);
  try {
    std::vector<std::uint8_t> buffer;
    const Image image = decode_image(images.encoded(i, buffer), name);
    if (preprocessing != nullptr) preprocessing->check_size(image.height, image.width, name);
  } catch (const InputError& error) {
    return broken_image(name, error.what());
  }
  return {};
}

void add(DataCheck& check, const BrokenImage& image) {
  ++check.broken;
  ++check.reasons[kind_of_reason(image.reason)];
  if (check.first.size() < max_listed) check.first.push_back(image);
}

std::string titles_of(const StoredData& data) {
  std::string text = data.splits.front().images->title();
  if (data.splits.size() > 1 && data.splits[1].images->title() != text) text += ", " + data.splits[1].images->title();
  return text;
}

}  // namespace

DataCheck check_images(const StoredData& data, const OnImages& on_images) {
  const Preprocessing* const preprocessing = data.preprocessing ? &*data.preprocessing : nullptr;
  DataCheck check;
  std::int64_t done = 0;
  for (const StoredSplit& split : data.splits) {
    const StoredImages& images = *split.images;
    for (const BrokenImage& image : images.broken()) add(check, image);
    check.images += images.size() + static_cast<std::int64_t>(images.broken().size());
    constexpr std::int64_t piece = 1024;
    in_pieces(
        images.size(), piece, [&](std::int64_t i) { return broken_in(images, preprocessing, i); },
        [&](std::int64_t /*i*/, const std::optional<BrokenImage>& image) {
          if (image) add(check, *image);
        },
        [&](std::int64_t images_of_split) { on_images(done + images_of_split); });
    done += images.size();
  }
  return check;
}

std::string check_text(const StoredData& data, const DataCheck& check) {
  const std::string images = counted(check.images, "image", "images");
  if (check.broken == 0) return fmt::format("{}: {}, none is broken\n", titles_of(data), images);
  std::string text = fmt::format("{}: {}, {} of them cannot be used\n\n", titles_of(data), images, check.broken);
  Grid reasons({"reason", "images"});
  for (const auto& [reason, number] : check.reasons) reasons.add({reason, std::to_string(number)});
  text += reasons.to_text() + "\n";
  for (const BrokenImage& image : check.first) text += image.text() + "\n";
  if (check.broken > static_cast<std::int64_t>(check.first.size()))
    text += fmt::format("and {} more\n", check.broken - static_cast<std::int64_t>(check.first.size()));
  return text;
}

std::string check_json(const StoredData& data, const DataCheck& check) {
  using Json = nlohmann::ordered_json;
  Json json{{"data", titles_of(data)}, {"images", check.images}, {"broken", check.broken}};
  json["reasons"] = Json::array();
  for (const auto& [reason, number] : check.reasons)
    json["reasons"].push_back({{"reason", reason}, {"images", number}});
  json["first"] = Json::array();
  for (const BrokenImage& image : check.first)
    json["first"].push_back({{"name", image.name}, {"reason", image.reason}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace heddle
