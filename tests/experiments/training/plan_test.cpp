#include <doctest/doctest.h>

#include "framework/ops/convolution.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/tiles.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/operation_cases.h"

namespace heddle::test {
namespace {

/// Live and peak bytes by category after forward and after backward.
std::vector<MemoryUse> bytes_of(const OperationCase& operation, std::string_view backend, DType dtype) {
  Device device = make_device(backend);
  const CaseGraph graph = make_graph(operation, device, dtype);
  std::vector<MemoryUse> uses{device.meter().live(), device.meter().peak()};
  graph.go_back();
  uses.push_back(device.meter().live());
  uses.push_back(device.meter().peak());
  return uses;
}

TEST_CASE("plan holds the tested backend's bytes in every category, over all operations and types") {
  for (const OperationCase& operation : operation_cases())
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      const std::vector<MemoryUse> computed = bytes_of(operation, tested_backend(), dtype);
      const std::vector<MemoryUse> plan = bytes_of(operation, "plan", dtype);
      for (std::size_t i = 0; i < computed.size(); ++i)
        CHECK_MESSAGE(plan[i].bytes == computed[i].bytes, operation.name << " in " << name_of(dtype) << ", use " << i);
    }
}

TEST_CASE("plan takes tensors that no machine could hold") {
  Device device = make_device("plan");
  const Tensor x = Tensor::zeros(device, {1LL << 30, 1LL << 20}, DType::f32);
  CHECK(device.meter().live().total() == 1LL << 52);
  CHECK_FALSE(device.has_data());
  CHECK(x.data() == nullptr);
  CHECK_THROWS_WITH_AS(x.rows(0, 1).to_doubles(), "tensor: f32[1,1048576] has no elements to read on the plan backend",
                       Error);
}

TEST_CASE("plan counts the operations of products and convolutions") {
  Device device = make_device("plan");
  const auto zeros = [&](const Shape& shape) { return Variable(Tensor::zeros(device, shape, DType::f32)); };
  double before = device.backend().flops();
  matmul(zeros({3, 5}), zeros({5, 7}));
  CHECK(device.backend().flops() - before == 2 * 3 * 5 * 7);
  before = device.backend().flops();
  conv2d(zeros({2, 8, 8, 6}), zeros({4, 3, 3, 3}), {}, {.padding = {1, 1}, .groups = 2});
  CHECK(device.backend().flops() - before == 2LL * 2 * 8 * 8 * 4 * 9 * 3);
  // A bias is one more for each element of the result.
  before = device.backend().flops();
  linear(zeros({3, 5}), zeros({7, 5}), zeros({7}));
  CHECK(device.backend().flops() - before == 2 * 3 * 5 * 7 + 3 * 7);
  before = device.backend().flops();
  conv2d(zeros({2, 8, 8, 6}), zeros({4, 1, 1, 6}), zeros({4}), {});
  CHECK(device.backend().flops() - before == 2LL * 2 * 8 * 8 * 4 * 6 + 2 * 8 * 8 * 4);
  Device cpu = make_device("cpu");
  CHECK(cpu.backend().flops() == 0);
}

TEST_CASE("plan counts operations that are more than 64 bits can count") {
  Device device = make_device("plan");
  const auto zeros = [&](const Shape& shape) { return Variable(Tensor::zeros(device, shape, DType::f32)); };
  conv2d(zeros({12, 1024, 1024, 3}), zeros({100'000, 1023, 1023, 3}), {}, {.padding = {511, 511}});
  CHECK(device.backend().flops() == 2.0 * 12 * 1024 * 1024 * 100'000 * 1023 * 1023 * 3);
  const double before = device.backend().flops();
  matmul(zeros({1'000'000, 1'000'000}), zeros({1'000'000, 10'000'000}));
  CHECK(device.backend().flops() - before == close_to(2e19));
}

/// What a loop over tiles does: products that begin and then add to a sum, and a workspace that lives for a tile.
struct TileLoop {
  Device device;
  Tensor x = Tensor::zeros(device, {3, 40}, DType::f32);
  Tensor sum = Tensor::zeros(device, {3, 40}, DType::f32);
  std::vector<std::pair<std::int64_t, std::int64_t>> walked;

  explicit TileLoop(std::string_view backend) : device(make_device(backend)) {}
  void operator()(std::int64_t begin, std::int64_t end) {
    walked.emplace_back(begin, end);
    const Tensor tile = Tensor::zeros(device, {end - begin, 40}, DType::f32);
    Tensor products = Tensor::empty(device, {3, end - begin}, DType::f32);
    gemm(x, false, tile, true, 1, 0, products);
    gemm(products, false, tile, false, 1, begin == 0 ? 0 : 1, sum);
  }
};

TEST_CASE("plan counts a loop over tiles in closed form as if it had walked them all") {
  for (const std::int64_t count : {0, 1, 7, 8, 14, 20, 21, 22, 28, 29, 700, 703}) {
    CAPTURE(count);
    TileLoop closed("plan");
    for_each_tile(closed.device, count, 7, closed);
    TileLoop whole("plan");
    for (std::int64_t begin = 0; begin < count; begin += 7) whole(begin, std::min(begin + 7, count));
    CHECK(closed.walked.size() <= 3);
    CHECK(closed.device.backend().flops() == whole.device.backend().flops());
    CHECK(closed.device.backend().seconds() == close_to(whole.device.backend().seconds()).epsilon(1e-12));
    CHECK(closed.device.meter().peak().bytes == whole.device.meter().peak().bytes);
    TileLoop computed(tested_backend());
    for_each_tile(computed.device, count, 7, computed);
    CHECK(computed.walked == whole.walked);
    TileLoop shared("plan");
    for_each_tile(shared.device, count, 7, shared, TileWork::shared);
    CHECK(shared.walked == whole.walked);
  }
}

TEST_CASE("plan walks a billion tiles at once") {
  Device device = make_device("plan");
  const Tensor x = Tensor::zeros(device, {2048, 512}, DType::f32);
  for_each_tile(device, 4'000'000'000, 4, [&](std::int64_t begin, std::int64_t end) {
    Tensor products = Tensor::empty(device, {2048, end - begin}, DType::f32);
    gemm(x, false, x.rows(0, end - begin), true, 1, 0, products);
  });
  CHECK(device.backend().flops() == 2LL * 2048 * 512 * 4'000'000'000);
  CHECK_THROWS_WITH_AS(for_each_tile(device, 1, 0, [](std::int64_t, std::int64_t) {}),
                       "tiles: expected at least 1 element per tile, got 0", Error);
}

TEST_CASE("An unknown device is refused, and the error lists the known ones") {
  CHECK_THROWS_WITH_AS(make_backend("gpu"), "unknown device 'gpu': expected one of cpu, cuda, plan", InputError);
  CHECK_THROWS_WITH_AS(make_backend("plan", {.planned = "gpu"}),
                       "unknown device 'gpu' to plan for: expected cpu or cuda", InputError);
  CHECK(backend_names().size() == 3);
  for (const char* name : {"cpu", "plan"}) CHECK(make_backend(name)->name() == name);
}

}  // namespace
}  // namespace heddle::test
