// The overhead of the pipeline's engine: the time of one stage with a thousand tiny micro-batches, less that of a plain
// loop over the same operations.
#include <algorithm>

#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/machine.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"
#include "parallel/pipeline/engine.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr int micro_batches = 1000;
constexpr int actions_per_step = 3 * micro_batches;  // F, H and B

class TinyStage final : public PipelineStages {
 public:
  explicit TinyStage(Device& device)
      : x_(Tensor::full(device, {4}, DType::f32, 1)),
        weight_(Variable::parameter(Tensor::full(device, {4}, DType::f32, 2),
                                    std::make_shared<Accumulator>(Category::gradients))) {}

  Tensor load(int /*micro_batch*/) override { return x_; }
  std::vector<Variable> forward(int /*stage*/, int /*micro_batch*/, std::vector<Variable> inputs,
                                bool /*recomputing*/) override {
    return {multiply(inputs[0], weight_)};
  }
  std::vector<bool> input_gradients(int /*stage*/) const override { return {false}; }
  std::vector<bool> output_gradients(int /*stage*/) const override { return {true}; }
  Tensor loss(int /*micro_batch*/, const Tensor& output) override { return output.clone(); }

  void bare_loop() {
    for (int i = 0; i < micro_batches; ++i) {
      const Variable y = forward(0, i, {Variable(load(i))}, false)[0];
      backward({{y, loss(i, y.value())}});
    }
  }

 private:
  Tensor x_;
  Variable weight_;
};

}  // namespace

std::vector<BenchRow> bench_pipeline(const BenchSettings& settings) {
  BenchRow row{.name = "engine's overhead an action, 1 stage, 1000 micro-batches", .unit = "us"};
  run_ranks({.backend_options = {.threads = 1}}, [&](Rank& rank) {
    const auto program = make_program(with_communication(
        with_loss(make_schedule("1f1b", {.ranks = 1, .micro_batches = micro_batches}), LossForm::on_last_stage)));
    Tracer tracer(rank.clock, rank.device);
    PipelineEngine engine(program, rank.along(Axis::pp), rank.device, tracer, rank.clock);
    TinyStage stage(rank.device);
    constexpr int repetitions = 20;
    const double bare = min_seconds([&] { stage.bare_loop(); }, repetitions);
    const double whole = min_seconds([&] { (void)engine.run(stage); }, repetitions);
    constexpr double microseconds = 1e6;
    row.value = (whole - bare) / actions_per_step * microseconds;
  });
  settings.on_row(row);
  return {row};
}

}  // namespace heddle
