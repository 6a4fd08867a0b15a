#include "experiments/config/schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/json_text.h"
#include "experiments/config/outline.h"
#include "experiments/config/wording.h"

namespace heddle {
namespace {

using Kind = Node::Kind;

Value text(std::string_view words) {
  return {std::string(words)};
}

Value number(double value) {
  if (std::trunc(value) == value && std::abs(value) < 9e15) return {static_cast<std::int64_t>(value)};
  return {Real{value, ""}};
}

void add_range(Object& schema, const Range& range) {
  if (std::isfinite(range.minimum)) {
    schema.push_back({range.excludes_minimum ? "exclusiveMinimum" : "minimum", number(range.minimum)});
  }
  if (std::isfinite(range.maximum)) {
    schema.push_back({range.excludes_maximum ? "exclusiveMaximum" : "maximum", number(range.maximum)});
  }
}

void add_length(Object& schema, const Range& length) {
  if (const double min = min_length(length); min > 0) schema.push_back({"minItems", number(min)});
  if (const double max = max_length(length); std::isfinite(max)) schema.push_back({"maxItems", number(max)});
}

class SchemaWriter {
 public:
  /// `pointer` is where the result will stand in the schema.
  Object schema(const Node& node, const std::string& pointer) {
    pointers_[&node] = pointer;
    if (node.may_be_list) return object_or_list(node, pointer);
    if (node.kind == Kind::object) return object(node, pointer);
    Object result;
    switch (node.kind) {
      case Kind::boolean:
        result.push_back({"type", text("boolean")});
        break;
      case Kind::integer:
        result.push_back({"type", text("integer")});
        break;
      case Kind::number:
        result.push_back({"type", text("number")});
        break;
      case Kind::text:
        result.push_back({"type", text("string")});
        break;
      case Kind::choice:
        result.push_back({"enum", names(node.names)});
        break;
      case Kind::subset:
        result.push_back({"oneOf", subset(node)});
        break;
      default:
        result.push_back({"type", text("array")});
        break;
    }
    if (node.kind == Kind::integer || node.kind == Kind::number) add_range(result, node.each);
    if (node.kind == Kind::integers) add_items(result, "integer", node);
    if (node.kind == Kind::numbers) add_items(result, "number", node);
    if (node.kind == Kind::texts) add_items(result, "string", node);
    if (node.kind == Kind::list) {
      add_length(result, node.length);
      if (node.same_as != nullptr) {
        result.push_back({"items", {reference(item_pointers_.at(node.same_as))}});
      } else {
        const std::string inner = pointer + "/items";
        item_pointers_[&node] = inner;
        result.push_back({"items", {schema(node.element(), inner)}});
      }
    }
    if (!node.is_required) result.push_back({"default", to_value(node)});
    result.push_back({"description", text(node.help)});
    return result;
  }

  /// The schema of a merge patch on an object whose schema was made. Nothing is required, null takes a key away, and
  /// the patch of a tagged object may have the keys of every alternative: which one it is meant for, the base may say.
  Object patch(const Node& node, std::span<const std::string_view> except = {}) const {
    std::vector<std::pair<std::string, Array>> keys;
    const auto add = [&](const std::string& name, Object schema) {
      const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.first == name; });
      (found == keys.end() ? keys.emplace_back(name, Array{}) : *found).second.push_back({std::move(schema)});
    };
    const auto add_all = [&](const std::list<Node>& fields) {
      for (const Node& field : fields)
        if (std::find(except.begin(), except.end(), field.name) == except.end())
          add_patches(field, [&](Object schema) { add(field.name, std::move(schema)); });
    };
    if (node.is_tagged()) {
      std::vector<std::string> types;
      for (const Node::Alternative& kind : node.alternatives) types.push_back(kind.type);
      add("type", {{"enum", names(types)}});
    }
    add_all(node.fields);
    for (const Node::Alternative& kind : node.alternatives) add_all(kind.fields);
    Object properties;
    for (auto& [name, schemas] : keys) {
      schemas.push_back({Object{{"type", text("null")}}});
      properties.push_back({name, {Object{{"anyOf", {std::move(schemas)}}}}});
    }
    Object result{{"type", text("object")}, {"properties", {std::move(properties)}}, {"additionalProperties", {false}}};
    if (node.is_tagged()) result.push_back({"allOf", {keys_by_type(node)}});
    return result;
  }

 private:
  /// A patch that names a type has no keys of other types.
  static Array keys_by_type(const Node& node) {
    Array rules;
    for (const Node::Alternative& kind : node.alternatives) {
      std::vector<std::string> keys{"type"};
      for (const std::list<Node>* const fields : {&node.fields, &kind.fields})
        for (const Node& field : *fields) keys.push_back(field.name);
      Object type{{"type", {Object{{"const", text(kind.type)}}}}};
      Object condition{{"properties", {std::move(type)}}, {"required", {Array{text("type")}}}};
      Object consequence{{"propertyNames", {Object{{"enum", names(keys)}}}}};
      rules.push_back({Object{{"if", {std::move(condition)}}, {"then", {std::move(consequence)}}}});
    }
    return rules;
  }
  template <class Add>
  void add_patches(const Node& field, const Add& add) const {
    add(field.kind == Kind::object ? patch(field) : reference(pointers_.at(&field)));
    if (field.may_be_list) add(list_of(field, pointers_.at(&field)));
  }
  /// The list of objects that a key may have instead of one; `pointer` is where the key's schema stands.
  static Object list_of(const Node& node, const std::string& pointer) {
    Object list{{"type", text("array")}, {"items", {reference(pointer + "/anyOf/0")}}};
    add_length(list, node.length);
    return list;
  }
  Object object_or_list(const Node& node, const std::string& pointer) {
    Array forms;
    forms.push_back({object(node, pointer + "/anyOf/0")});
    forms.push_back({list_of(node, pointer)});
    return {{"anyOf", {std::move(forms)}}, {"description", text(node.help)}};
  }
  static Object reference(const std::string& pointer) { return {{"$ref", text("#" + pointer)}}; }
  static Value names(const std::vector<std::string>& list) {
    Array array;
    for (const std::string& name : list) array.push_back(text(name));
    return {std::move(array)};
  }
  static Value subset(const Node& node) {
    Object items{{"enum", names(node.names)}};
    Object some{{"type", text("array")}, {"items", {std::move(items)}}, {"uniqueItems", {true}}};
    add_length(some, at_least(static_cast<double>(node.min_names)));
    return {Array{{Object{{"const", text(node.all)}}}, {std::move(some)}}};
  }
  static void add_items(Object& schema, std::string_view type, const Node& node) {
    Object items{{"type", text(type)}};
    add_range(items, node.each);
    if (!node.first.empty()) {
      Array values;
      for (const std::int64_t value : node.first) values.push_back({value});
      Array first;
      first.push_back({Object{{"enum", {std::move(values)}}}});
      schema.push_back({"prefixItems", {std::move(first)}});
    }
    schema.push_back({"items", {std::move(items)}});
    add_length(schema, node.length);
  }

  Object object(const Node& node, const std::string& pointer) {
    Object result;
    if (!node.is_tagged()) {
      result = closed_object(node, nullptr, pointer);
      if (node.is_optional) *find(result, "type") = {Array{text("object"), text("null")}};
    } else {
      Array kinds;
      for (const Node::Alternative& kind : node.alternatives) {
        kinds.push_back({closed_object(node, &kind, child_pointer(pointer + "/oneOf", kinds.size()))});
      }
      if (node.is_optional) kinds.push_back({Object{{"type", text("null")}}});
      result.push_back({"oneOf", {std::move(kinds)}});
    }
    if (!node.help.empty()) result.push_back({"description", text(node.help)});
    return result;
  }

  /// An object of the node's own fields and those of one alternative.
  Object closed_object(const Node& node, const Node::Alternative* kind, const std::string& pointer) {
    Object properties;
    Array required;
    const auto add = [&](const std::list<Node>& fields) {
      for (const Node& field : fields) {
        properties.push_back({field.name, {schema(field, child_pointer(pointer + "/properties", field.name))}});
        if (field.is_required) required.push_back(text(field.name));
      }
    };
    if (kind != nullptr) {
      const bool is_default = node.type_name() == kind->type;
      Object type{{"const", text(kind->type)}};
      if (is_default) type.push_back({"default", text(kind->type)});
      type.push_back({"description", text(node.type_help)});
      properties.push_back({"type", {std::move(type)}});
      if (!is_default) required.push_back(text("type"));
    }
    add(node.fields);
    if (kind != nullptr) add(kind->fields);
    Object result{{"type", text("object")}};
    result.push_back({"properties", {std::move(properties)}});
    if (!required.empty()) result.push_back({"required", {std::move(required)}});
    result.push_back({"additionalProperties", {false}});
    if (kind != nullptr) result.push_back({"description", text(kind->help)});
    return result;
  }

  std::map<const Node*, std::string> pointers_;
  std::map<const Node*, std::string> item_pointers_;
};

/// What `is_folder_name` of study.cpp accepts, as far as a regular expression says it.
void add_folder_name(Object& schema) {
  constexpr std::string_view inside = R"([^/\\:*?"<>|\x00-\x1f])";
  schema.push_back({"maxLength", number(100)});
  schema.push_back({"pattern", text(fmt::format("^(?![.\\- ])(?!.*[. ]$){}+$", inside))});
}

Object front_property(std::string_view type, std::string_view description) {
  return {{"type", text(type)}, {"description", text(description)}};
}

}  // namespace

std::string schema_text(const Describer::Body& root, std::string_view title) {
  const Node node = outline(root, Scope::everything);
  SchemaWriter writer;
  Object schema{{"$schema", text("https://json-schema.org/draft/2020-12/schema")}, {"title", text(title)}};
  for (Member& member : writer.schema(node, "")) schema.push_back(std::move(member));
  Object name = front_property("string", "unique in the file, and a folder's name");
  add_folder_name(name);
  constexpr std::array<std::string_view, 1> not_in_patches{"name"};
  Object patch = writer.patch(node, not_in_patches);
  patch.push_back({"description", text("JSON merge patch (RFC 7396) on the experiment")});
  Object variant_properties{{"name", {std::move(name)}}, {"patch", {std::move(patch)}}};
  Object variant{{"type", text("object")},
                 {"properties", {std::move(variant_properties)}},
                 {"required", {Array{text("name")}}},
                 {"additionalProperties", {false}}};
  Object variants{
      {"type", text("array")},
      {"items", {std::move(variant)}},
      {"uniqueItems", {true}},
      {"description", text("runs of the experiment, each with a patch; without this list there is one run")}};
  if (Value* const properties = find(schema, "properties")) {
    if (Value* const own_name = find(*properties->get_if<Object>(), "name"))
      add_folder_name(*own_name->get_if<Object>());
    properties->get_if<Object>()->push_back({"$schema", {front_property("string", "for editors; not read")}});
    properties->get_if<Object>()->push_back({"variants", {std::move(variants)}});
  }
  return to_text({std::move(schema)});
}

}  // namespace heddle
