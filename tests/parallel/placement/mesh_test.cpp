#include "parallel/placement/mesh.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/communicator/shard.h"
#include "parallel/world.h"
#include "tests/support/ranks.h"

namespace heddle::test {

TEST_CASE("shards follow InsightFace's formula: contiguous, the first ones longer, empty when there are too many") {
  static_assert(shard(10, 4, 0) == IndexRange{0, 3});
  static_assert(shard(10, 4, 2) == IndexRange{6, 2});
  for (const std::int64_t total : {0, 1, 2, 7, 10, 1000})
    for (const std::int64_t parts : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const IndexRange range = shard(total, parts, i);
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
  CHECK(mesh.coordinates(12)[Axis::dp] == 1);
  CHECK_THROWS_WITH_AS(mesh.coordinates(12)[Axis::copies], "a rank has no coordinate along copies", Error);
}

TEST_CASE("ranks over some axes differ along these only") {
  const Mesh mesh(2, 3, 2);
  const int rank = mesh.rank({1, 2, 1});
  CHECK(mesh.ranks_over({}, rank) == std::vector{rank});
  CHECK(mesh.ranks_over({Axis::dp}, rank) == std::vector{mesh.rank({0, 2, 1}), rank});
  CHECK(mesh.ranks_over({Axis::tp, Axis::dp}, rank) ==
        std::vector{mesh.rank({0, 2, 0}), mesh.rank({0, 2, 1}), mesh.rank({1, 2, 0}), rank});
  CHECK(mesh.ranks_over({Axis::dp, Axis::pp, Axis::tp}, rank).size() == 12);
}

TEST_CASE("the first rank over some axes is the first of the ranks over them") {
  for (const Mesh& mesh : {Mesh(2, 3, 2), Mesh(2, 4, 2, 2), Mesh(1, 4, 1, 2)})
    for (unsigned index = 0; index < AxisSet::count; ++index)
      for (int rank = 0; rank < mesh.size(); ++rank)
        CHECK(mesh.first_over(AxisSet::of_index(index), rank) ==
              mesh.ranks_over(AxisSet::of_index(index), rank).front());
}

TEST_CASE("the two copies of a stage are on ranks that are each other's mirror image along pp") {
  const Mesh mesh(2, 4, 2, 2);
  CHECK(mesh.size() == 16);
  CHECK(mesh.size(Axis::copies) == 2);
  CHECK(mesh.size({Axis::dp, Axis::copies}) == 4);
  CHECK(mesh.size({Axis::pp, Axis::copies}) == 4);
  const int rank = mesh.rank({1, 3, 0});
  CHECK(mesh.ranks_over({Axis::copies}, rank) == std::vector{mesh.rank({1, 0, 0}), rank});
  CHECK(mesh.ranks_over({Axis::dp, Axis::copies}, rank) ==
        std::vector{mesh.rank({0, 0, 0}), mesh.rank({0, 3, 0}), mesh.rank({1, 0, 0}), rank});
  CHECK(mesh.ranks_over({Axis::pp, Axis::copies}, rank) == mesh.ranks_over({Axis::pp}, rank));
  CHECK(Mesh(1, 4).ranks_over({Axis::copies}, 3) == std::vector{3});
  CHECK_THROWS_WITH_AS(Mesh(1, 3, 1, 2),
                       "mesh: expected 1 copy of each stage, or 2 with an even number of ranks along pp, got 2 with 3",
                       InputError);
  CHECK_THROWS_AS(Mesh(1, 4, 1, 3), InputError);
}

TEST_CASE("sets of axes are equal whatever the order, and print in the mesh's") {
  CHECK(AxisSet{Axis::tp, Axis::dp} == AxisSet{Axis::dp, Axis::tp});
  CHECK(to_string(AxisSet{Axis::tp, Axis::dp}) == "dp x tp");
  CHECK(to_string(AxisSet{}) == "no axis");
  CHECK(Mesh(2, 1, 3).larger_than_one({Axis::dp, Axis::pp}) == AxisSet{Axis::dp});
}

TEST_CASE("a rank has one communicator for each part of the mesh, and equal groups are the same one") {
  WorldOptions options = test::ranks(12);
  options.mesh = Mesh(2, 3, 2);
  run_ranks(options, [](Rank& rank) {
    const Mesh::Coordinates at = rank.coordinates;
    for (const Axis axis : all_axes) {
      CHECK(rank.along(axis).size() == rank.mesh.size(axis));
      CHECK(rank.along(axis).rank() == at[axis]);
    }
    CHECK(rank.over({Axis::pp, Axis::tp}).rank() == at.pp * 2 + at.tp);
    CHECK(&rank.over({Axis::pp, Axis::tp}) == &rank.over({Axis::tp, Axis::pp}));
    CHECK(&rank.over({Axis::dp, Axis::pp, Axis::tp}) == &rank.world);
    CHECK(rank.over({}).size() == 1);
    // The members: their world ranks add up.
    const Tensor total =
        rank.over({Axis::dp, Axis::tp}).all_reduce(Tensor::full(rank.device, {1}, DType::f64, rank.index));
    CHECK(total.item() == 4 * (2 * at.pp) + 2 * (0 + 6) + 2 * (0 + 1));
  });
  options.mesh = Mesh(3, 4, 1, 2);
  run_ranks(options, [](Rank& rank) {
    CHECK(&rank.over({Axis::pp, Axis::copies}) == &rank.along(Axis::pp));
    CHECK(rank.over({Axis::copies}).rank() == (rank.coordinates.pp < 2 ? 0 : 1));
    CHECK(rank.over({Axis::dp, Axis::copies}).size() == 6);
  });
  options.mesh = Mesh(1, 1, 12);
  run_ranks(options, [](Rank& rank) {
    CHECK(&rank.along(Axis::tp) == &rank.world);
    CHECK(&rank.over({Axis::dp, Axis::tp}) == &rank.world);
    CHECK(rank.along(Axis::dp).size() == 1);
  });
}

TEST_CASE("a mesh axis without ranks is an error") {
  CHECK_THROWS_WITH_AS(Mesh(2, 0, 1), "mesh: expected at least one rank along pp, got 0", InputError);
}

}  // namespace heddle::test
