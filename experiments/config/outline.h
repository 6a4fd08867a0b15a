// The fields of a `describe` function as a tree, which the writer, the schema, the help and the merging of patches
// read.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "experiments/config/value.h"
#include "framework/description/describe.h"

namespace heddle {

/// A described field, or an object of fields, such as the root.
struct Node {
  enum class Kind { boolean, integer, number, text, choice, subset, integers, numbers, texts, object, list };
  struct Alternative {
    std::string type;
    std::string help;
    std::list<Node> fields;
  };

  Kind kind = Kind::object;
  std::string name;
  std::string help;
  bool is_required = false;
  Value value;                      ///< leaves only: the value that the struct holds, which is the default
  Range each;                       ///< numbers only
  std::vector<std::int64_t> first;  ///< lists of integers only: the values that the first element may have; empty: all
  Range length;                     ///< lists only
  std::vector<std::string> names;   ///< choices and subsets only
  std::string all;                  ///< subsets only: the word that stands for all names
  std::size_t min_names = 0;        ///< subsets only: the smallest number of names

  // Objects.
  std::list<Node> fields;
  bool is_optional = false;  ///< whether null may stand for it
  bool is_present = true;
  std::vector<Alternative> alternatives;  ///< not empty: "type" decides which fields join the others
  int type = -1;                          ///< the index of the chosen alternative; negative: none, "type" is required
  std::string type_help;
  bool may_be_list = false;  ///< whether a list of such objects may stand for it; several are in `items`

  // Lists of objects.
  std::list<Node> items;          ///< the elements that the struct holds; empty for a single object
  std::list<Node> blank;          ///< one node, an element with its defaults; empty if `same_as` stands for it
  const Node* same_as = nullptr;  ///< the enclosing node whose elements are of the same kind
  std::optional<std::type_index> identity;

  bool is_tagged() const { return !alternatives.empty(); }
  /// The shape of an element, in a list of objects.
  const Node& element() const { return same_as == nullptr ? blank.front() : same_as->blank.front(); }
  /// The alternative called `type`, or null.
  const Alternative* alternative(std::string_view type) const;
  /// The field called `name` of an object, of alternative `type` too; null if there is none.
  const Node* field(std::string_view name, std::string_view type) const;
  /// The name of the chosen alternative; empty if none is.
  std::string_view type_name() const;
};

/// How much of a description an outline has.
enum class Scope {
  everything,  ///< all alternatives, absent objects and blank list elements, as the schema needs them
  chosen       ///< what the struct holds
};

/// The outline of a description: a node of kind object. Throws Error if the description has a key twice.
Node outline(const Describer::Body& body, Scope scope);

/// The outlined struct as JSON, with every default filled in, in the order of description.
Value to_value(const Node& chosen);

}  // namespace heddle
