#include "experiments/program/commands/search/found_people.h"

#include <nlohmann/json.hpp>

#include "experiments/results/grid.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string similarity_text(double similarity) {
  return fmt::format("{:.4f}", similarity);
}

std::string verdict_of(const FoundPeople& found, const Neighbour& neighbour) {
  const std::optional<bool> matches = found.matches(neighbour);
  return !matches ? "-" : *matches ? "match" : "no match";
}

}  // namespace

std::string search_header(const FoundPeople& found) {
  const People& people = found.gallery->people();
  std::string text =
      fmt::format("{}: {}, {}; similarity: the cosine with {}\n", printable(found.gallery_path),
                  counted(people.size(), "person", "people"), counted(people.images(), "image", "images"),
                  found.gallery->way() == PersonRow::mean ? "the mean of a person's normalised embeddings"
                                                          : "a person's nearest image");
  if (found.threshold)
    text += fmt::format("threshold {}{}\n", similarity_text(found.threshold->similarity),
                        found.threshold->from.empty() ? "" : ": " + found.threshold->from);
  return text;
}

std::string search_table(const FoundPeople& found) {
  const bool has_images = found.gallery->way() == PersonRow::nearest_image;
  std::vector<std::string> headers{"probe", "nearest", "person", "similarity", "verdict"};
  if (has_images) headers.emplace_back("image");
  Grid grid(headers);
  for (std::size_t i = 0; i < found.probes.size(); ++i)
    for (std::size_t k = 0; k < found.nearest[i].size(); ++k) {
      const Neighbour& neighbour = found.nearest[i][k];
      std::vector<std::string> row{k == 0 ? printable(found.probes[i]) : "", fmt::format("{}", k + 1),
                                   printable(found.person(neighbour)), similarity_text(neighbour.cosine),
                                   verdict_of(found, neighbour)};
      if (has_images) row.push_back(printable(found.image(neighbour)));
      grid.add(std::move(row));
    }
  return grid.to_text();
}

std::string search_json(const FoundPeople& found) {
  OrderedJson results = OrderedJson::array();
  for (std::size_t i = 0; i < found.probes.size(); ++i) {
    OrderedJson nearest = OrderedJson::array();
    for (const Neighbour& neighbour : found.nearest[i]) {
      const std::optional<bool> matches = found.matches(neighbour);
      OrderedJson row{{"person", found.person(neighbour)},
                      {"similarity", neighbour.cosine},
                      {"match", matches ? OrderedJson(*matches) : OrderedJson(nullptr)}};
      if (found.gallery->way() == PersonRow::nearest_image) row["image"] = found.image(neighbour);
      nearest.push_back(std::move(row));
    }
    results.push_back({{"probe", found.probes[i]}, {"nearest", std::move(nearest)}});
  }
  const People& people = found.gallery->people();
  OrderedJson threshold = nullptr;
  if (found.threshold)
    threshold = {{"similarity", found.threshold->similarity},
                 {"from", found.threshold->from.empty() ? OrderedJson(nullptr) : OrderedJson(found.threshold->from)}};
  const OrderedJson json{{"checkpoint", found.checkpoint},
                         {"steps", found.steps},
                         {"gallery",
                          {{"path", found.gallery_path},
                           {"people", people.size()},
                           {"images", people.images()},
                           {"features", found.gallery->rows().dimension()},
                           {"person", found.gallery->way() == PersonRow::mean ? "mean" : "nearest_image"}}},
                         {"threshold", std::move(threshold)},
                         {"results", std::move(results)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string search_csv(const FoundPeople& found) {
  std::string text = "probe,nearest,person,similarity,match,image\n";
  for (std::size_t i = 0; i < found.probes.size(); ++i)
    for (std::size_t k = 0; k < found.nearest[i].size(); ++k) {
      const Neighbour& neighbour = found.nearest[i][k];
      const std::optional<bool> matches = found.matches(neighbour);
      text += fmt::format("{},{},{},{},{},{}\n", csv_field(valid_utf8(found.probes[i])), k + 1,
                          csv_field(valid_utf8(found.person(neighbour))), neighbour.cosine,
                          !matches   ? ""
                          : *matches ? "true"
                                     : "false",
                          csv_field(valid_utf8(found.image(neighbour))));
    }
  return text;
}

}  // namespace heddle
