// Described structs as lines of text, and the differences between two of them.
#include "framework/description/plain_text.h"

#include <array>

#include <doctest/doctest.h>

#include "framework/tensors/dtype.h"

namespace heddle::test::plain_text_test {

namespace {

struct Part {
  std::string name = "a \"b\"\n= c";
  std::vector<double> sizes{0.1, 2};
};

void describe(Describer& d, Part& part) {
  d.field("name", part.name, "");
  d.field("sizes", part.sizes, any_number(), any_number(), "");
}

struct Whole {
  std::int64_t count = 3;
  bool has_extra = false;
  Part extra{};
  std::vector<Part> parts{{}, {"last", {}}};
  int kind = 1;
  bool of_first_kind = true;
  double of_second_kind = 1e-3;
};

void describe(Describer& d, Whole& whole) {
  d.field("count", whole.count, any_number(), "");
  d.optional_object(
      "extra", whole.has_extra, [&](Describer& inner) { describe(inner, whole.extra); }, "");
  list(d, "parts", whole.parts, any_number(), "");
  const std::array<Describer::Alternative, 2> kinds{
      {{"first", "", [&](Describer& inner) { inner.field("x", whole.of_first_kind, ""); }},
       {"second", "", [&](Describer& inner) { inner.field("x", whole.of_second_kind, any_number(), ""); }}}};
  d.object(
      "kind", [&](Describer& inner) { inner.alternatives(whole.kind, kinds, ""); }, "");
}

std::string text_of(Whole whole) {
  return plain_text([&](Describer& d) { describe(d, whole); });
}

std::string change(const Whole& before, const Whole& now, std::span<const std::string_view> except = {}) {
  const std::optional<Change> found = first_change_of_plain_text(text_of(before), text_of(now), except);
  return found ? found->key + " was " + found->before + ", is " + found->now : "nothing changed";
}

TEST_CASE("plain text has a line for each value that a struct holds, however deep") {
  CHECK(text_of({}) ==
        "count = 3\n"
        "parts.0.name = \"a \\\"b\\\"\\n= c\"\n"
        "parts.0.sizes = [0.1, 2]\n"
        "parts.1.name = \"last\"\n"
        "parts.1.sizes = []\n"
        "kind.type = \"second\"\n"
        "kind.x = 0.001\n");
}

TEST_CASE("the first change of plain text names the value and what it was and is") {
  CHECK(change({}, {}) == "nothing changed");
  CHECK(change({}, {.count = 4}) == "count was 3, is 4");
  CHECK(change({}, {.kind = 0}) == "kind.type was \"second\", is \"first\"");
  CHECK(change({}, {.parts = {{}}}) == "parts.1.name was \"last\", is nothing");
  CHECK(change({}, {.has_extra = true}) == "extra.name was nothing, is \"a \\\"b\\\"\\n= c\"");
  constexpr std::array<std::string_view, 1> count{"count"};
  CHECK(change({}, {.count = 4}, count) == "nothing changed");
  CHECK(change({}, {.count = 4, .kind = 0}, count) == "kind.type was \"second\", is \"first\"");
}

TEST_CASE("a choice among some values of an enum writes the one that is held, and refuses a value beside them") {
  constexpr std::array types{DType::f32, DType::bf16};
  const auto text = [&](DType type) { return plain_text([&](Describer& d) { choice(d, "dtype", type, types, ""); }); };
  CHECK(text(DType::bf16) == "dtype = \"bf16\"\n");
  CHECK_THROWS_WITH_AS(text(DType::i8), "dtype: i8 is none of its choices", InputError);
}

}  // namespace

}  // namespace heddle::test::plain_text_test
