#include "experiments/import/import_weights.h"

#include <algorithm>
#include <array>
#include <optional>

#include "experiments/import/weights_source.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/tensors/host_elements.h"

namespace heddle {

namespace {

/// DataParallel and DistributedDataParallel, torch.compile, and models that hold the backbone beside a head.
constexpr std::array<std::string_view, 4> wrappers{"module.", "_orig_mod.", "backbone.", "model."};

struct Chosen {
  std::string name;
  std::size_t index;  // in the source
};

std::optional<std::string_view> common_wrapper(const std::vector<Chosen>& all) {
  for (const std::string_view prefix : wrappers)
    if (!all.empty() && std::all_of(all.begin(), all.end(), [&](const Chosen& one) {
          return one.name.size() > prefix.size() && one.name.starts_with(prefix);
        }))
      return prefix;
  return {};
}

void remove_prefix(std::vector<Chosen>& all, std::string_view prefix, ImportedWeights& result) {
  for (Chosen& one : all) one.name.erase(0, prefix.size());
  result.prefixes.emplace_back(prefix);
}

void remove_wrappers(std::vector<Chosen>& all, ImportedWeights& result) {
  while (const auto prefix = common_wrapper(all)) remove_prefix(all, *prefix, result);
}

void keep_prefix(std::vector<Chosen>& all, const std::string& prefix, const std::string& path,
                 ImportedWeights& result) {
  const std::string first = all.empty() ? "" : all.front().name;
  result.left_out = static_cast<std::int64_t>(std::erase_if(
      all, [&](const Chosen& one) { return one.name.size() <= prefix.size() || !one.name.starts_with(prefix); }));
  if (all.empty())
    fail<InputError>("{}: no tensor has a name that begins with {}: the first one is {}", path, in_quotes(prefix),
                     in_quotes(first));
  remove_prefix(all, prefix, result);
}

}  // namespace

ImportedWeights import_weights(const std::filesystem::path& from, const std::filesystem::path& to,
                               const ImportOptions& options) {
  const std::unique_ptr<WeightsSource> source = open_weights(from, options.key);
  ImportedWeights result{.description = source->description()};
  std::vector<Chosen> chosen;
  for (std::size_t i = 0; i < source->entries().size(); ++i) chosen.push_back({source->entries()[i].name, i});
  if (chosen.empty()) fail<InputError>("{}: has no tensor", from.string());
  if (!options.prefix.empty()) keep_prefix(chosen, options.prefix, from.string(), result);
  remove_wrappers(chosen, result);

  std::vector<SafetensorsEntry> entries;
  for (const Chosen& one : chosen) {
    entries.push_back(source->entries()[one.index]);
    entries.back().name = one.name;
    result.bytes += entries.back().bytes();
  }
  result.tensors = std::ssize(entries);
  SafetensorsWriter writer(to, entries, {{"format", "pt"}});
  for (const Chosen& one : chosen) {
    const SafetensorsEntry& entry = source->entries()[one.index];
    const std::vector<std::byte> elements = source->read(one.index);
    if (const auto bad = first_not_finite(elements, entry.dtype))
      fail<InputError>("{}: tensor {} has an element that is {}", from.string(), in_quotes(entry.name), *bad);
    writer.write(elements);
  }
  writer.commit();
  return result;
}

}  // namespace heddle
