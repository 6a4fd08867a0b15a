#include "experiments/config/writer.h"

#include "experiments/config/json_text.h"
#include "experiments/config/outline.h"
#include "experiments/config/patch.h"
#include "framework/error.h"

namespace heddle {

std::string write_json(const Describer::Body& body) {
  return to_text(to_value(outline(body, Scope::chosen)));
}

std::string write_experiment(std::span<const NamedBody> variants) {
  if (variants.empty()) fail<Error>("write_experiment: expected at least one variant");
  Value file = to_value(outline(variants[0].body, Scope::chosen));
  const Value base = file;
  Object& members = *file.get_if<Object>();
  const Value* const name = find(members, "name");
  const bool is_plain = name != nullptr && name->is<std::string>() && *name->get_if<std::string>() == variants[0].name;
  if (variants.size() == 1 && is_plain) return to_text(file);
  Array list;
  for (const NamedBody& variant : variants) {
    Object entry{{"name", {variant.name}}};
    Value patch = difference(base, to_value(outline(variant.body, Scope::chosen)));
    entry.push_back({"patch", std::move(patch)});
    list.push_back({std::move(entry)});
  }
  members.push_back({"variants", {std::move(list)}});
  return to_text(file);
}

}  // namespace heddle
