// Training steps of whole backbones: images per second, and the rate of their FLOPs, as the plan backend counts them,
// as a share of the rate of a 2048^3 matrix product in the same run. Winograd's convolutions do fewer multiplications
// than are counted, so that their share may exceed 1.
#include <array>

#include <fmt/format.h>

#include "experiments/program/bench/backbone.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/machine.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr std::int64_t images_per_step = 64;

double flops_of_step(ModelType type) {
  double flops = 0;
  run_ranks({.backend = "plan", .backend_options = {.threads = 1}}, [&](Rank& rank) {
    Backbone backbone(type, images_per_step, rank);
    const double before = rank.device.backend().flops();
    backbone.step();
    flops = rank.device.backend().flops() - before;
  });
  return flops;
}

double matmul_rate(int threads) {
  constexpr std::int64_t n = 2048;
  Device device(make_backend("cpu", {.threads = threads}));
  device.backend().enter_thread();
  const Tensor a = Tensor::full(device, {n, n}, DType::f32, 1);
  Tensor c = Tensor::empty_like(a);
  return 2.0 * n * n * n / min_seconds([&] { gemm(a, false, a, true, 1, 0, c); });
}

}  // namespace

std::vector<BenchRow> bench_steps(const BenchSettings& settings) {
  const double rate = matmul_rate(settings.threads);
  BenchRows rows(settings);
  struct Case {
    ModelType type;
    std::string name;
    std::vector<bool> winograd;
  };
  const std::array<Case, 4> cases{{{ModelType::resnet18, "resnet18", {true, false}},
                                   {ModelType::iresnet18, "iresnet18", {true, false}},
                                   {ModelType::vit_t, "vit_t", {true}},
                                   {ModelType::vit_s, "vit_s", {true}}}};
  for (const Case& c : cases) {
    const double limit = rate / flops_of_step(c.type) * images_per_step;
    settings.on_progress(fmt::format("{}: at least {} steps ...", c.name, 4 * c.winograd.size()));
    for (const bool winograd : c.winograd) {
      double seconds = 0;
      run_ranks({.backend_options = {.threads = settings.threads, .winograd = winograd}}, [&](Rank& rank) {
        Backbone backbone(c.type, images_per_step, rank);
        seconds = min_seconds([&] { backbone.step(); }, 5);
      });
      const std::optional<double> peer = peer_seconds(settings, {"step", c.name, fmt::format("{}", images_per_step),
                                                                 "f32", "cpu", fmt::format("{}", settings.threads)});
      rows.add(
          {.name = fmt::format("{} step, 112 x 112, batch {}{}", c.name, images_per_step, winograd ? "" : ", direct"),
           .value = images_per_step / seconds,
           .unit = "images/s",
           .limit = limit,
           .peer = peer ? std::optional(images_per_step / *peer) : std::nullopt});
    }
  }
  return rows.take();
}

}  // namespace heddle
