#include "experiments/config/fields.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "experiments/config/outline.h"
#include "experiments/config/wording.h"
#include "framework/error.h"

namespace heddle {

namespace {

using Fields = std::map<std::string, const Node*>;

void collect(const Node& node, const std::string& path, Fields& fields) {
  const auto inner = [&](std::string_view name, const Node& field) {
    collect(field, path.empty() ? std::string(name) : fmt::format("{}.{}", path, name), fields);
  };
  if (!path.empty()) fields.emplace(path, &node);
  if (node.kind == Node::Kind::object && node.items.empty()) {
    for (const Node& field : node.fields) inner(field.name, field);
    if (const Node::Alternative* const chosen = node.alternative(node.type_name()))
      for (const Node& field : chosen->fields) inner(field.name, field);
  }
  if (!node.items.empty()) {
    std::size_t index = 0;
    for (const Node& item : node.items) inner(fmt::format("{}", index++), item);
  }
}

/// The last part of a path.
std::string_view leaf(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

std::string suggested(std::string_view dotted, const Fields& fields) {
  std::vector<std::string> integers;
  for (const auto& [path, node] : fields)
    if (node->kind == Node::Kind::integer) integers.push_back(path);
  for (const std::string& path : integers)
    if (leaf(path) == dotted) return fmt::format("; did you mean {}?", in_quotes(path));
  return suggestion(dotted, integers);
}

std::string_view kind_words(const Node& node) {
  switch (node.kind) {
    case Node::Kind::boolean:
      return "true or false";
    case Node::Kind::number:
      return "a number that need not be whole";
    case Node::Kind::text:
      return "a string";
    case Node::Kind::choice:
      return "one of several names";
    case Node::Kind::subset:
      return "some of several names";
    case Node::Kind::object:
      return node.items.empty() ? "an object" : "a list";
    default:
      return "a list";
  }
}

}  // namespace

IntegerField integer_field(const Describer::Body& root, std::string_view dotted) {
  const Node tree = outline(root, Scope::chosen);
  Fields fields;
  collect(tree, "", fields);
  const auto found = fields.find(std::string(dotted));
  if (found == fields.end()) fail<InputError>("no field {}{}", in_quotes(dotted), suggested(dotted, fields));
  const Node& node = *found->second;
  if (node.kind != Node::Kind::integer)
    fail<InputError>("expected a field that holds an integer, {} holds {}", in_quotes(dotted), kind_words(node));
  const Range& range = node.each;
  return {*node.value.get_if<std::int64_t>(),
          static_cast<std::int64_t>(std::max(range.minimum, -max_exact_integer)) + (range.excludes_minimum ? 1 : 0),
          static_cast<std::int64_t>(std::min(range.maximum, max_exact_integer)) - (range.excludes_maximum ? 1 : 0)};
}

}  // namespace heddle
