// The part of a parameter that a rank holds, and the placements that layers offer.
#include <doctest/doctest.h>

#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/pooling.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

LayerLayout layout_over(const Mesh& mesh, int rank, Axis axis, const LayerOption& option) {
  LayerLayout layout{.mesh = mesh, .at = mesh.coordinates(rank)};
  for (const Axis other : all_axes)
    layout.options[other] = {Parallel::replicate, option.inputs, option.output, option.parameters};
  layout.options[axis] = option;
  return layout;
}

/// The number of ranks that hold each element of the parameter.
std::vector<int> times_held(const Mesh& mesh, Axis axis, const LayerOption& option, const Shape& whole) {
  std::vector<int> times(static_cast<std::size_t>(whole.numel()));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const ParameterPart part = layout_over(mesh, rank, axis, option).part(0, whole);
    std::int64_t next = 0;
    for_each_run(part, [&](const ElementRun& run) {
      CHECK(run.held == next);
      next += run.count;
      for (std::int64_t i = 0; i < run.count; ++i) ++times[static_cast<std::size_t>(run.whole + i)];
    });
    CHECK(next == part.held_shape().numel());
  }
  return times;
}

std::string refusal(const LayerSpecPointer& layer, Parallel kind, AxisUse use, const Shape& input) {
  const auto option = layer->option(kind, use, std::span(&input, 1));
  const auto* refused = std::get_if<Refusal>(&option);
  return refused ? refused->why : "";
}

}  // namespace

TEST_CASE("the parts of a parameter cover it once, whatever dimension is cut and however unevenly") {
  const Shape whole{5, 3, 2, 7};
  for (const int ranks : {2, 3, 4})
    for (const int dimension : {0, 1, 3}) {
      const LayerOption option{Parallel::column, {}, {}, {Placement::shard(dimension)}};
      const std::vector<int> times = times_held(Mesh(1, 1, ranks), Axis::tp, option, whole);
      CHECK(std::all_of(times.begin(), times.end(), [](int t) { return t == 1; }));
    }
}

TEST_CASE("weights that are gathered before use are held in ranges of their elements") {
  const LayerOption option{Parallel::parameter, {}, {}, {Placement::replicate_partial()}};
  const std::vector<int> times = times_held(Mesh(3), Axis::dp, option, {5, 7});
  CHECK(std::all_of(times.begin(), times.end(), [](int t) { return t == 1; }));
}

TEST_CASE("layers give the exact reason why they cannot be placed") {
  const auto convolution = Convolution::spec({.in = 6, .out = 6, .groups = 3});
  const Shape image{2, 8, 8, 6};
  const AxisUse two{Axis::tp, 2};
  CHECK(refusal(convolution, Parallel::group, two, image) == "its 3 groups do not divide by the ranks");
  CHECK(refusal(convolution, Parallel::group, {Axis::tp, 3}, image).empty());
  CHECK(refusal(convolution, Parallel::column, two, image) == "it has 3 groups: only group cuts it by channels");
  const auto plain = Convolution::spec({.in = 6, .out = 3});
  CHECK(refusal(plain, Parallel::group, two, image) == "it has one group only");
  CHECK(refusal(plain, Parallel::column, {Axis::tp, 4}, image) == "its 3 output channels are fewer than the ranks");
  CHECK(refusal(plain, Parallel::row, {Axis::tp, 8}, image) == "its 6 input channels are fewer than the ranks");
  const auto depthwise = Convolution::spec({.in = 6, .out = 6, .groups = 6});
  CHECK(refusal(depthwise, Parallel::group, {Axis::tp, 4}, image).empty());
  const auto norm = BatchNorm::spec({.channels = 6});
  CHECK(refusal(norm, Parallel::group, {Axis::dp, 2}, image) ==
        "it normalises the samples of each dp rank separately unless it is synchronized");
  CHECK(refusal(norm, Parallel::group, two, image).empty());
  CHECK(refusal(norm, Parallel::group, {Axis::tp, 8}, image) == "its 6 channels are fewer than the ranks");
  CHECK(refusal(LayerNorm::spec(6), Parallel::group, two, image) == "it works on whole samples only");
  CHECK(refusal(GlobalAveragePool::spec(), Parallel::column, two, image) ==
        "each of its outputs comes from one channel: only group cuts it by channels");
  CHECK(refusal(norm, Parallel::parameter, two, image) == "its parameters are too small to be gathered");
  const Shape tokens{2, 3, 6};
  CHECK(refusal(LayerNorm::spec(6), Parallel::sequence, two, tokens).empty());
  CHECK(refusal(LayerNorm::spec(6), Parallel::sequence, two, image) == "its input has no tokens");
  CHECK(refusal(Linear::spec({.in = 6, .out = 2}), Parallel::sequence, {Axis::tp, 4}, tokens) ==
        "its 3 tokens are fewer than the ranks");
  CHECK(refusal(norm, Parallel::sequence, two, tokens) == "it works on whole samples only");
}

}  // namespace heddle::test
