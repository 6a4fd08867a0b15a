#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/program/data/overview.h"
#include "experiments/results/grid.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of_split(const StoredData& data, std::size_t i) {
  if (data.splits.size() == 1) return "all";
  return data.splits[i].split == Split::train ? "training" : "testing";
}

std::string range_of(const PeopleOfImages& row) {
  return row.least == row.most ? std::to_string(row.least) : fmt::format("{}-{}", row.least, row.most);
}

/// The people of each row, with a bar; the longest has 40 characters.
std::string histogram_text(const SplitOverview& overview) {
  std::int64_t most = 1;
  for (const PeopleOfImages& row : overview.histogram) most = std::max(most, row.people);
  std::string text = "images per person   people\n";
  for (const PeopleOfImages& row : overview.histogram) {
    const std::int64_t bar = (40 * row.people + most - 1) / most;
    text += fmt::format("{:>17}  {:>7}", range_of(row), row.people);
    text += (bar > 0 ? "  " + std::string(static_cast<std::size_t>(bar), '#') : "") + "\n";
  }
  return text;
}

std::string split_text(const SplitOverview& overview, bool has_people) {
  Grid grid({"", "min", "median", "max"});
  const auto add = [&](std::string what, const Quantiles& quantiles) {
    grid.add({std::move(what), std::to_string(quantiles.least), std::to_string(quantiles.median),
              std::to_string(quantiles.most)});
  };
  if (has_people) add("images per person", overview.images_per_person);
  add("width (pixels)", overview.width);
  add("height (pixels)", overview.height);
  std::string text = grid.to_text() + "\n";
  if (has_people) text += histogram_text(overview) + "\n";
  text += "formats:";
  for (const auto& [format, number] : overview.formats) text += fmt::format("  {} {}", name_of(format), number);
  text += "\n";
  if (overview.broken > 0)
    text += fmt::format("{} broken; `heddle data check` lists {}\n",
                        overview.broken == 1 ? "1 image is" : fmt::format("{} images are", overview.broken),
                        overview.broken == 1 ? "it" : "them");
  return text;
}

Json quantiles_json(const Quantiles& quantiles) {
  return {{"least", quantiles.least}, {"median", quantiles.median}, {"most", quantiles.most}};
}

Json split_json(const SplitOverview& overview, bool has_people) {
  Json json{{"images", overview.images}};
  json["people"] = has_people ? Json(overview.people) : Json(nullptr);
  json["images_per_person"] = has_people ? quantiles_json(overview.images_per_person) : Json(nullptr);
  json["histogram"] = Json::array();
  for (const PeopleOfImages& row : overview.histogram)
    json["histogram"].push_back({{"least", row.least}, {"most", row.most}, {"people", row.people}});
  json["width"] = quantiles_json(overview.width);
  json["height"] = quantiles_json(overview.height);
  json["formats"] = Json::object();
  for (const auto& [format, number] : overview.formats) json["formats"][std::string(name_of(format))] = number;
  json["broken"] = overview.broken;
  return json;
}

}  // namespace

std::string overview_text(const StoredData& data, const std::vector<SplitOverview>& splits) {
  std::string text;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const StoredImages& images = *data.splits[i].images;
    text += fmt::format("{}{}", i > 0 ? "\n" : "", images.title());
    if (splits.size() > 1) text += fmt::format(", for {}", name_of_split(data, i));
    text += fmt::format(": {}", counted(splits[i].images, "image", "images"));
    if (data.has_people) text += fmt::format(" of {}", counted(splits[i].people, "person", "people"));
    text += "\n\n" + split_text(splits[i], data.has_people);
  }
  return text;
}

std::string overview_json(const StoredData& data, const std::vector<SplitOverview>& splits) {
  Json json = Json::array();
  for (std::size_t i = 0; i < splits.size(); ++i) {
    Json split{{"data", data.splits[i].images->title()}, {"split", name_of_split(data, i)}};
    split.update(split_json(splits[i], data.has_people));
    json.push_back(std::move(split));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace heddle
