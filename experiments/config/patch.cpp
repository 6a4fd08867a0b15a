#include "experiments/config/patch.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/json_text.h"
#include "experiments/config/wording.h"

namespace heddle {
namespace {

/// The type that a tagged object has: what it says, else the default. Nothing if it says no string.
std::optional<std::string> type_of(const Object& object, const Node& shape) {
  const Value* const given = find(object, "type");
  if (given == nullptr || given->is<Removed>() || given->is<std::nullptr_t>()) return std::string(shape.type_name());
  const std::string* const text = given->get_if<std::string>();
  return text == nullptr ? std::nullopt : std::optional(*text);
}

const Node* shape_of(const Object& object, const Node* shape, std::string_view key) {
  if (shape == nullptr || shape->kind != Node::Kind::object) return nullptr;
  return shape->field(key, type_of(object, *shape).value_or(""));
}

Value& member(Object& object, const std::string& key) {
  if (Value* const found = find(object, key)) return *found;
  object.push_back({key, {Removed{}}});
  return object.back().value;
}

std::optional<std::size_t> index_of(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(index) : std::nullopt;
}

template <class Function>
void for_all(Value& value, const Function& function) {
  function(value);
  if (Array* const array = value.get_if<Array>()) {
    for (Value& item : *array) for_all(item, function);
  } else if (Object* const object = value.get_if<Object>()) {
    for (Member& item : *object) for_all(item.value, function);
  }
}

/// What `before` had and `after` has not.
void note_discarded(const Object& before, const Object& after, const std::string& pointer,
                    std::vector<Discarded>& discarded) {
  for (const Member& member : before)
    if (!member.value.is<Removed>() && find(after, member.key) == nullptr)
      discarded.push_back({member.value.origin, child_pointer(pointer, member.key)});
}

/// The existing value that a setting changes, to which the first `depth` names of its path lead.
struct Target {
  Value* value;
  const Node* shape;  // null where nothing is described
  std::string pointer{};
  std::size_t depth = 0;
};

/// Goes down the path of a setting as far as objects and lists exist. The rest of the path, and its last name if that
/// is a key, is left to the patch. InputError for an index past a list's end.
Target existing_target(const Setting& setting, Value& root, const Node* shape) {
  Target target{&root, shape};
  bool is_element = false;  // of a list that may be an object
  for (; target.depth < setting.path.size(); ++target.depth) {
    const std::string& token = setting.path[target.depth];
    const bool may_be_list = target.shape != nullptr && target.shape->may_be_list;
    if (may_be_list && !is_element && target.value->is<Object>() && token == "0") {
      is_element = true;  // the object is a list of one
      continue;
    }
    if (Array* const array = target.value->get_if<Array>()) {
      const std::optional<std::size_t> index = index_of(token);
      if (!index || *index >= array->size()) {
        fail<InputError>("--set {}: expected an index below {}, got {}", shortened(setting.dotted()), array->size(),
                         in_quotes(token));
      }
      target.value = &(*array)[*index];
      target.pointer = child_pointer(target.pointer, *index);
      is_element = true;
      if (!may_be_list) {
        const bool is_list = target.shape != nullptr && target.shape->kind == Node::Kind::list;
        target.shape = is_list ? &target.shape->element() : nullptr;
      }
      continue;
    }
    Object* const object = target.value->get_if<Object>();
    Value* const inner = object == nullptr ? nullptr : find(*object, token);
    const bool is_last = target.depth + 1 == setting.path.size();
    if (inner == nullptr || !(inner->is<Array>() || inner->is<Object>()) || is_last) break;
    target.shape = shape_of(*object, target.shape, token);
    is_element = false;
    target.value = inner;
    target.pointer = child_pointer(target.pointer, token);
  }
  return target;
}

/// The setting's value within an object for each name of the path from `depth` on.
Value patch_below(const Setting& setting, std::size_t depth) {
  Value patch = setting.value;
  for (std::size_t i = setting.path.size(); i > depth; --i) {
    Value outer{Object{}, patch.origin, patch.order};
    outer.get_if<Object>()->push_back({setting.path[i - 1], std::move(patch)});
    patch = std::move(outer);
  }
  return patch;
}

}  // namespace

void merge(Value& target, const Value& patch, const Node* shape, std::vector<Discarded>& discarded,
           const std::string& pointer) {
  const Object* const changes = patch.get_if<Object>();
  if (changes == nullptr) {
    target = patch;
    if (patch.is<std::nullptr_t>()) target.data = Removed{};
    return;
  }
  const Value empty{Object{}, patch.origin, patch.order};
  if (!target.is<Object>()) target = empty;
  Object before;
  if (shape != nullptr && shape->is_tagged() && find(*changes, "type") != nullptr) {
    const std::optional<std::string> old_type = type_of(*target.get_if<Object>(), *shape);
    if (!old_type || type_of(*changes, *shape) != old_type)
      before = std::move(*std::exchange(target, empty).get_if<Object>());
  }
  Object& object = *target.get_if<Object>();
  // The type first: it decides what the others are.
  if (const Value* const type = find(*changes, "type")) merge(member(object, "type"), *type, nullptr, discarded);
  for (const Member& change : *changes) {
    const Node* const inner = shape_of(object, shape, change.key);
    merge(member(object, change.key), change.value, inner, discarded, child_pointer(pointer, change.key));
  }
  note_discarded(before, object, pointer, discarded);
}

Value difference(const Value& from, const Value& to) {
  const Object& before = *from.get_if<Object>();
  const Object& after = *to.get_if<Object>();
  const Value* const old_type = find(before, "type");
  const Value* const new_type = find(after, "type");
  if (old_type != nullptr && new_type != nullptr && to_line(*old_type) != to_line(*new_type)) return to;
  Object changes;
  for (const Member& now : after) {
    const Value* const old = find(before, now.key);
    if (old != nullptr && old->is<Object>() && now.value.is<Object>()) {
      Value inner = difference(*old, now.value);
      if (!inner.get_if<Object>()->empty()) changes.push_back({now.key, std::move(inner)});
    } else if (old == nullptr || to_line(*old) != to_line(now.value)) {
      changes.push_back(now);
    }
  }
  return {std::move(changes)};
}

std::string Setting::dotted() const {
  return fmt::format("{}", fmt::join(path, "."));
}

std::string Setting::pointer() const {
  std::string result;
  for (const std::string& token : path) result = child_pointer(result, token);
  return result;
}

Setting parse_setting(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    fail<InputError>("--set {}: expected a.b=value", shortened(text));
  }
  Setting setting;
  std::string_view path = text.substr(0, equals);
  while (true) {
    const std::size_t dot = path.find('.');
    setting.path.emplace_back(path.substr(0, dot));
    if (setting.path.back().empty()) fail<InputError>("--set {}: expected names between the dots", shortened(text));
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  if (setting.path.size() > max_json_levels) {
    fail<InputError>("--set {}: expected at most {} levels of nesting", shortened(text), max_json_levels);
  }
  const std::string_view value = text.substr(equals + 1);
  const std::string name = "--set " + shortened(setting.dotted());
  try {
    ParsedJson parsed = parse_json(value, name);
    if (!parsed.duplicates.empty()) {
      fail<InputError>("{}: {}: duplicate key; expected each key once in an object", name,
                       shortened(parsed.duplicates[0].pointer));
    }
    setting.value = std::move(parsed.root);
  } catch (const NotJson&) {
    setting.value.data = std::string(value);
  }
  set_order(setting.value, 0);
  return setting;
}

void sort_settings(std::vector<Setting>& settings) {
  const auto rank = [](const Setting& setting) {
    return 2 * setting.path.size() - (setting.path.back() == "type" ? 1 : 0);
  };
  std::stable_sort(settings.begin(), settings.end(),
                   [&](const Setting& a, const Setting& b) { return rank(a) < rank(b); });
}

void apply(const Setting& setting, Value& root, const Node* shape, std::vector<Discarded>& discarded) {
  const Target target = existing_target(setting, root, shape);
  merge(*target.value, patch_below(setting, target.depth), target.shape, discarded, target.pointer);
}

void set_origin(Value& value, std::uint32_t origin) {
  for_all(value, [=](Value& inner) { inner.origin = origin; });
}

void set_order(Value& value, std::uint32_t order) {
  for_all(value, [=](Value& inner) { inner.order = order; });
}

}  // namespace heddle
