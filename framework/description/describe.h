// Each configuration struct has one description. Describers visit it to make the reader, the JSON schema, `heddle help`
// and the error messages, so that a new option is one line in a `describe` function.
//
//   void describe(Describer& d, EmaConfig& c) {
//     d.field("decay", c.decay, from_to_below(0, 1), "factor of the average in each step");
//     d.field("warm_up", c.warm_up, "whether the decay is at most (1 + step) / (10 + step)");
//   }
//
// The value that a field holds when `describe` is called is its default. A `describe` function has no other effect: it
// is called several times for one struct, and also for alternatives that are not chosen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <vector>

#include "framework/description/enum_table.h"
#include "framework/error.h"

namespace heddle {

/// 2^53. Every integer up to here is a double, so that bounds of integers may be doubles.
inline constexpr double max_exact_integer = 0x1p53;

/// The numbers that a field accepts.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool excludes_minimum = false;
  bool excludes_maximum = false;
};

inline Range any_number() {
  return {};
}
inline Range at_least(double minimum) {
  return {.minimum = minimum};
}
inline Range above(double minimum) {
  return {.minimum = minimum, .excludes_minimum = true};
}
inline Range between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}
/// minimum <= x < maximum.
inline Range from_to_below(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .excludes_maximum = true};
}

/// A name of a choice that files of earlier versions use, and its present name.
struct FormerName {
  std::string_view former;
  std::string_view now;
};

/// What the first number of a list must be, beyond the bounds of each: one of `values`, which messages call `words`.
struct FirstNumber {
  std::span<const std::int64_t> values{};
  std::string_view words{};
};

/// A field's name. `required("path")` has no default: leaving it out is an error. A choice also reads its former names,
/// of which "true" and "false" are those of a flag; a list of integers may restrict its first number. `integer` is what
/// messages call the value of an integer field: where it has a unit, `a number of bytes`.
struct Key {
  Key(const char* text) : name(text) {}  // NOLINT(google-explicit-constructor): reads as a plain name
  std::string_view name;
  bool is_required = false;
  std::span<const FormerName> former{};
  FirstNumber first{};
  std::string_view integer = "an integer";
};
inline Key required(const char* name) {
  Key key(name);
  key.is_required = true;
  return key;
}

class Describer {
 public:
  using Body = std::function<void(Describer&)>;
  /// A name in the literature for an alternative with some of its settings, which is no type of its own.
  struct KnownName {
    std::string_view name;
    std::string_view settings;
  };
  /// One alternative of a tagged union: the value of "type" and the fields beside it.
  struct Alternative {
    std::string_view type;
    std::string_view help;
    Body body;
    std::span<const KnownName> known_names{};  ///< for the error of a type that is one of them
  };
  /// A list of objects, as `list` below makes it from a vector of structs.
  struct List {
    std::function<std::size_t()> size;
    std::function<void(std::size_t)> resize;  ///< new elements hold their defaults
    std::function<void(Describer&, std::size_t index)> element;
    Body blank;                ///< describes an element that holds its defaults
    std::type_index identity;  ///< identifies the element's type, so that recursive lists come to an end
  };

  virtual ~Describer() = default;
  virtual void field(Key key, bool& value, std::string_view help) = 0;
  virtual void field(Key key, std::int64_t& value, Range range, std::string_view help) = 0;
  virtual void field(Key key, double& value, Range range, std::string_view help) = 0;
  virtual void field(Key key, std::string& value, std::string_view help) = 0;
  /// A list of integers: `each` bounds the elements, `length` their number.
  virtual void field(Key key, std::vector<std::int64_t>& value, Range each, Range length, std::string_view help) = 0;
  virtual void field(Key key, std::vector<double>& value, Range each, Range length, std::string_view help) = 0;
  virtual void field(Key key, std::vector<std::string>& value, Range length, std::string_view help) = 0;
  /// One of `names`; `value` is the index of the chosen one.
  virtual void choice(Key key, int& value, std::span<const std::string_view> names, std::string_view help) = 0;
  /// Some of `names`, each at most once, as a list; or `all`, which stands for all of them. Bit i of `value` stands for
  /// names[i]. The schema refuses fewer than `least`; the reader leaves these to the check of the struct, which says
  /// what they would mean.
  virtual void subset(Key key, unsigned& value, std::span<const std::string_view> names, std::string_view all,
                      std::size_t least, std::string_view help) = 0;
  /// A nested object.
  virtual void object(Key key, const Body& body, std::string_view help) = 0;
  /// A nested object that may be absent. `present` says whether it is there by default, and then whether it was given.
  /// `body` describes it.
  virtual void optional_object(Key key, bool& present, const Body& body, std::string_view help) = 0;
  /// A list of nested objects.
  virtual void list(Key key, const List& value, Range length, std::string_view help) = 0;
  /// A nested object, or a list of such objects. The object alone is a list of one, and a list of one is written as the
  /// object. `value` has at least one element.
  virtual void object_or_list(Key key, const List& value, Range length, std::string_view help) = 0;
  /// The object that is being described has a "type", which decides what further fields it has. `type` is the index of
  /// the chosen alternative, -1 if there is no default. At most once per object.
  virtual void alternatives(int& type, std::span<const Alternative> alternatives, std::string_view help) = 0;
};

/// One of an enum's names (`enum_names`).
template <class Enum>
void choice(Describer& d, Key key, Enum& value, std::string_view help) {
  int index = static_cast<int>(value);
  d.choice(key, index, enum_names<Enum>.rows(), help);
  value = static_cast<Enum>(index);
}

/// The name of one of `values`, which are some of an enum's. InputError if the default is none of them.
template <class Enum>
void choice(Describer& d, Key key, Enum& value, std::type_identity_t<std::span<const Enum>> values,
            std::string_view help) {
  std::vector<std::string_view> names;
  for (const Enum each : values) names.push_back(name_of(each));
  const auto found = std::find(values.begin(), values.end(), value);
  if (found == values.end()) fail<InputError>("{}: {} is none of its choices", key.name, name_of(value));
  auto index = static_cast<int>(found - values.begin());
  d.choice(key, index, names, help);
  value = values[static_cast<std::size_t>(index)];
}

/// The name of one of `values`, or `none` for an empty optional.
template <class Enum>
void choice(Describer& d, Key key, std::optional<Enum>& value, std::string_view none, std::span<const Enum> values,
            std::string_view help) {
  std::vector<std::string_view> names{none};
  int index = 0;
  for (const Enum each : values) {
    if (value == each) index = static_cast<int>(names.size());
    names.push_back(name_of(each));
  }
  d.choice(key, index, names, help);
  value = index == 0 ? std::nullopt : std::optional(values[static_cast<std::size_t>(index) - 1]);
}

/// Any name of an enum, or `none` for an empty optional.
template <class Enum>
void choice(Describer& d, Key key, std::optional<Enum>& value, std::string_view none, std::string_view help) {
  choice(d, key, value, none, std::span<const Enum>(all_of<Enum>), help);
}

/// A row in the table of a tagged union's alternatives. A row may have more members, such as a function that makes what
/// the alternative describes.
template <class Config>
struct AlternativeRow {
  std::string_view name;  ///< the value of "type"
  std::string_view help;
  void (*describe)(Describer&, Config&);
};

/// The alternatives of a table, which has `name`, `help` and `describe` in each row. `common` describes the fields that
/// follow those of every alternative.
template <class Enum, class Row, class Config>
std::vector<Describer::Alternative> alternatives_of(
    const EnumTable<Enum, Row>& table, Config& config,
    std::type_identity_t<void (*)(Describer&, Config&)> common = nullptr) {
  std::vector<Describer::Alternative> kinds;
  for (const Row& row : table.rows())
    kinds.push_back({row.name, row.help, [&config, describe = row.describe, common](Describer& inner) {
                       describe(inner, config);
                       if (common != nullptr) common(inner, config);
                     }});
  return kinds;
}

/// Describes one of them. An empty optional has no default: leaving out "type" is an error.
template <class Type, class Enum, class Row, class Config>
void alternatives(Describer& d, Type& type, const EnumTable<Enum, Row>& table, Config& config, std::string_view help,
                  std::type_identity_t<void (*)(Describer&, Config&)> common = nullptr) {
  const std::vector<Describer::Alternative> kinds = alternatives_of(table, config, common);
  int index = -1;
  if constexpr (std::is_same_v<Type, Enum>)
    index = static_cast<int>(type);
  else if (type)
    index = static_cast<int>(*type);
  d.alternatives(index, kinds, help);
  if (index >= 0) type = static_cast<Enum>(index);
}

/// A nested object that has no fields besides the alternatives of a table.
template <class Enum, class Row, class Config>
void tagged(Describer& d, Key key, Enum& type, const EnumTable<Enum, Row>& table, Config& config, std::string_view help,
            std::type_identity_t<void (*)(Describer&, Config&)> common = nullptr) {
  d.object(
      key,
      [&](Describer& inner) {
        alternatives(inner, type, table, config, "the kind, which decides the other keys", common);
      },
      help);
}

/// A nested struct that has its own `describe`.
template <class Struct>
void object(Describer& d, Key key, Struct& value, std::string_view help) {
  d.object(
      key, [&value](Describer& inner) { describe(inner, value); }, help);
}

/// A nested struct that has its own `describe`, or a list of such structs: the first, and those that follow it.
template <class Struct>
void object_or_list(Describer& d, Key key, Struct& first, std::vector<Struct>& further, Range length,
                    std::string_view help) {
  const Describer::List view{
      .size = [&further] { return 1 + further.size(); },
      .resize =
          [&first, &further](std::size_t size) {
            if (size == 0) first = Struct{};
            further.resize(size == 0 ? 0 : size - 1);
          },
      .element = [&first, &further](Describer& inner,
                                    std::size_t index) { describe(inner, index == 0 ? first : further[index - 1]); },
      .blank =
          [](Describer& inner) {
            Struct blank{};
            describe(inner, blank);
          },
      .identity = typeid(Struct),
  };
  d.object_or_list(key, view, length, help);
}

/// A list of structs that have their own `describe`.
template <class Struct>
void list(Describer& d, Key key, std::vector<Struct>& value, Range length, std::string_view help) {
  const Describer::List view{
      .size = [&value] { return value.size(); },
      .resize = [&value](std::size_t size) { value.resize(size); },
      .element = [&value](Describer& inner, std::size_t index) { describe(inner, value[index]); },
      .blank =
          [](Describer& inner) {
            Struct blank{};
            describe(inner, blank);
          },
      .identity = typeid(Struct),
  };
  d.list(key, view, length, help);
}

}  // namespace heddle
