// Training steps of whole backbones: images per second, and the rate of their FLOPs, as the plan backend counts them,
// as a share of the rate of a 2048^3 matrix product of the same type in the same run. Winograd's convolutions do fewer
// multiplications than are counted, so that their share may exceed 1. Mixed precision has rows where the processor is
// fast in bf16.
#include <array>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/program/bench/backbone.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/machine.h"
#include "experiments/program/study_checks.h"
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

double matmul_rate(int threads, DType dtype) {
  constexpr std::int64_t n = 2048;
  Device device(make_backend("cpu", {.threads = threads}));
  device.backend().enter_thread();
  const Tensor a = Tensor::full(device, {n, n}, dtype, 1);
  Tensor c = Tensor::empty_like(a);
  return 2.0 * n * n * n / min_seconds([&] { gemm(a, false, a, true, 1, 0, c); });
}

}  // namespace

std::vector<BenchRow> bench_steps(const BenchSettings& settings) {
  BenchRows rows(settings);
  struct Way {
    DType dtype = DType::f32;
    bool winograd = true;
    std::string words{};
  };
  const std::vector<Way> transformer{{}, {.dtype = DType::bf16, .words = ", bf16"}};
  std::vector<Way> convolutional = transformer;
  convolutional.insert(convolutional.begin() + 1, {.winograd = false, .words = ", direct"});
  struct Case {
    ModelType type;
    std::string name;
    const std::vector<Way>& ways;
  };
  const std::array<Case, 4> cases{{{ModelType::resnet18, "resnet18", convolutional},
                                   {ModelType::iresnet18, "iresnet18", convolutional},
                                   {ModelType::vit_t, "vit_t", transformer},
                                   {ModelType::vit_s, "vit_s", transformer}}};
  const std::map<DType, double> rates{{DType::f32, matmul_rate(settings.threads, DType::f32)},
                                      {DType::bf16, matmul_rate(settings.threads, DType::bf16)}};
  const bool is_bf16_fast = is_bf16_fast_here();
  for (const Case& c : cases) {
    const double flops = flops_of_step(c.type);
    settings.on_progress(fmt::format("{}: at least {} steps ...", c.name, 4 * c.ways.size()));
    for (const Way& way : c.ways) {
      if (way.dtype == DType::bf16 && !is_bf16_fast) continue;
      double seconds = 0;
      run_ranks({.backend_options = {.threads = settings.threads, .winograd = way.winograd}}, [&](Rank& rank) {
        Backbone backbone(c.type, images_per_step, rank, way.dtype);
        seconds = min_seconds([&] { backbone.step(); }, 5);
      });
      const std::optional<double> peer =
          peer_seconds(settings, {"step", c.name, fmt::format("{}", images_per_step), std::string(name_of(way.dtype)),
                                  "cpu", fmt::format("{}", settings.threads)});
      rows.add({.name = fmt::format("{} step, 112 x 112, batch {}{}", c.name, images_per_step, way.words),
                .value = images_per_step / seconds,
                .unit = "images/s",
                .limit = rates.at(way.dtype) / flops * images_per_step,
                .peer = peer ? std::optional(images_per_step / *peer) : std::nullopt});
    }
  }
  return rows.take();
}

}  // namespace heddle
