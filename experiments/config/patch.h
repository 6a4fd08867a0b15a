// Merge patches (RFC 7396) that know the description: a changed "type" drops what stood beside the old one, and what a
// null takes away must be a known key.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/outline.h"
#include "experiments/config/value.h"

namespace heddle {

/// Merges `patch` into `target`. `shape` describes `target`; null where nothing is described.
void merge(Value& target, const Value& patch, const Node* shape);

/// The patch that turns `from` into `to`, both objects as `to_value` writes them.
Value difference(const Value& from, const Value& to);

/// One `--set a.b=json`. A value that is not JSON is a string.
struct Setting {
  std::vector<std::string> path;
  Value value;
  std::string dotted() const;
  std::string pointer() const;
};

/// Throws InputError naming the `--set`.
Setting parse_setting(std::string_view text);

/// The more specific path wins, a "type" comes before its siblings, and of equal paths the last wins, so that no
/// setting silently undoes another.
void sort_settings(std::vector<Setting>& settings);

/// Merges a setting into `root`; numbers in its path are indices where they meet a list. Throws InputError for an index
/// past the list's end.
void apply(const Setting& setting, Value& root, const Node* shape);

/// Gives a value and all inside it one origin.
void set_origin(Value& value, std::uint32_t origin);
void set_order(Value& value, std::uint32_t order);

}  // namespace heddle
