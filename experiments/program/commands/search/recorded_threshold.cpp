#include "experiments/program/commands/search/recorded_threshold.h"

#include <nlohmann/json.hpp>

#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "framework/description/printable.h"
#include "framework/files/atomic_file.h"
#include "framework/files/untrusted_json.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// A member of an object; null if there is none.
OrderedJson member(const OrderedJson& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : OrderedJson();
}

std::optional<SearchThreshold> threshold_of(const OrderedJson& evaluation, const std::string& file) {
  // A squared distance of unit vectors is 2 - 2 cosine.
  const auto result = [&](const OrderedJson& distance, const std::string& set) -> std::optional<SearchThreshold> {
    if (!distance.is_number()) return {};
    return SearchThreshold{.similarity = 1 - distance.get<double>() / 2,
                           .from = fmt::format("the threshold of {} in {}", set, file)};
  };
  for (const OrderedJson& set : member(evaluation, "sets"))
    if (const OrderedJson name = member(set, "name"); name.is_string())
      if (auto found = result(member(set, "threshold"), in_quotes(name.get<std::string>()))) return found;
  return result(member(member(evaluation, "verification"), "threshold"), "the test images");
}

}  // namespace

std::optional<SearchThreshold> recorded_threshold(const FoundCheckpoint& checkpoint) {
  const std::filesystem::path file = checkpoint.folder.parent_path().parent_path() / "summary.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const auto summary = parse_untrusted_json<OrderedJson>(read_file(file, max_summary_bytes));
  for (const OrderedJson& variant : member(summary, "variants")) {
    const OrderedJson name = member(variant, "name");
    if (!name.is_string() || folder_name(name.get<std::string>()) != checkpoint.folder.filename().string()) continue;
    if (member(variant, "steps") == checkpoint.steps) return threshold_of(member(variant, "evaluation"), file.string());
  }
  return {};
}

}  // namespace heddle
