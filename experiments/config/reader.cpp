#include "experiments/config/reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/outline.h"
#include "experiments/config/wording.h"

namespace heddle {
namespace {

/// Such a text would end early as a path and in a message.
bool has_zero_character(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

/// What may be the former name of a choice: text, or a flag in words.
std::string former_name(const Value& value) {
  if (const auto* const text = value.get_if<std::string>()) return *text;
  if (const auto* const flag = value.get_if<bool>()) return *flag ? "true" : "false";
  return {};
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (const auto* const integer = value.get_if<std::int64_t>()) return *integer;
  const Real* const real = value.get_if<Real>();
  if (real == nullptr || std::abs(real->value) >= max_exact_integer || std::trunc(real->value) != real->value)
    return {};
  return static_cast<std::int64_t>(real->value);
}

std::optional<double> as_number(const Value& value) {
  if (const auto* const integer = value.get_if<std::int64_t>()) return static_cast<double>(*integer);
  const Real* const real = value.get_if<Real>();
  return real == nullptr ? std::nullopt : std::optional(real->value);
}

class Reader final : public Describer {
 public:
  Reader(const ProblemReporter& reporter, const Value& object, std::string pointer)
      : reporter_(reporter), object_(object), pointer_(std::move(pointer)) {}

  void field(Key key, bool& value, std::string_view /*help*/) override {
    read_leaf(key, "true or false", [&](const Value& given) {
      const bool* const flag = given.get_if<bool>();
      if (flag != nullptr) value = *flag;
      return flag != nullptr;
    });
  }
  void field(Key key, std::int64_t& value, Range range, std::string_view /*help*/) override {
    read_leaf(key, std::string(key.integer) + range_words(range),
              [&](const Value& given) { return take_integer(given, range, value); });
  }
  void field(Key key, double& value, Range range, std::string_view /*help*/) override {
    read_leaf(key, "a number" + range_words(range),
              [&](const Value& given) { return take_number(given, range, value); });
  }
  void field(Key key, std::string& value, std::string_view /*help*/) override {
    read_leaf(key, "a string", [&](const Value& given) { return take_text(given, value); });
  }
  void field(Key key, std::vector<std::int64_t>& value, Range each, Range length, std::string_view /*help*/) override {
    const Array* const array =
        read_list(key, "integer", "an integer", each, length, value,
                  [&](const Value& given, std::int64_t& item) { return take_integer(given, each, item); });
    const std::span<const std::int64_t> first = key.first.values;
    if (array == nullptr || first.empty() || std::find(first.begin(), first.end(), value[0]) != first.end()) return;
    reporter_.expected(array->front(), child_pointer(child_pointer(pointer_, key.name), 0), key.first.words);
  }
  void field(Key key, std::vector<double>& value, Range each, Range length, std::string_view /*help*/) override {
    read_list(key, "number", "a number", each, length, value,
              [&](const Value& given, double& item) { return take_number(given, each, item); });
  }
  void field(Key key, std::vector<std::string>& value, Range length, std::string_view /*help*/) override {
    read_list(key, "string", "a string", any_number(), length, value, take_text);
  }
  void choice(Key key, int& value, std::span<const std::string_view> names, std::string_view /*help*/) override {
    const std::vector<std::string> known(names.begin(), names.end());
    if (const Value* const given = take(key, one_of_words(known))) {
      const std::string former = former_name(*given);
      for (const FormerName& name : key.former)
        if (former == name.former) {
          value = static_cast<int>(std::find(names.begin(), names.end(), name.now) - names.begin());
          return;
        }
      read_name(*given, child_pointer(pointer_, key.name), known, value);
    }
  }
  void subset(Key key, unsigned& value, std::span<const std::string_view> names, std::string_view all,
              std::size_t /*least*/, std::string_view /*help*/) override {
    const std::vector<std::string> known(names.begin(), names.end());
    const std::string expected = fmt::format("{} or a list of {}", in_quotes(all), one_of_words(known));
    const Value* const given = take(key, expected);
    if (given == nullptr) return;
    const std::string pointer = child_pointer(pointer_, key.name);
    const std::string* const text = given->get_if<std::string>();
    if (text != nullptr && *text == all) {
      value = (1U << names.size()) - 1;
    } else if (const Array* const array = given->get_if<Array>()) {
      value = 0;
      for (std::size_t i = 0; i < array->size(); ++i) add_name((*array)[i], child_pointer(pointer, i), known, value);
    } else {
      reporter_.expected(*given, pointer, expected);
    }
  }
  void object(Key key, const Body& body, std::string_view /*help*/) override {
    const Value* const given = take(key, "an object");
    if (given == nullptr && key.is_required) return;
    read_object(given, child_pointer(pointer_, key.name), body);
  }
  void optional_object(Key key, bool& present, const Body& body, std::string_view /*help*/) override {
    const Value* const given = take(key, "an object or null");
    if (given == nullptr) {
      if (removal(key.name) != nullptr) present = false;
    } else {
      present = !given->is<std::nullptr_t>();
    }
    if (present) read_object(given, child_pointer(pointer_, key.name), body, "an object or null");
  }
  void list(Key key, const List& value, Range length, std::string_view /*help*/) override {
    const Array* const array = take_array(key, list_words("object", any_number(), length), length);
    if (array != nullptr) read_elements(*array, child_pointer(pointer_, key.name), value);
  }
  void object_or_list(Key key, const List& value, Range length, std::string_view /*help*/) override {
    const std::string expected = "an object or " + list_words("object", any_number(), length);
    const Value* const given = take(key, expected);
    if (given == nullptr && key.is_required) return;
    const std::string pointer = child_pointer(pointer_, key.name);
    const Array* const array = given == nullptr ? nullptr : given->get_if<Array>();
    if (array == nullptr) {
      value.resize(1);
      read_object(
          given, pointer, [&](Describer& inner) { value.element(inner, 0); }, expected);
    } else if (contains(length, static_cast<double>(array->size()))) {
      read_elements(*array, pointer, value);
    } else {
      reporter_.expected(*given, pointer, expected);
    }
  }
  void alternatives(int& type, std::span<const Alternative> kinds, std::string_view /*help*/) override {
    std::vector<std::string> names;
    for (const Alternative& kind : kinds) names.emplace_back(kind.type);
    const Key key = type < 0 ? required("type") : Key("type");
    const Value* const given = take(key, one_of_words(names));
    const bool is_named = given == nullptr ? type >= 0
                                           : read_name(*given, child_pointer(pointer_, "type"), names, type,
                                                       known_name_words(*given, kinds));
    if (!is_named) {
      knows_its_fields_ = false;
      return;
    }
    const auto chosen = static_cast<std::size_t>(type);
    kinds[chosen].body(*this);
    // Here rather than in finish(): the other alternatives live in the caller.
    const std::vector<const Member*> unknown = unknown_members();
    if (unknown.empty()) return;
    std::map<const Member*, std::vector<std::string>> types;
    for (const Alternative& kind : kinds) {
      const Node fields = outline(kind.body, Scope::everything);
      for (const Member* const member : unknown)
        if (fields.field(member->key, "") != nullptr) types[member].emplace_back(kind.type);
    }
    for (const auto& [member, those] : types)
      other_types_.emplace(member, fmt::format("unknown key for type {}; it belongs to type {}",
                                               in_quotes(names[chosen]), one_of_words(those)));
  }

  /// Reports the members that no description asked for.
  void finish(std::span<const std::string> also_known) {
    if (!knows_its_fields_) return;
    std::vector<std::string> offered = known_;
    offered.insert(offered.end(), also_known.begin(), also_known.end());
    for (const Member* const member : unknown_members()) {
      if (reporter_.problems.is_full()) {
        reporter_.problems.skip_one();  // a suggestion for each of a million unknown keys would take minutes
        continue;
      }
      if (std::find(also_known.begin(), also_known.end(), member->key) != also_known.end()) continue;
      reporter_.report(member->value, child_pointer(pointer_, member->key), unknown_key(*member, offered));
    }
  }

 private:
  const Object& members() const { return *object_.get_if<Object>(); }

  /// The value of a key, noted as known. Null if it is absent, which is reported where it is required.
  const Value* take(const Key& key, std::string_view expected) {
    known_.emplace_back(key.name);
    const Value* const given = find(members(), key.name);
    if (given != nullptr && !given->is<Removed>()) return given;
    if (key.is_required) {
      reporter_.report(given != nullptr ? *given : object_, child_pointer(pointer_, key.name),
                       fmt::format("expected {}, got nothing", expected));
    }
    return nullptr;
  }
  /// The mark of a patch that took the key away, or null.
  const Value* removal(std::string_view key) const {
    const Value* const given = find(members(), key);
    return given != nullptr && given->is<Removed>() ? given : nullptr;
  }
  template <class Take>
  void read_leaf(const Key& key, const std::string& expected, const Take& take_value) {
    const Value* const given = take(key, expected);
    if (given != nullptr && !take_value(*given)) {
      reporter_.expected(*given, child_pointer(pointer_, key.name), expected);
    }
  }
  /// The list at the key; null, and noted if something else is there, unless it has an accepted length.
  const Array* take_array(const Key& key, const std::string& expected, const Range& length) {
    const Value* const given = take(key, expected);
    if (given == nullptr) return nullptr;
    const Array* const array = given->get_if<Array>();
    if (array != nullptr && contains(length, static_cast<double>(array->size()))) return array;
    reporter_.expected(*given, child_pointer(pointer_, key.name), expected);
    return nullptr;
  }
  /// The list at the key, if it has elements and each of them was taken; else null.
  template <class Item, class Take>
  const Array* read_list(const Key& key, std::string_view noun, std::string_view one, const Range& each,
                         const Range& length, std::vector<Item>& value, const Take& take_value) {
    const std::string expected = list_words(noun, each, length);
    const Array* const array = take_array(key, expected, length);
    if (array == nullptr) return nullptr;
    const std::string pointer = child_pointer(pointer_, key.name);
    value.assign(array->size(), Item{});
    bool is_taken = !array->empty();
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (take_value((*array)[i], value[i])) continue;
      is_taken = false;
      reporter_.expected((*array)[i], child_pointer(pointer, i), std::string(one) + range_words(each));
    }
    return is_taken ? array : nullptr;
  }
  static bool take_integer(const Value& given, const Range& range, std::int64_t& value) {
    const std::optional<std::int64_t> integer = as_integer(given);
    const bool fits = integer && contains(range, static_cast<long double>(*integer));
    if (fits) value = *integer;
    return fits;
  }
  static bool take_number(const Value& given, const Range& range, double& value) {
    const std::optional<double> number = as_number(given);
    const bool fits = number && contains(range, *number);
    if (fits) value = *number;
    return fits;
  }
  static bool take_text(const Value& given, std::string& value) {
    const std::string* const text = given.get_if<std::string>();
    const bool fits = text != nullptr && !has_zero_character(*text);
    if (fits) value = *text;
    return fits;
  }
  /// The alternative that is meant by a name in the literature; empty if there is none.
  static std::string known_name_words(const Value& given, std::span<const Alternative> kinds) {
    const std::string* const text = given.get_if<std::string>();
    for (const Alternative& kind : kinds)
      for (const KnownName& known : kind.known_names)
        if (text != nullptr && *text == known.name)
          return fmt::format("; that is type {} with {}", in_quotes(kind.type), known.settings);
    return {};
  }
  /// `hint` follows the error of an unknown name; without it, the nearest name is suggested.
  bool read_name(const Value& given, const std::string& pointer, const std::vector<std::string>& names, int& index,
                 std::string hint = "") {
    const std::string* const text = given.get_if<std::string>();
    const auto place = text == nullptr ? names.end() : std::find(names.begin(), names.end(), *text);
    if (place != names.end()) {
      index = static_cast<int>(place - names.begin());
      return true;
    }
    if (hint.empty() && text != nullptr) hint = suggestion(*text, names);
    reporter_.report(given, pointer,
                     fmt::format("expected {}, got {}{}", one_of_words(names), value_words(given), hint));
    return false;
  }
  /// Sets the bit of a name that was not named before.
  void add_name(const Value& given, const std::string& pointer, const std::vector<std::string>& names,
                unsigned& value) {
    int index = 0;
    if (!read_name(given, pointer, names, index)) return;
    const unsigned bit = 1U << static_cast<unsigned>(index);
    if ((value & bit) != 0)
      reporter_.report(given, pointer, fmt::format("expected each name once, got {} again", value_words(given)));
    value |= bit;
  }
  void read_object(const Value* given, std::string pointer, const Body& body, std::string_view expected = "an object") {
    if (given != nullptr && !given->is<Object>()) {
      reporter_.expected(*given, pointer, expected);
      return;
    }
    // An absent object is visited as an empty one: keys in it may be required.
    const Value empty{Object{}, object_.origin, object_.order};
    Reader inner(reporter_, given != nullptr ? *given : empty, std::move(pointer));
    body(inner);
    inner.finish({});
  }
  void read_elements(const Array& array, const std::string& pointer, const List& value) {
    value.resize(0);  // elements of the default list must not remain
    value.resize(array.size());
    for (std::size_t i = 0; i < array.size(); ++i) {
      read_object(&array[i], child_pointer(pointer, i), [&](Describer& inner) { value.element(inner, i); });
    }
  }
  std::vector<const Member*> unknown_members() const {
    std::vector<const Member*> unknown;
    for (const Member& member : members()) {
      if (std::find(known_.begin(), known_.end(), member.key) == known_.end()) unknown.push_back(&member);
    }
    return unknown;
  }
  std::string unknown_key(const Member& member, std::span<const std::string> offered) const {
    if (const auto other = other_types_.find(&member); other != other_types_.end()) return other->second;
    if (offered.empty()) return "unknown key; expected an empty object";
    return unknown_key_words(member.key, offered);
  }

  const ProblemReporter& reporter_;
  const Value& object_;
  std::string pointer_;
  std::vector<std::string> known_;
  std::map<const Member*, std::string> other_types_;  // what to say of keys of other alternatives
  bool knows_its_fields_ = true;                      // no: its type is unknown
};

}  // namespace

void ProblemReporter::report(const Value& culprit, std::string_view pointer, std::string_view message) const {
  problems.add(culprit.order, fmt::format("{}: {}", source.where(culprit.origin, pointer), message));
}

void ProblemReporter::expected(const Value& culprit, std::string_view pointer, std::string_view what) const {
  const Real* const real = culprit.get_if<Real>();
  const bool is_large = real != nullptr && std::abs(real->value) >= max_exact_integer &&
                        (what == "an integer" || what.starts_with("an integer >"));
  const std::string* const text = culprit.get_if<std::string>();
  const bool has_zero = text != nullptr && has_zero_character(*text) && what == "a string";
  constexpr double too_large = 9223372036854775808.0;  // 2^63
  const char* const why = is_large && std::abs(real->value) >= too_large ? " (which does not fit into 64 bits)"
                          : is_large ? " (beyond 2^53, integers must be written in digits only)"
                          : has_zero ? " (which has a zero character)"
                                     : "";
  report(culprit, pointer, fmt::format("expected {}, got {}{}", what, value_words(culprit), why));
}

void read_value(const Value& root, const Source& source, Problems& problems, const Describer::Body& body,
                std::span<const std::string> also_known) {
  const ProblemReporter reporter{source, problems};
  Reader reader(reporter, root, "");
  body(reader);
  reader.finish(also_known);
}

void report_duplicates(std::span<const ParsedJson::Duplicate> duplicates, const Source& source, std::uint32_t origin,
                       Problems& problems) {
  for (const ParsedJson::Duplicate& duplicate : duplicates) {
    problems.add(duplicate.order, fmt::format("{}: duplicate key; expected each key once in an object",
                                              source.where(origin, duplicate.pointer)));
  }
}

}  // namespace heddle
