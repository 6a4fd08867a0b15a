// Tables with one row for each enumerator of an enum, keyed by the enumerator. The compiler refuses a table that
// forgets an enumerator, has a row in another one's place or gives one name to two rows.
//
//   enum class Logits { gathered, transposed };
//   template <>
//   inline constexpr auto enum_names<Logits> = enum_table<Logits>({
//       {Logits::gathered, "gathered"},
//       {Logits::transposed, "transposed"},
//   });
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace heddle {

/// Whether a value of an enum has a name in the source. The compiler prints `E::a` for one that has, `(E)7` for others.
template <auto value>
consteval bool is_enumerator() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const char after = text[text.find_last_of(')') + 1];
  return !(after == '-' || (after >= '0' && after <= '9'));
}

/// The number of enumerators of an enum whose values are 0, 1, 2, ...
template <class Enum, std::size_t first = 0>
consteval std::size_t enumerator_count() {
  if constexpr (is_enumerator<static_cast<Enum>(first)>())
    return enumerator_count<Enum, first + 1>();
  else
    return first;
}

/// A row of a table: a name, or a struct, whose member `name` is its name if it has one.
template <class Enum, class Row>
struct EnumEntry {
  Enum key;
  Row row;
};

/// All enumerators, in the order of their values.
template <class Enum>
inline constexpr auto all_of = [] {
  std::array<Enum, enumerator_count<Enum>()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Enum>(i);
  return values;
}();

template <class Enum, class Row>
class EnumTable {
 public:
  static constexpr std::size_t size = enumerator_count<Enum>();

  explicit constexpr EnumTable(const std::array<Row, size>& rows) : rows_(rows) {}

  constexpr const Row& operator[](Enum key) const { return rows_.at(static_cast<std::size_t>(key)); }
  /// The rows in the order of their enumerators' values.
  constexpr std::span<const Row> rows() const { return rows_; }

 private:
  std::array<Row, size> rows_;
};

/// What is wrong with the entries of a table; empty if nothing is.
template <class Enum, class Row>
constexpr std::string_view table_mistake(std::span<const EnumEntry<Enum, Row>> entries) {
  if (entries.size() < enumerator_count<Enum>()) return "an enumerator has no row";
  if (entries.size() > enumerator_count<Enum>()) return "there are more rows than enumerators";
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (static_cast<std::size_t>(entries[i].key) != i) return "a row is not in the place of its enumerator";
  for (std::size_t i = 0; i < entries.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      bool is_equal = false;
      if constexpr (requires(const Row& row) { std::string_view(row.name); })
        is_equal = entries[i].row.name == entries[k].row.name;
      else if constexpr (std::is_same_v<Row, std::string_view>)
        is_equal = entries[i].row == entries[k].row;
      if (is_equal) return "two rows have the same name";
    }
  return {};
}

/// The table of these entries. A mistake is a compile error at the `throw`, which shows the entries.
template <class Enum, class Row = std::string_view, std::size_t n>
consteval EnumTable<Enum, Row> enum_table(const EnumEntry<Enum, Row> (&entries)[n]) {
  static_assert(n == enumerator_count<Enum>(), "the table needs one row for each enumerator");
  const std::string_view mistake = table_mistake<Enum, Row>(entries);
  if (!mistake.empty()) throw mistake;
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return EnumTable<Enum, Row>({entries[i].row...});
  }
  (std::make_index_sequence<n>());
}

/// The names of an enum's values, as configurations and messages write them: specialised for each enum that has names.
template <class Enum>
struct NoNames;
template <class Enum>
inline constexpr NoNames<Enum> enum_names;

template <class Enum>
constexpr std::string_view name_of(Enum value) {
  return enum_names<Enum>[value];
}

}  // namespace heddle
