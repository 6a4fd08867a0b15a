// Figures of values that floating-point numbers hardly tell apart.
#include "experiments/results/pictures/charts.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/results/pictures/chart_axis.h"

namespace heddle::test::charts_test {

namespace {

std::size_t count_of(std::string_view word, std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("an axis whose ticks are closer than the rounding of its values has few ticks") {
  const std::vector<LineSeries> lines{{.name = "loss", .points = {{0, -1e20}, {1, -1e20 + 16384}}}};
  const std::string chart = line_chart(lines, "step", "loss", 600);
  CHECK(chart.ends_with("</svg>\n"));
  CHECK(count_of("class=\"grid\"", chart) >= 1);
  CHECK(count_of("class=\"grid\"", chart) <= 7);
}

TEST_CASE("an axis has its ticks at round numbers") {
  const std::vector<LineSeries> lines{{.name = "loss", .points = {{0, 0}, {1, 6}}}};
  const std::string chart = line_chart(lines, "step", "loss", 600);
  CHECK(count_of("class=\"grid\"", chart) == 7);
  for (const char* const tick : {">0<", ">1<", ">2<", ">3<", ">4<", ">5<", ">6<"}) CHECK(count_of(tick, chart) >= 1);
}

TEST_CASE("a logarithmic axis has ticks at 1, 2 and 5 where there is room, and at powers of ten otherwise") {
  CHECK(ChartAxis(3, 60, 0, 100, true).ticks(6) == std::vector<double>{5, 10, 20, 50});
  CHECK(ChartAxis(0.5, 5e4, 0, 100, true).ticks(6) == std::vector<double>{1, 10, 100, 1000, 10'000});
  CHECK(tick_text(10'000) == "10000");
}

}  // namespace heddle::test::charts_test
