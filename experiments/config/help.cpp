#include "experiments/config/help.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/json_text.h"
#include "experiments/config/outline.h"
#include "experiments/config/wording.h"
#include "framework/description/nearest.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {
namespace {

using Kind = Node::Kind;
using Row = std::array<std::string, 4>;  // name, value, default, meaning

constexpr std::size_t line_width = 100;
constexpr std::array<std::size_t, 3> max_widths = {24, 28, 16};  // of all columns but the last, which takes the rest

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  return lines_of(wrap(text, width, 0));
}

std::string join(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, " | "));
}

std::vector<std::string> types_of(const Node& node) {
  std::vector<std::string> names;
  for (const Node::Alternative& kind : node.alternatives) names.push_back(kind.type);
  return names;
}

std::string value_text(const Node& node) {
  const auto list = [&](std::string_view noun) { return list_words(noun, node.each, node.length).substr(2); };
  switch (node.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "integer" + range_words(node.each);
    case Kind::number:
      return "number" + range_words(node.each);
    case Kind::text:
      return "string";
    case Kind::choice:
      return join(node.names);
    case Kind::subset:
      return fmt::format("{} or a list of {}", node.all, join(node.names));
    case Kind::integers:
      return list("integer");
    case Kind::numbers:
      return list("number");
    case Kind::texts:
      return list("string");
    case Kind::list:
      return list("object");
    default:
      if (node.may_be_list) return "object, or " + list_words("object", any_number(), node.length);
      return node.is_optional ? "object or null" : "object";
  }
}

std::string default_text(const Node& node) {
  if (node.is_required) return "required";
  if (node.kind != Kind::object) return printable(to_line(to_value(node)));
  if (node.is_optional && !node.is_present) return "null";
  return std::string(node.type_name());
}

Row row_of(const Node& node) {
  return {node.name, value_text(node), default_text(node), node.help};
}

void add_table(const std::vector<Row>& rows, std::string& out) {
  std::array<std::size_t, 3> widths{};
  const Row header = {"name", "value", "default", "meaning"};
  for (std::size_t c = 0; c < widths.size(); ++c) {
    widths[c] = header[c].size();
    for (const Row& row : rows) widths[c] = std::max(widths[c], row[c].size());
    widths[c] = std::min(widths[c], max_widths[c]);
  }
  constexpr std::size_t indent_and_gaps = 2 + 3 * 2;
  const std::size_t last = line_width - indent_and_gaps - widths[0] - widths[1] - widths[2];
  const auto add_row = [&](const Row& row) {
    const std::array cells = {wrapped(row[0], widths[0]), wrapped(row[1], widths[1]), wrapped(row[2], widths[2]),
                              wrapped(row[3], last)};
    std::size_t height = 0;
    for (const auto& cell : cells) height = std::max(height, cell.size());
    for (std::size_t line = 0; line < height; ++line) {
      const auto piece = [&](std::size_t c) { return line < cells[c].size() ? cells[c][line] : std::string(); };
      std::string text = fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}", piece(0), widths[0], piece(1), widths[1], piece(2),
                                     widths[2], piece(3));
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + '\n';
    }
  };
  add_row(header);
  for (const Row& row : rows) add_row(row);
}

void add_heading(const std::string& heading, std::string& out) {
  for (const std::string& line : wrapped(heading, line_width)) out += line + '\n';
}

void add_alternative(const Node& node, const Node::Alternative& kind, std::string& out) {
  add_heading(fmt::format("type \"{}\"{}{}{}", kind.type, node.type_name() == kind.type ? " (the default)" : "",
                          kind.help.empty() ? "" : ": ", kind.help),
              out);
  std::vector<Row> rows;
  for (const Node& field : kind.fields) rows.push_back(row_of(field));
  if (!rows.empty()) add_table(rows, out);
}

std::string object_text(const std::string& heading, const Node& node, const Node::Alternative* only) {
  std::string out;
  if (!heading.empty()) add_heading(heading, out);
  std::vector<Row> rows;
  if (node.is_tagged()) {
    const std::string standard(node.type_name());
    rows.push_back(
        {"type", join(types_of(node)), standard.empty() ? "required" : json_string(standard), node.type_help});
  }
  for (const Node& field : node.fields) rows.push_back(row_of(field));
  if (!rows.empty()) add_table(rows, out);
  for (const Node::Alternative& kind : node.alternatives) {
    if (only != nullptr && only != &kind) continue;
    out += '\n';
    add_alternative(node, kind, out);
  }
  return out;
}

/// Where a dotted path leads: an object or field, perhaps one of its alternatives.
struct Place {
  const Node* node;
  const Node::Alternative* alternative = nullptr;
};

/// Throws the InputError of a path whose part `name`, which begins at `begin`, is not one of the known names.
[[noreturn]] void refuse_name(std::string_view dotted, std::string_view name, std::size_t begin,
                              const std::vector<std::string>& known) {
  std::string hint;
  if (const std::optional<std::string> near = nearest(name, known)) {
    hint = fmt::format("; did you mean {}?", in_quotes(std::string(dotted.substr(0, begin)) + *near));
  } else if (!known.empty()) {
    hint = "; expected " + one_of_words(known);
  }
  fail<InputError>("help {}: no such option{}", shortened(dotted), hint);
}

Place find_place(const Node& root, std::string_view dotted) {
  Place place{&root};
  std::string_view rest = dotted;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    if (place.node->kind == Kind::list) place.node = &place.node->element();
    const Node& node = *place.node;
    std::vector<std::string> known;
    const Node* inner = nullptr;
    const auto search = [&](const std::list<Node>& fields) {
      for (const Node& field : fields) {
        known.push_back(field.name);
        if (inner == nullptr && field.name == name) inner = &field;
      }
    };
    if (place.alternative == nullptr) search(node.fields);
    // A type, unless it has a key of its own name, before the keys of other types.
    const Node::Alternative* const kind =
        inner == nullptr && place.alternative == nullptr ? node.alternative(name) : nullptr;
    const Node::Alternative* const only = kind != nullptr ? kind : place.alternative;
    for (const Node::Alternative& each : node.alternatives)
      if (only == nullptr || only == &each) search(each.fields);
    if (inner == nullptr && kind == nullptr) {
      const std::vector<std::string> types = types_of(node);
      if (place.alternative == nullptr) known.insert(known.end(), types.begin(), types.end());
      refuse_name(dotted, name, dotted.size() - rest.size(), known);
    }
    place = inner != nullptr ? Place{inner} : Place{&node, kind};
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return place;
}

}  // namespace

std::string help_text(const Describer::Body& root, std::string_view dotted_path) {
  const Node tree = outline(root, Scope::everything);
  const Place place = find_place(tree, dotted_path);
  const Node& node = *place.node;
  std::string heading(dotted_path);
  if (!dotted_path.empty() && !node.help.empty()) heading += ": " + node.help;
  if (node.kind == Kind::object) return object_text(heading, node, place.alternative);
  std::string out;
  add_heading(heading, out);
  add_table({row_of(node)}, out);
  if (node.kind == Kind::list) {
    out += '\n';
    out += object_text("Each of them:", node.element(), nullptr);
  }
  return out;
}

}  // namespace heddle
