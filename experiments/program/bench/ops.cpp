// Single operations: matrix products against the rate of multiply-adds, the two halves of a transformer's block against
// their products alone, convolutions by Winograd's method and direct ones, operations that only move memory against its
// bandwidth, and what an operation costs besides its kernel.
#include <fmt/format.h>

#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/machine.h"
#include "framework/backends/bare_product.h"
#include "framework/ops/attention.h"
#include "framework/ops/convolution.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/normalization.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

class OpsBench {
 public:
  explicit OpsBench(const BenchSettings& settings)
      : settings_(settings), device_(make_backend("cpu", {.threads = settings.threads})), rows_(settings) {
    device_.backend().enter_thread();
  }

  std::vector<BenchRow> run() {
    const double flops = peak_flops(settings_.threads);
    add({.name = "multiply-adds in registers", .value = flops * 1e-9, .unit = "GFLOP/s"});
    gemm_rate("matmul 2048 x 2048 x 2048", 2048, 2048, 2048, flops);
    gemm_rate("matmul 256 x 512 x 100000", 256, 100000, 512, flops);
    transformer_rates();
    convolution_rates(flops);
    const double bandwidth = peak_bandwidth(settings_.threads);
    add({.name = "memory copy", .value = bandwidth * 1e-9, .unit = "GB/s"});
    batch_norm_rates(bandwidth);
    class_row_times();
    if (device_.backend().class_rows().can_step_into_target()) class_row_saves();
    overhead();
    return rows_.take();
  }

 private:
  void add(BenchRow row) { rows_.add(std::move(row)); }

  Tensor ones(const Shape& shape) { return Tensor::full(device_, shape, DType::f32, 1); }

  void gemm_rate(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, double peak) {
    const Tensor a = ones({m, k});
    const Tensor b = ones({n, k});
    Tensor c = ones({m, n});
    const double seconds = min_seconds([&] { gemm(a, false, b, true, 1, 0, c); });
    const double flops = 2.0 * static_cast<double>(m * n * k);
    const std::optional<double> peer =
        peer_seconds(settings_, {"matmul", fmt::format("{}", m), fmt::format("{}", n), fmt::format("{}", k), "f32",
                                 "cpu", fmt::format("{}", settings_.threads)});
    add({.name = name,
         .value = flops / seconds * 1e-9,
         .unit = "GFLOP/s",
         .limit = peak * 1e-9,
         .peer = peer ? std::optional(flops / *peer * 1e-9) : std::nullopt});
  }

  /// The halves of a block of vit_t at 112 x 112: 64 samples of 144 tokens and 256 features. The limit is the rate of
  /// their products alone, one after the other.
  void transformer_rates() {
    constexpr std::int64_t samples = 64;
    constexpr std::int64_t tokens = 144;
    constexpr std::int64_t heads = 8;
    constexpr std::int64_t features = 256;
    const Timed scores{7 * 2.0 * static_cast<double>(samples * tokens * tokens * features),
                       min_seconds(bare_attention_products(samples * heads, tokens, features / heads))};
    const auto linear_products = [&](std::int64_t in, std::int64_t out) {
      return timed_linear_products(samples * tokens, in, out);
    };
    const Variable qkv = parameter({3 * features, features});
    const Variable projection = parameter({features, features});
    const Variable first = parameter({4 * features, features});
    const Variable second = parameter({features, 4 * features});
    pass_rate("attention of vit_t, forward and backward", {samples, tokens, 3 * features}, scores,
              [&](const Variable& x) { return attention(x, heads); });
    pass_rate("the same with its linear layers", {samples, tokens, features},
              scores + linear_products(features, 3 * features) + linear_products(features, features),
              [&](const Variable& x) { return linear(attention(linear(x, qkv, {}), heads), projection, {}); });
    pass_rate("MLP of vit_t, forward and backward", {samples, tokens, features},
              linear_products(features, 4 * features) + linear_products(4 * features, features),
              [&](const Variable& x) { return linear(relu6(linear(x, first, {})), second, {}); });
  }

  /// Floating-point operations, and the time that they take.
  struct Timed {
    double flops, seconds;
    Timed operator+(const Timed& other) const { return {flops + other.flops, seconds + other.seconds}; }
  };

  static std::shared_ptr<Accumulator> gradient_of_weight() {
    return std::make_shared<Accumulator>(Category::gradients);
  }

  Variable parameter(const Shape& shape) { return Variable::parameter(ones(shape), gradient_of_weight()); }

  /// The products of a linear layer: its forward pass, and the gradients of its weight and input.
  Timed timed_linear_products(std::int64_t rows, std::int64_t in, std::int64_t out) {
    Tensor x = ones({rows, in});
    Tensor weight = ones({out, in});
    Tensor y = ones({rows, out});
    return {3 * 2.0 * static_cast<double>(rows * in * out), min_seconds([&] {
              gemm(x, false, weight, true, 1, 0, y);
              gemm(y, true, x, false, 1, 0, weight);
              gemm(y, false, weight, false, 1, 0, x);
            })};
  }

  /// What one forward and one backward pass take.
  template <class F>
  static double pass_seconds(const Tensor& input, F forward) {
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::input(input, gradient);
    return min_seconds([&] {
      gradient->clear();
      const Variable y = forward(x);
      backward({{y, y.value()}});
    });
  }

  template <class F>
  void pass_rate(const char* name, const Shape& shape, const Timed& products, F forward) {
    const double seconds = pass_seconds(ones(shape), forward);
    add({.name = name,
         .value = products.flops / seconds * 1e-9,
         .unit = "GFLOP/s",
         .limit = products.flops / products.seconds * 1e-9});
  }

  /// Forward and backward passes of the 3 x 3 convolutions of a ResNet-18 at 224 x 224. The operations are those of a
  /// direct convolution: Winograd's method does fewer multiplications.
  void convolution_rates(double peak) {
    constexpr std::int64_t samples = 8;
    struct Size {
      std::int64_t pixels, channels;
    };
    for (const auto [pixels, channels] : {Size{56, 64}, Size{28, 128}, Size{14, 256}, Size{7, 512}})
      for (const bool winograd : {true, false}) {
        Device device(make_backend("cpu", {.threads = settings_.threads, .winograd = winograd}));
        const auto ones_of = [&](const Shape& shape) { return Tensor::full(device, shape, DType::f32, 1); };
        const Variable weight = Variable::parameter(ones_of({channels, 3, 3, channels}), gradient_of_weight());
        const double seconds = pass_seconds(ones_of({samples, pixels, pixels, channels}), [&](const Variable& x) {
          weight.value().storage()->changed();  // as by a step: it is packed again
          return conv2d(x, weight, {}, {.padding = {1, 1}});
        });
        const double flops = 3 * 2.0 * 9 * static_cast<double>(samples * pixels * pixels * channels * channels);
        add({.name = fmt::format("conv 3 x 3, {0} x {0} x {1}, batch {2}{3}", pixels, channels, samples,
                                 winograd ? "" : ", direct"),
             .value = flops / seconds * 1e-9,
             .unit = "GFLOP/s",
             .limit = peak * 1e-9});
      }
  }

  /// Counts the bytes that the passes must move at least: x is read and y written; then x and dy are read twice, and dx
  /// is written.
  void batch_norm_rates(double bandwidth) {
    const Shape shape{64, 112, 112, 64};
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::input(ones(shape), gradient);
    const NormEpilogue relu{.activation = NormActivation::relu};
    const double bytes = static_cast<double>(x.value().bytes());
    Tensor statistics;
    const double forward = min_seconds([&] { batch_norm(x, {}, {}, 1e-5, relu, statistics); });
    const double both = min_seconds([&] {
      gradient->clear();
      const Variable y = batch_norm(x, {}, {}, 1e-5, relu, statistics);
      backward({{y, y.value()}});
    });
    add({.name = "batch norm with ReLU, forward",
         .value = 3 * bytes / forward * 1e-9,
         .unit = "GB/s",
         .limit = bandwidth * 1e-9});
    add({.name = "batch norm with ReLU, backward",
         .value = 5 * bytes / (both - forward) * 1e-9,
         .unit = "GB/s",
         .limit = bandwidth * 1e-9});
  }

  /// The costs of a head's bf16 classes besides the products: the time per element, tile by tile.
  void class_row_times() {
    constexpr std::int64_t tile = 1024;
    const Shape shape{64 * tile, 512};
    ClassTable table{.weight = Tensor::empty(device_, shape, DType::bf16),
                     .momentum = Tensor::zeros(device_, shape, DType::bf16)};
    Tensor rows = Tensor::empty(device_, {tile, 512}, DType::f32);
    Tensor inverse_norm = Tensor::empty(device_, {tile}, DType::f32);
    const Tensor products = Tensor::full(device_, {tile, 512}, DType::f32, 1e-3);
    const ClassRowKernels& kernels = device_.backend().class_rows();
    const ClassStep step{.update = SgdStep{.learning_rate = 0.1, .momentum = 0.9}};
    const auto add_time = [&](const char* name, const std::function<void()>& call) {
      add({.name = name, .value = min_seconds(call) / static_cast<double>(shape.numel()) * 1e9, .unit = "ns"});
    };
    const auto over_tiles = [&](auto call) {
      for (std::int64_t begin = 0; begin < shape[0]; begin += tile) call(ClassSelection{begin, tile});
    };
    add_time("class rows, bf16: an element drawn", [&] { kernels.fill(table, {}, 0, {}); });
    add_time("class rows, bf16: an element loaded", [&] {
      over_tiles([&](const ClassSelection& rows_of) { kernels.load(table, rows_of, 1e-12, rows, inverse_norm); });
    });
    add_time("class rows, bf16: an element stepped", [&] {
      over_tiles([&](const ClassSelection& rows_of) {
        const Tensor in_place = table.weight.rows(rows_of.begin, rows_of.begin + rows_of.size);
        kernels.step(table, rows_of, in_place, inverse_norm, products, step);
      });
    });
  }

  /// A step of f32 classes in their place, and as after a save, to other memory.
  void class_row_saves() {
    constexpr std::int64_t tile = 1024;
    const Shape shape{64 * tile, 512};
    const auto new_table = [&] {
      return ClassTable{.weight = Tensor::full(device_, shape, DType::f32, 0.1),
                        .momentum = Tensor::zeros(device_, shape, DType::f32)};
    };
    ClassTable table = new_table();
    ClassTable other = new_table();
    const Tensor inverse_norm = Tensor::full(device_, {tile}, DType::f32, 1);
    const Tensor products = Tensor::full(device_, {tile, 512}, DType::f32, 1e-3);
    for (ClassTable* const target : {static_cast<ClassTable*>(nullptr), &other}) {
      const ClassStep step{.update = SgdStep{.learning_rate = 0.1, .momentum = 0.9}, .target = target};
      const double seconds = min_seconds([&] {
        for (std::int64_t begin = 0; begin < shape[0]; begin += tile)
          device_.backend().class_rows().step(table, {begin, tile}, table.weight.rows(begin, begin + tile),
                                              inverse_norm, products, step);
      });
      add({.name = fmt::format("class rows, f32: an element stepped{}", target != nullptr ? ", to other memory" : ""),
           .value = seconds / static_cast<double>(shape.numel()) * 1e9,
           .unit = "ns"});
    }
  }

  /// The forward of a 1 x 1 layer with a graph, less the time of the same oneDNN primitive alone.
  void overhead() {
    constexpr int calls = 2000;
    const Variable x = ones({1, 1});
    const Variable weight = parameter({1, 1});
    const double layer = min_seconds([&] {
      for (int i = 0; i < calls; ++i) linear(x, weight, {});
    });
    const double bare = bare_product_seconds(calls);
    add({.name = "overhead of an operation", .value = (layer - bare) / calls * 1e6, .unit = "us"});
  }

  double bare_product_seconds(int calls) {
    const auto product = bare_product(settings_.threads);
    if (!product) return 0;
    return min_seconds([&] {
      for (int i = 0; i < calls; ++i) (*product)();
    });
  }

  const BenchSettings& settings_;
  Device device_;
  BenchRows rows_;
};

}  // namespace

std::vector<BenchRow> bench_ops(const BenchSettings& settings) {
  return OpsBench(settings).run();
}

}  // namespace heddle
