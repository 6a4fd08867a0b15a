#include "experiments/config/study.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "experiments/config/json_text.h"
#include "experiments/config/outline.h"
#include "experiments/config/patch.h"
#include "experiments/config/reader.h"
#include "experiments/config/source.h"
#include "experiments/config/wording.h"

namespace heddle {
namespace {

constexpr std::size_t max_variant_values = 5'000'000;  // bounds the memory that a hostile file can ask for
const std::vector<std::string> front_keys = {"$schema", "variants"};

struct PatchedVariant {
  std::string name;
  Value patch{Object{}};
};

bool is_folder_name(std::string_view name) {
  if (name.empty() || name.size() > 100 || printable(name) != name) return false;
  if (name.front() == '.' || name.front() == '-' || name.front() == ' ') return false;
  if (name.back() == '.' || name.back() == ' ') return false;
  return name.find_first_of("/\\:*?\"<>|") == std::string_view::npos;
}

constexpr std::string_view folder_name_text = "a name that a folder can have";

/// Reads the keys around the root: "$schema", "variants" and the name.
class Front {
 public:
  Front(Value root, Source& source, const ProblemReporter& reporter)
      : base_(std::move(root)), source_(source), reporter_(reporter) {}

  void take_schema() {
    const std::optional<Value> schema = take("$schema");
    if (schema && !schema->is<std::string>()) reporter_.expected(*schema, "/$schema", "a string");
  }

  std::vector<PatchedVariant> take_variants() {
    std::vector<PatchedVariant> variants;
    std::optional<Value> list = take("variants");
    if (!list) return variants;
    Array* const array = list->get_if<Array>();
    if (array == nullptr) {
      reporter_.expected(*list, "/variants", "a list of objects");
      return variants;
    }
    for (std::size_t i = 0; i < array->size(); ++i) {
      take_variant((*array)[i], child_pointer("/variants", i), variants);
    }
    return variants;
  }

  const Value& base() const { return base_; }

 private:
  std::optional<Value> take(std::string_view key) {
    Object& members = *base_.get_if<Object>();
    const auto place =
        std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.key == key; });
    if (place == members.end()) return std::nullopt;
    Value value = std::move(place->value);
    members.erase(place);
    return value;
  }

  void take_variant(Value& given, const std::string& pointer, std::vector<PatchedVariant>& variants) {
    Object* const members = given.get_if<Object>();
    if (members == nullptr) {
      reporter_.expected(given, pointer, "an object");
      return;
    }
    PatchedVariant variant;
    bool has_name = false;
    for (Member& member : *members) {
      const std::string inner = child_pointer(pointer, member.key);
      if (member.key == "name") {
        has_name = true;
        const std::string* const name = member.value.get_if<std::string>();
        if (name == nullptr || !is_folder_name(*name)) {
          reporter_.expected(member.value, inner, folder_name_text);
        } else if (std::any_of(variants.begin(), variants.end(), [&](const auto& v) { return v.name == *name; })) {
          reporter_.report(member.value, inner,
                           fmt::format("expected a name of its own, got {} again", in_quotes(*name)));
        } else {
          variant.name = *name;
        }
      } else if (member.key == "patch") {
        if (member.value.is<Object>()) {
          variant.patch = std::move(member.value);
          set_origin(variant.patch, source_.add_patch(inner));
          refuse_front_keys(variant.patch);
        } else {
          reporter_.expected(member.value, inner, "an object");
        }
      } else {
        const std::vector<std::string> known = {"name", "patch"};
        reporter_.report(member.value, inner, unknown_key_words(member.key, known));
      }
    }
    if (!has_name)
      reporter_.report(given, pointer + "/name", fmt::format("expected {}, got nothing", folder_name_text));
    variants.push_back(std::move(variant));
  }

  void refuse_front_keys(Value& patch) {
    Object& members = *patch.get_if<Object>();
    std::erase_if(members, [&](const Member& member) {
      const bool is_front = member.key == "name" || member.key == "variants" || member.key == "$schema";
      if (is_front) {
        reporter_.report(member.value, child_pointer("", member.key),
                         fmt::format("a patch cannot change {}", in_quotes(member.key)));
      }
      return is_front;
    });
  }

  Value base_;
  Source& source_;
  const ProblemReporter& reporter_;
};

std::vector<Setting> parse_settings(std::span<const std::string> sets, Source& source, Problems& problems) {
  std::vector<Setting> settings;
  for (const std::string& text : sets) {
    try {
      Setting setting = parse_setting(text);
      if (setting.path[0] == "variants" || setting.path[0] == "$schema") {
        fail<InputError>("--set {}: {} cannot be set on the command line", shortened(setting.dotted()),
                         in_quotes(setting.path[0]));
      }
      set_origin(setting.value, source.add_set(setting.dotted(), setting.pointer()));
      set_order(setting.value, after_the_file);
      settings.push_back(std::move(setting));
    } catch (const InputError& error) {
      problems.add(after_the_file, error.what());
    }
  }
  sort_settings(settings);
  return settings;
}

void apply_settings(const std::vector<Setting>& settings, Value& root, const Node& shape,
                    std::vector<Discarded>& discarded, Problems& problems) {
  for (const Setting& setting : settings) {
    try {
      apply(setting, root, &shape, discarded);
    } catch (const InputError& error) {
      problems.add(after_the_file, error.what());
    }
  }
}

/// Adds a line for each discarded value that was not given again. A value of the base that every variant discards is
/// one line.
void warn(const std::vector<Discarded>& discarded, const Value& root, const Source& source,
          std::vector<std::string>& warnings) {
  for (const Discarded& value : discarded) {
    if (value_at(root, value.pointer) != nullptr) continue;
    std::string line = fmt::format("{}: discarded, because it belongs to the previous type; repeat it to keep it",
                                   source.where(value.origin, value.pointer));
    if (std::find(warnings.begin(), warnings.end(), line) == warnings.end()) warnings.push_back(std::move(line));
  }
}

/// Whether the patch gives something else to the path of a setting, or to what is above it.
bool contradicts(const Value& patch, const Setting& setting) {
  const Value* at = &patch;
  for (const std::string& key : setting.path) {
    const Object* const members = at->get_if<Object>();
    if (members == nullptr) return true;
    at = find(*members, key);
    if (at == nullptr) return false;
  }
  return value_words(*at) != value_words(setting.value);
}

/// Adds a line for each setting that overrides the patches of some variants.
void warn(const std::vector<Setting>& settings, const std::vector<PatchedVariant>& variants,
          std::vector<std::string>& warnings) {
  for (const Setting& setting : settings) {
    std::vector<std::string> names;
    for (const PatchedVariant& variant : variants)
      if (contradicts(variant.patch, setting)) names.push_back(in_quotes(variant.name));
    if (!names.empty())
      warnings.push_back(fmt::format("--set {}: overrides the patch of the {} {}", setting.dotted(),
                                     names.size() == 1 ? "variant" : "variants", fmt::join(names, ", ")));
  }
}

}  // namespace

ExperimentFile read_experiment_text(std::string_view text, const std::string& file, std::span<const std::string> sets,
                                    const RootMaker& make_root) {
  ParsedJson parsed = parse_json(text, file);
  if (!parsed.root.is<Object>()) fail<InputError>("{}: expected an object, got {}", file, value_words(parsed.root));
  const auto source = std::make_shared<Source>(file);
  Problems problems;
  report_duplicates(parsed.duplicates, *source, 0, problems);

  const ProblemReporter reporter{*source, problems};
  Front front(std::move(parsed.root), *source, reporter);
  front.take_schema();
  std::vector<PatchedVariant> variants = front.take_variants();
  if (variants.size() * parsed.values > max_variant_values) {
    fail<InputError>("{}: /variants: expected at most {} values in all variants together", file, max_variant_values);
  }
  const std::vector<Setting> settings = parse_settings(sets, *source, problems);
  const Node shape = outline(make_root(), Scope::everything);
  if (variants.empty()) variants.emplace_back();

  ExperimentFile result;
  for (PatchedVariant& variant : variants) {
    Value root = front.base();
    std::vector<Discarded> discarded;
    merge(root, variant.patch, &shape, discarded);
    apply_settings(settings, root, shape, discarded, problems);
    warn(discarded, root, *source, result.warnings);
    read_value(root, *source, problems, make_root(), front_keys);

    const Value* const name = find(*root.get_if<Object>(), "name");
    result.name = std::filesystem::path(file).stem().string();
    if (name != nullptr && name->is<std::string>()) {
      result.name = *name->get_if<std::string>();
      if (!is_folder_name(result.name)) reporter.expected(*name, "/name", folder_name_text);
    }
    if (variant.name.empty()) variant.name = result.name;
    result.variants.push_back({variant.name, Document(std::make_shared<const Document::Contents>(
                                                 Document::Contents{source, std::move(root), {}}))});
  }
  problems.raise();
  warn(settings, variants, result.warnings);
  return result;
}

Document with_settings(const Document& document, std::span<const std::string> sets, const Describer::Body& root) {
  const auto source = std::make_shared<Source>(*document.contents().source);
  Value changed = document.contents().root;
  Problems problems;
  const std::vector<Setting> settings = parse_settings(sets, *source, problems);
  std::vector<Discarded> discarded;  // were reported when the document was read
  apply_settings(settings, changed, outline(root, Scope::everything), discarded, problems);
  problems.raise();
  return Document(std::make_shared<const Document::Contents>(Document::Contents{source, std::move(changed), {}}));
}

ExperimentFile read_experiment_file(const std::filesystem::path& path, std::span<const std::string> sets,
                                    const RootMaker& make_root) {
  return read_experiment_text(read_config_text(path), path.string(), sets, make_root);
}

}  // namespace heddle
