#include "experiments/training/checkpoints/grown_head.h"

#include <algorithm>
#include <unordered_map>

#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// The ending of the names of a margin's running statistics, which all classes share.
constexpr std::string_view margin_state = ".margin";

}  // namespace

ClassOrigins::ClassOrigins(const std::vector<std::string>& saved_names, std::int64_t saved_classes,
                           const std::vector<std::string>& names, std::int64_t classes, const std::string& key)
    : classes_(classes), saved_classes_(saved_classes) {
  if (names.empty() != saved_names.empty())
    fail<InputError>("{}: the classes cannot be matched by name: {}", key,
                     names.empty() ? "the checkpoint has their names, but the data have none"
                                   : "the data have their names, but the checkpoint has none (a checkpoint that is "
                                     "saved now has them)");
  std::unordered_map<std::string_view, std::int64_t> known;
  for (std::size_t i = 0; i < saved_names.size(); ++i) known.emplace(saved_names[i], static_cast<std::int64_t>(i));
  const std::int64_t named = std::ssize(names);
  for (std::int64_t i = 0; i < std::min(named, classes); ++i)
    if (const auto found = known.find(names[static_cast<std::size_t>(i)]); found != known.end()) add(i, found->second);
  if (!names.empty() && stay_ == 0)
    fail<InputError>("{}: none of the {} of the data is among the {} of the checkpoint: --fresh-head begins a new head",
                     key, counted(named, "person", "people"), counted(std::ssize(saved_names), "person", "people"));
  for (std::int64_t i = std::max(named, std::ssize(saved_names)); i < std::min(classes, saved_classes); ++i) add(i, i);
}

void ClassOrigins::add(std::int64_t now, std::int64_t was) {
  ++stay_;
  if (!runs_.empty() && now == runs_.back().begin + runs_.back().count && was == runs_.back().was + runs_.back().count)
    ++runs_.back().count;
  else
    runs_.push_back({now, was, 1});
}

std::string ClassOrigins::description() const {
  const auto are = [](std::int64_t count) { return count == 1 ? "is" : "are"; };
  const std::int64_t added = classes_ - stay_;
  const std::int64_t dropped = saved_classes_ - stay_;
  return fmt::format("from {} to {}: {} {}, {} {} new, {} {} dropped", saved_classes_,
                     counted(classes_, "class", "classes"), stay_, stay_ == 1 ? "stays" : "stay", added, are(added),
                     dropped, are(dropped));
}

std::vector<StateTensor> saved_parts(const StateTensor& tensor, const ClassOrigins& origins) {
  const Shape& whole = tensor.part.whole;
  if (tensor.name.ends_with(margin_state)) return {tensor};
  const std::int64_t rows = whole[0] / origins.classes();  // of one class
  const std::int64_t columns = whole.numel() / whole[0];
  const std::int64_t class_elements = rows * columns;
  // What a rank holds of a head are consecutive elements.
  const std::int64_t begin = tensor.part.box[0].begin * columns + tensor.part.elements.value_or(IndexRange{}).begin;
  const std::int64_t end = begin + tensor.value.numel();
  std::vector<std::int64_t> sizes(whole.dimensions().begin(), whole.dimensions().end());
  sizes[0] = rows * origins.saved_classes();
  const Shape saved(sizes);
  const Tensor flat = tensor.value.reshape({tensor.value.numel()});
  std::vector<StateTensor> parts;
  for (const ClassOrigins::Run& run : origins.runs()) {
    const std::int64_t first = std::max(begin, run.begin * class_elements);
    const std::int64_t last = std::min(end, (run.begin + run.count) * class_elements);
    if (first >= last) continue;
    ParameterPart part = ParameterPart::all_of(saved);
    part.elements = IndexRange{first + (run.was - run.begin) * class_elements, last - first};
    parts.push_back({tensor.name, flat.rows(first - begin, last - begin), part});
  }
  return parts;
}

}  // namespace heddle
