// The exact search for the nearest rows of a gallery.
#include "experiments/training/evaluation/protocol/nearest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "framework/scalars/random.h"
#include "framework/tensors/device.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

std::vector<float> drawn(std::size_t numbers, std::uint64_t stream) {
  RandomStream draws({7}, Purpose::test, 0, stream);
  std::vector<float> values(numbers);
  for (float& value : values) value = static_cast<float>(draws.normal());
  return values;
}

/// All groups of one probe, sorted as nearest_rows promises.
Neighbours plain_nearest(const UnitRows& gallery, const std::vector<std::int64_t>& starts, const UnitRows& probes,
                         std::int64_t probe, std::size_t count) {
  Neighbours all;
  for (std::size_t group = 0; group + 1 < starts.size(); ++group) {
    Neighbour best{static_cast<std::int64_t>(group), -1, -std::numeric_limits<double>::infinity()};
    for (std::int64_t row = starts[group]; row < starts[group + 1]; ++row) {
      double cosine = 0;
      for (std::size_t i = 0; i < gallery.dimension(); ++i)
        cosine += static_cast<double>(gallery.row(row)[i]) * static_cast<double>(probes.row(probe)[i]);
      if (cosine > best.cosine) best = {best.group, row, cosine};
    }
    if (best.row >= 0) all.push_back(best);
  }
  std::stable_sort(all.begin(), all.end(), [](const Neighbour& a, const Neighbour& b) {
    return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row;
  });
  all.resize(std::min(all.size(), count));
  return all;
}

void check_equal(const Neighbours& found, const Neighbours& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].group == expected[i].group);
    CHECK(found[i].row == expected[i].row);
    CHECK(found[i].cosine == expected[i].cosine);
  }
}

std::vector<std::int64_t> groups_of(std::int64_t rows, std::int64_t size) {
  std::vector<std::int64_t> starts;
  for (std::int64_t row = 0; row < rows; row += size) starts.push_back(row);
  starts.push_back(rows);
  return starts;
}

/// Compares a search with the sorted cosines of all rows.
void check_search(const std::vector<float>& values, std::size_t rows, std::int64_t group_size, std::size_t probe_count,
                  std::int64_t count) {
  const std::size_t dimension = values.size() / rows;
  Device device(make_backend("cpu", {.threads = 2}));
  RowTable table(device, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(dimension));
  table.append(std::span(values).first(3 * dimension));
  table.append(std::span(values).subspan(3 * dimension));
  const UnitRows gallery(values, rows);
  const UnitRows probes(drawn(probe_count * dimension, 1), probe_count);
  const std::vector<std::int64_t> starts = groups_of(static_cast<std::int64_t>(rows), group_size);
  const std::span<const std::int64_t> given = group_size == 1 ? std::span<const std::int64_t>() : starts;
  const std::vector<Neighbours> found = nearest_rows(table, given, probes, count);
  REQUIRE(found.size() == probe_count);
  for (std::size_t probe = 0; probe < probe_count; ++probe) {
    CAPTURE(probe);
    check_equal(found[probe], plain_nearest(gallery, starts, probes, static_cast<std::int64_t>(probe),
                                            static_cast<std::size_t>(count)));
  }
}

}  // namespace

TEST_CASE("the nearest rows of a gallery are those of a full sort, to the bit") {
  check_search(drawn(3000 * 24, 0), 3000, 1, 150, 10);
}

TEST_CASE("a gallery of several blocks, or with fewer rows than are asked for, is searched whole") {
  check_search(drawn(70'000 * 4, 0), 70'000, 1, 3, 5);
  check_search(drawn(4 * 8, 0), 4, 1, 3, 10);
}

TEST_CASE("a group of rows is as near as its nearest row, and is listed once") {
  check_search(drawn(3000 * 24, 0), 3000, 7, 40, 10);
}

TEST_CASE("among many equal rows the first ones are the nearest") {
  std::vector<float> values = drawn(8, 0);
  for (int i = 0; i < 8; ++i) values.insert(values.end(), values.begin(), values.end());  // 256 rows
  check_search(values, 256, 1, 20, 10);
  check_search(values, 256, 4, 20, 10);
}

TEST_CASE("rows that differ by less than the error of f32 products are told apart") {
  std::vector<float> values;
  for (int row = 0; row < 400; ++row)
    for (int i = 0; i < 16; ++i) values.push_back(1 + (i == row % 16 ? 2e-7F * static_cast<float>(row / 16) : 0));
  check_search(values, 400, 1, 30, 5);
}

TEST_CASE("a row without direction is near to nothing, and nothing is near to a probe without one") {
  Device device(make_backend("cpu", {}));
  RowTable table(device, 3, 2);
  table.append(std::vector<float>{0, 0, 1, 1, std::numeric_limits<float>::quiet_NaN(), 1});
  const UnitRows probes(std::vector<float>{1, 0, 0, 0}, 2);
  const std::vector<Neighbours> found = nearest_rows(table, {}, probes, 3);
  REQUIRE(found[0].size() == 1);
  CHECK(found[0][0].row == 1);
  CHECK(std::abs(found[0][0].cosine - std::sqrt(0.5)) < 1e-7);
  CHECK(found[1].empty());
}

TEST_CASE("probes of another dimension than the gallery are refused, and so are more rows than a table has") {
  Device device(make_backend("cpu", {}));
  RowTable table(device, 1, 2);
  table.append(std::vector<float>{1, 0});
  CHECK_THROWS_WITH_AS(nearest_rows(table, {}, UnitRows(std::vector<float>{1, 0, 0}, 1), 1),
                       "probes of 3 features cannot be compared with a gallery of 2", Error);
  CHECK_THROWS_WITH_AS(table.append(std::vector<float>{1, 0}),
                       "a table of 1 rows is full, or was given a part of a row of 2 numbers", Error);
}

}  // namespace heddle::test
