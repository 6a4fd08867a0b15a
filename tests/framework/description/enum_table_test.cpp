#include "framework/description/enum_table.h"

#include <array>
#include <string_view>

#include <doctest/doctest.h>

namespace heddle::test::enum_table_test {

enum class Fruit { apple, pear, quince8 };

}  // namespace heddle::test::enum_table_test

template <>
inline constexpr auto heddle::enum_names<heddle::test::enum_table_test::Fruit> =
    heddle::enum_table<heddle::test::enum_table_test::Fruit>({
        {heddle::test::enum_table_test::Fruit::apple, "an apple"},
        {heddle::test::enum_table_test::Fruit::pear, "a pear"},
        {heddle::test::enum_table_test::Fruit::quince8, "a quince"},
    });

namespace heddle::test::enum_table_test {
namespace {

using Entry = EnumEntry<Fruit, std::string_view>;

struct Price {
  std::string_view name;
  int cents;
};

std::string_view mistake_of(std::span<const Entry> entries) {
  return table_mistake<Fruit, std::string_view>(entries);
}

}  // namespace

TEST_CASE("enum tables: the compiler counts an enum's values") {
  static_assert(enumerator_count<Fruit>() == 3);
  static_assert(is_enumerator<Fruit::quince8>() && !is_enumerator<static_cast<Fruit>(3)>());
  CHECK(all_of<Fruit> == std::array{Fruit::apple, Fruit::pear, Fruit::quince8});
}

TEST_CASE("enum tables: rows are found by their enumerator") {
  constexpr auto prices = enum_table<Fruit, Price>({
      {Fruit::apple, {"apple", 30}},
      {Fruit::pear, {"pear", 40}},
      {Fruit::quince8, {"quince", 90}},
  });
  CHECK(prices[Fruit::pear].cents == 40);
  CHECK(prices.rows()[2].name == "quince");
  CHECK(name_of(Fruit::quince8) == "a quince");
}

TEST_CASE("enum tables: a forgotten, additional or misplaced row and a name given twice are mistakes") {
  const Entry apple{Fruit::apple, "apple"};
  const Entry pear{Fruit::pear, "pear"};
  const Entry quince{Fruit::quince8, "quince"};
  CHECK(mistake_of(std::array{apple, pear, quince}).empty());
  CHECK(mistake_of(std::array{apple, pear}) == "an enumerator has no row");
  CHECK(mistake_of(std::array{apple, pear, quince, pear}) == "there are more rows than enumerators");
  CHECK(mistake_of(std::array{apple, quince, pear}) == "a row is not in the place of its enumerator");
  CHECK(mistake_of(std::array{apple, pear, Entry{Fruit::quince8, "pear"}}) == "two rows have the same name");
  const std::array<EnumEntry<Fruit, Price>, 3> twice{
      {{Fruit::apple, {"apple", 1}}, {Fruit::pear, {"pear", 2}}, {Fruit::quince8, {"apple", 3}}}};
  CHECK(table_mistake<Fruit, Price>(twice) == "two rows have the same name");
}

}  // namespace heddle::test::enum_table_test
