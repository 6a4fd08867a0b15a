// The rows of a parameter that the optimizer rounds.
#include <doctest/doctest.h>

#include "layers/parameter.h"

namespace heddle::test::weight_rows_test {

namespace {

/// The index in the whole parameter of each element that is held, in order.
std::vector<std::int64_t> elements(const std::vector<WeightRows>& all) {
  std::vector<std::int64_t> whole;
  for (const WeightRows& rows : all) {
    CHECK(rows.held == static_cast<std::int64_t>(whole.size()));
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t c = 0; c < rows.columns; ++c) whole.push_back(rows.whole + r * rows.stride + c);
  }
  return whole;
}

std::vector<std::int64_t> expected(const ParameterPart& part) {
  std::vector<std::int64_t> whole;
  for_each_run(part, [&](const ElementRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) whole.push_back(run.whole + i);
  });
  return whole;
}

}  // namespace

TEST_CASE("rows of a weight are its held elements, few of them whatever part is held") {
  ParameterPart part = ParameterPart::all_of({40, 3, 3, 10});
  const auto check_rows = [&](std::size_t most) {
    const std::vector<WeightRows> rows = weight_rows(part);
    CHECK(elements(rows) == expected(part));
    CHECK(rows.size() <= most);
  };
  check_rows(2);  // 3 x 1024, and the rest
  part.box[0] = {7, 9};
  check_rows(1);
  part.box[0] = {7, 30};
  check_rows(2);
  part.box[3] = {4, 3};
  check_rows(1);  // three channels each
  part.elements = {100, 401};
  check_rows(3);  // its ends are parts of a row
  part.elements = {2, 0};
  check_rows(0);
  part.box[0] = {7, 0};
  part.elements.reset();
  check_rows(0);
}

}  // namespace heddle::test::weight_rows_test
