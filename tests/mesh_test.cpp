#include "parallel/mesh.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/shard.h"

namespace heddle {

TEST_CASE("shards follow InsightFace's formula: contiguous, the first ones longer, empty when there are too many") {
  static_assert(shard(10, 4, 0) == ShardRange{0, 3});
  static_assert(shard(10, 4, 2) == ShardRange{6, 2});
  for (const std::int64_t total : {0, 1, 2, 7, 10, 1000})
    for (const std::int64_t parts : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const ShardRange range = shard(total, parts, i);
        CHECK(range.begin == next);
        CHECK(range.size == total / parts + (i < total % parts ? 1 : 0));
        next = range.end();
      }
      CHECK(next == total);
    }
}

TEST_CASE("the tensor axis is the fastest, and coordinates lead back to the rank") {
  const Mesh mesh(2, 3, 4);
  CHECK(mesh.size() == 24);
  CHECK(mesh.coordinates(1) == Mesh::Coordinates{0, 0, 1});
  CHECK(mesh.coordinates(4) == Mesh::Coordinates{0, 1, 0});
  CHECK(mesh.coordinates(12) == Mesh::Coordinates{1, 0, 0});
  for (int rank = 0; rank < mesh.size(); ++rank) CHECK(mesh.rank(mesh.coordinates(rank)) == rank);
  CHECK(to_string(mesh) == "dp 2 x pp 3 x tp 4");
  CHECK(to_string(Mesh(1, 1, 2)) == "tp 2");
  CHECK(to_string(Mesh()) == "1 rank");
}

TEST_CASE("ranks that differ along one axis only share their first rank along it") {
  const Mesh mesh(2, 3, 4);
  const int rank = mesh.rank({1, 2, 3});
  CHECK(mesh.first_along(Axis::dp, rank) == mesh.rank({0, 2, 3}));
  CHECK(mesh.first_along(Axis::pp, rank) == mesh.rank({1, 0, 3}));
  CHECK(mesh.first_along(Axis::tp, rank) == mesh.rank({1, 2, 0}));
}

TEST_CASE("a mesh axis without ranks is an error") {
  CHECK_THROWS_WITH_AS(Mesh(2, 0, 1), "mesh: expected at least one rank along pp, got 0", InputError);
}

}  // namespace heddle
