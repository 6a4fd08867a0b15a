#include "experiments/config/writer.h"

#include "experiments/config/json_text.h"
#include "experiments/config/outline.h"
#include "experiments/config/patch.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// The struct as JSON without the keys whose values equal those of `defaults`, an outline of everything.
Value without_defaults(const Node& chosen, const Node& defaults) {
  if (chosen.kind == Node::Kind::list || !chosen.items.empty()) {
    Array array;
    for (const Node& item : chosen.items)
      array.push_back(without_defaults(item, chosen.kind == Node::Kind::list ? defaults.element() : defaults));
    return {std::move(array)};
  }
  if (chosen.kind != Node::Kind::object || !chosen.is_present) return to_value(chosen);
  const std::string_view type = chosen.type_name();
  Object object;
  if (!type.empty()) object.push_back({"type", {std::string(type)}});
  const auto add = [&](const std::list<Node>& fields) {
    for (const Node& field : fields) {
      const Node& default_field = *defaults.field(field.name, type);
      if (field.is_required || to_line(to_value(field)) != to_line(to_value(default_field)))
        object.push_back({field.name, without_defaults(field, default_field)});
    }
  };
  add(chosen.fields);
  if (const Node::Alternative* const alternative = chosen.alternative(type)) add(alternative->fields);
  return {std::move(object)};
}

/// The text of an experiment file. `first` is the JSON of the first variant, with or without defaults; the variants are
/// listed as patches on it.
std::string experiment_text(std::span<const NamedBody> variants, Value first) {
  Object& members = *first.get_if<Object>();
  const Value* const name = find(members, "name");
  const bool is_plain = name != nullptr && name->is<std::string>() && *name->get_if<std::string>() == variants[0].name;
  if (variants.size() == 1 && is_plain) return to_text(first);
  const Value base = to_value(outline(variants[0].body, Scope::chosen));
  Array list;
  for (const NamedBody& variant : variants) {
    Object entry{{"name", {variant.name}}};
    Value patch = difference(base, to_value(outline(variant.body, Scope::chosen)));
    entry.push_back({"patch", std::move(patch)});
    list.push_back({std::move(entry)});
  }
  members.push_back({"variants", {std::move(list)}});
  return to_text(first);
}

}  // namespace

std::string write_json(const Describer::Body& body) {
  return to_text(to_value(outline(body, Scope::chosen)));
}

std::string write_experiment(std::span<const NamedBody> variants) {
  if (variants.empty()) fail<Error>("write_experiment: expected at least one variant");
  return experiment_text(variants, to_value(outline(variants[0].body, Scope::chosen)));
}

std::string write_short_experiment(std::span<const NamedBody> variants, const Describer::Body& defaults) {
  if (variants.empty()) fail<Error>("write_short_experiment: expected at least one variant");
  return experiment_text(
      variants, without_defaults(outline(variants[0].body, Scope::chosen), outline(defaults, Scope::everything)));
}

}  // namespace heddle
