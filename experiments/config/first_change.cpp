#include "experiments/config/first_change.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/json_text.h"
#include "experiments/config/wording.h"

namespace heddle {
namespace {

const Value absent{Removed{}};

std::optional<Change> change_at(const std::string& path, const Value& before, const Value& now);

std::optional<Change> change_within(const std::string& path, const Object& before, const Object& now) {
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const Member& member : now) {
    const Value* const old = find(before, member.key);
    std::optional<Change> change = change_at(prefix + member.key, old == nullptr ? absent : *old, member.value);
    if (change) return change;
  }
  for (const Member& member : before)
    if (find(now, member.key) == nullptr) return change_at(prefix + member.key, member.value, absent);
  return {};
}

std::optional<Change> change_at(const std::string& path, const Value& before, const Value& now) {
  const Object* const old_object = before.get_if<Object>();
  const Object* const new_object = now.get_if<Object>();
  if (old_object != nullptr && new_object != nullptr) return change_within(path, *old_object, *new_object);
  const Array* const old_array = before.get_if<Array>();
  const Array* const new_array = now.get_if<Array>();
  if (old_array != nullptr && new_array != nullptr && old_array->size() == new_array->size()) {
    for (std::size_t i = 0; i < new_array->size(); ++i) {
      std::optional<Change> change = change_at(fmt::format("{}.{}", path, i), (*old_array)[i], (*new_array)[i]);
      if (change) return change;
    }
    return {};
  }
  if (!before.is<Removed>() && !now.is<Removed>() && to_line(before) == to_line(now)) return {};
  return Change{printable(path), value_words(before), value_words(now)};
}

Object object_of(std::string_view text, std::span<const std::string_view> except) {
  Value root = parse_json(text, "").root;
  Object* const object = root.get_if<Object>();
  if (object == nullptr) return {};
  std::erase_if(*object,
                [&](const Member& m) { return std::find(except.begin(), except.end(), m.key) != except.end(); });
  return std::move(*object);
}

}  // namespace

std::optional<Change> first_change(std::string_view before, std::string_view now,
                                   std::span<const std::string_view> except) {
  try {
    const Object old = object_of(before, except);
    if (old.empty()) return {};
    return change_within("", old, object_of(now, except));
  } catch (const InputError&) {
    return {};  // saved by a program that wrote something else
  }
}

}  // namespace heddle
