// Merge patches (RFC 7396) that follow the description: a changed "type" drops the keys of the old one, and a null must
// name a known key.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/outline.h"
#include "experiments/config/value.h"

namespace heddle {

/// A value that a merge discarded, because the "type" beside it was changed.
struct Discarded {
  std::uint32_t origin;
  std::string pointer;  ///< where it stood in the merged experiment
};

/// Merges `patch` into `target`. `shape` describes `target`; null where nothing is described. Values that a changed
/// "type" discards and that the patch does not give again are added to `discarded`; `pointer` is the place of `target`.
void merge(Value& target, const Value& patch, const Node* shape, std::vector<Discarded>& discarded,
           const std::string& pointer = "");

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
/// past the list's end. `discarded` as in merge().
void apply(const Setting& setting, Value& root, const Node* shape, std::vector<Discarded>& discarded);

/// Gives a value and all inside it one origin.
void set_origin(Value& value, std::uint32_t origin);
void set_order(Value& value, std::uint32_t order);

}  // namespace heddle
