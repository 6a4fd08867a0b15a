// The first GPU: its memory and matrix products, convolutions, training steps of backbones, and the exact head beside
// its products alone. Single operations are called many times in a row, so that the time to launch them is hidden.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "experiments/program/bench/backbone.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/head_steps.h"
#include "experiments/program/bench/machine.h"
#include "experiments/program/study_checks.h"
#include "experiments/training/measurements/median.h"
#include "framework/ops/convolution.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr double tera = 1e12;
constexpr std::int64_t million = 1'000'000;
constexpr std::array<DType, 2> dtypes{DType::f32, DType::bf16};

class GpuBench {
 public:
  explicit GpuBench(const BenchSettings& settings) : settings_(settings), rows_(settings) {}

  std::vector<BenchRow> run() {
    on_gpu([this](Rank& rank) { memory(rank.device); });
    for (const DType dtype : dtypes) {
      on_gpu([&](Rank& rank) { products(rank.device, dtype); });
      on_gpu([&](Rank& rank) { convolutions(rank.device, dtype); });
    }
    for (const DType dtype : dtypes) {
      backbone(ModelType::resnet18, "resnet18", dtype);
      backbone(ModelType::iresnet50, "iresnet50", dtype);
      backbone(ModelType::vit_t, "vit_t", dtype);
    }
    for (const std::int64_t millions : {1, 5, 63}) head(millions * million);
    return rows_.take();
  }

 private:
  void on_gpu(const std::function<void(Rank&)>& body) {
    run_ranks({.backend = "cuda", .backend_options = {.threads = settings_.threads}}, body);
  }

  /// Normal deviates: products of equal numbers draw less power, and are faster.
  static Tensor drawn(Device& device, const Shape& shape, DType dtype) {
    Tensor x = Tensor::empty(device, shape, dtype);
    device.backend().training().fill_normal(x, {.key = {}, .purpose = Purpose::test}, 0, 0, 1);
    return x;
  }

  void add(BenchRow row) { rows_.add(std::move(row)); }

  std::optional<double> peer_of(std::vector<std::string> work, DType dtype) const {
    work.insert(work.end(), {std::string(name_of(dtype)), "cuda", fmt::format("{}", settings_.threads)});
    return peer_seconds(settings_, work);
  }

  /// Bytes read and written.
  void memory(Device& device) {
    const Tensor from = Tensor::full(device, {std::int64_t{1} << 28}, DType::f32, 1);
    Tensor to = Tensor::empty_like(from);
    const double seconds = min_seconds(device, [&] { to.copy_from(from); });
    add({.name = "memory copy", .value = 2 * static_cast<double>(from.bytes()) / seconds / giga, .unit = "GB/s"});
  }

  void products(Device& device, DType dtype) {
    struct Case {
      std::int64_t m, n, k;
    };
    for (const auto& [m, n, k] : {Case{4096, 4096, 4096}, Case{8192, 8192, 8192}, Case{512, 32768, 512}}) {
      const Tensor a = drawn(device, {m, k}, dtype);
      const Tensor b = drawn(device, {n, k}, dtype);
      Tensor c = Tensor::full(device, {m, n}, dtype, 0);
      const double seconds = min_seconds(device, [&] { gemm(a, false, b, true, 1, 0, c); });
      const double flops = 2.0 * static_cast<double>(m * n * k);
      const std::optional<double> peer =
          peer_of({"matmul", fmt::format("{}", m), fmt::format("{}", n), fmt::format("{}", k)}, dtype);
      add({.name = fmt::format("matmul {} x {} x {}, {}", m, n, k, name_of(dtype)),
           .value = flops / seconds / tera,
           .unit = "TFLOP/s",
           .peer = peer ? std::optional(flops / *peer / tera) : std::nullopt});
    }
  }

  /// 3 x 3 convolutions of the first and third group of a ResNet: forward, and both gradients.
  void convolutions(Device& device, DType dtype) {
    constexpr std::int64_t batch = 128;
    struct Geometry {  // clang 14 has no lambdas that capture structured bindings
      std::int64_t size;
      std::int64_t channels;
    };
    for (const Geometry& shape : {Geometry{56, 64}, Geometry{14, 256}}) {
      const auto gradient = std::make_shared<Accumulator>(Category::gradients);
      const auto weight_gradient = std::make_shared<Accumulator>(Category::gradients);
      const Variable x =
          Variable::input(drawn(device, {batch, shape.size, shape.size, shape.channels}, dtype), gradient);
      const Variable weight =
          Variable::parameter(drawn(device, {shape.channels, 3, 3, shape.channels}, dtype), weight_gradient);
      const auto forward = [&] { return conv2d(x, weight, {}, {.padding = {1, 1}}); };
      const double flops =
          2.0 * static_cast<double>(batch * shape.size * shape.size * shape.channels * shape.channels * 9);
      const double alone = min_seconds(device, [&] { (void)forward(); });
      const double both = min_seconds(device, [&] {
        const Variable y = forward();
        backward({{y, y.value()}});
        gradient->clear();
        weight_gradient->clear();
      });
      const auto add_row = [&](const char* part, double parts, double seconds) {
        add({.name = fmt::format("convolution 3 x 3, {0} x {0} x {1}, batch {2}, {3}, {4}", shape.size, shape.channels,
                                 batch, name_of(dtype), part),
             .value = parts * flops / seconds / tera,
             .unit = "TFLOP/s"});
      };
      add_row("forward", 1, alone);
      add_row("backward", 2, both - alone);
    }
  }

  /// The weights are f32.
  void backbone(ModelType type, const char* name, DType dtype) {
    constexpr std::int64_t batch = 128;
    on_gpu([&](Rank& rank) {
      Backbone backbone(type, batch, rank, dtype);
      constexpr double budget = 3;
      const double seconds = min_seconds(
          rank.device, [&] { backbone.step(); }, budget);
      const std::optional<double> peer = peer_of({"step", name, fmt::format("{}", batch)}, dtype);
      add({.name = fmt::format("{} step, 112 x 112, batch {}, {}", name, batch, name_of(dtype)),
           .value = batch / seconds,
           .unit = "images/s",
           .peer = peer ? std::optional(batch / *peer) : std::nullopt});
      add({.name = "  largest memory", .value = static_cast<double>(peak_bytes(rank)) / giga, .unit = "GB"});
    });
  }

  /// PyTorch keeps its logits, and weights in f32: it has no room for more classes.
  std::optional<double> peer_head(const HeadCase& c) const {
    if (c.config.classes > 5 * million) return {};
    const std::optional<double> seconds = peer_step(settings_, c, 1, "cuda");
    return seconds ? std::optional(*seconds * 1e3) : std::nullopt;
  }

  /// Exact, fused, state in bf16; the limit is the rate of its products alone on tiles of the same size.
  void head(std::int64_t classes) {
    HeadCase c = in_bf16(
        fused_case(fmt::format("head, fused, exact, bf16, {}M classes, batch 512", classes / million), classes));
    c.config.tile = rows_of_gpu_tile;
    c.batch = 512;
    try {
      on_gpu([&](Rank& rank) {
        HeadSteps steps(c, rank);
        steps.step();
        std::vector<double> seconds;
        for (int i = 0; i < c.steps; ++i) {
          rank.device.backend().settle();
          const double begin = rank.clock.now();
          steps.step();
          rank.device.backend().settle();
          seconds.push_back(rank.clock.now() - begin);
        }
        const double step = median(seconds);
        add({.name = c.name, .value = step * 1e3, .unit = "ms", .peer = peer_head(c)});
        add({.name = fmt::format("  its {} products", c.products()),
             .value = c.flops() / step / tera,
             .unit = "TFLOP/s",
             .limit = tile_rate(c, c.config.tile, rank) / tera});
        add({.name = "  largest memory", .value = static_cast<double>(peak_bytes(rank)) / giga, .unit = "GB"});
      });
    } catch (const OutOfMemory&) {
      add({.name = c.name + ": left out", .value = static_cast<double>(c.state_bytes()) / giga, .unit = "GB"});
    }
  }

  static std::int64_t peak_bytes(const Rank& rank) { return rank.device.meter().peak().total(); }

  const BenchSettings& settings_;
  BenchRows rows_;
};

}  // namespace

std::vector<BenchRow> bench_gpu(const BenchSettings& settings) {
  return GpuBench(settings).run();
}

}  // namespace heddle
