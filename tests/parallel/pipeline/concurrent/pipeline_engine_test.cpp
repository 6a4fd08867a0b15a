// The engine alone, with stages of a few operations.
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"
#include "parallel/pipeline/engine.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/world.h"
#include "tests/support/ranks.h"

namespace heddle::test::pipeline_engine_test {

namespace {

constexpr std::int64_t width = 1024;
constexpr std::int64_t bytes = width * 4;

/// Each stage multiplies by its number plus two; the loss is half the square.
class Chain : public PipelineStages {
 public:
  Chain(Device& device, int stages) : device_(device), stages_(stages) {
    for (int stage = 0; stage < stages; ++stage)
      weights_.push_back(Variable::parameter(Tensor::full(device, {width}, DType::f32, stage + 2),
                                             std::make_shared<Accumulator>(Category::gradients)));
  }
  Tensor load(int micro_batch) override { return Tensor::full(device_, {width}, DType::f32, micro_batch + 1); }
  std::vector<Variable> forward(int stage, int /*micro_batch*/, std::vector<Variable> inputs,
                                bool /*recomputing*/) override {
    return {multiply(inputs[0], weights_[static_cast<std::size_t>(stage)])};
  }
  std::vector<bool> input_gradients(int stage) const override { return {stage > 0}; }
  std::vector<bool> output_gradients(int /*stage*/) const override { return {true}; }
  Tensor loss(int /*micro_batch*/, const Tensor& output) override {
    losses += 0.5 * output.to_doubles()[0] * output.to_doubles()[0];
    return output.clone();
  }

  double losses = 0;

 protected:
  Device& device_;
  int stages_;
  std::vector<Variable> weights_;
};

std::shared_ptr<const PipelineProgram> program_of(const char* name, const ScheduleShape& shape,
                                                  Recompute recompute = Recompute::never) {
  return make_program(
      with_communication(with_loss(with_recompute(make_schedule(name, shape), recompute), LossForm::on_last_stage)));
}

}  // namespace

TEST_CASE("a stage that fails in the middle of a batch ends all ranks with an error that names it") {
  class Dying final : public Chain {
   public:
    using Chain::Chain;
    std::vector<Variable> forward(int stage, int micro_batch, std::vector<Variable> inputs, bool recomputing) override {
      if (stage == 2 && micro_batch == 3) fail("stage 2 failed on purpose");
      return Chain::forward(stage, micro_batch, std::move(inputs), recomputing);
    }
  };
  const auto program = program_of("1f1b", {.ranks = 4, .micro_batches = 8});
  CHECK_THROWS_WITH_AS(run_ranks(test::ranks(Mesh(1, 4, 1)),
                                 [&](Rank& rank) {
                                   Tracer tracer(rank.clock, rank.device);
                                   Dying stages(rank.device, 4);
                                   PipelineEngine engine(program, rank.along(Axis::pp), rank.device, tracer,
                                                         rank.clock);
                                   (void)engine.run(stages);
                                 }),
                       "rank 2 failed: stage 2 failed on purpose", RankFailed);
}

TEST_CASE("a slow receiver does not delay the sender's next micro-batch") {
  std::atomic<bool> second_was_made{false};
  class Watched final : public Chain {
   public:
    Watched(Device& device, std::atomic<bool>& made) : Chain(device, 2), made_(made) {}
    std::vector<Variable> forward(int stage, int micro_batch, std::vector<Variable> inputs, bool recomputing) override {
      if (stage == 0 && micro_batch == 1) made_.store(true);
      // Would wait forever if the sender waited.
      while (stage == 1 && micro_batch == 0 && !made_.load()) std::this_thread::yield();
      return Chain::forward(stage, micro_batch, std::move(inputs), recomputing);
    }

   private:
    std::atomic<bool>& made_;
  };
  const auto program = program_of("gpipe", {.ranks = 2, .micro_batches = 4});
  run_ranks(test::ranks(Mesh(1, 2, 1)), [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Watched stages(rank.device, second_was_made);
    PipelineEngine engine(program, rank.along(Axis::pp), rank.device, tracer, rank.clock);
    (void)engine.run(stages);
  });
  CHECK(second_was_made.load());
}

TEST_CASE("the messages in flight and the values kept for backward are bounded as the schedule says") {
  std::mutex mutex;
  const auto peaks_of = [&](const char* schedule, int micro_batches, Recompute recompute) {
    std::map<int, std::int64_t> peaks;
    const auto program = program_of(schedule, {.ranks = 4, .micro_batches = micro_batches}, recompute);
    run_ranks(test::ranks(Mesh(1, 4, 1)), [&](Rank& rank) {
      Tracer tracer(rank.clock, rank.device);
      Chain stages(rank.device, 4);
      rank.device.meter().reset_peak();
      PipelineEngine engine(program, rank.along(Axis::pp), rank.device, tracer, rank.clock);
      (void)engine.run(stages);
      const std::lock_guard lock(mutex);
      peaks[rank.index] = rank.device.meter().peak().total() / bytes;
    });
    return peaks;
  };
  // 1f1b holds no more however many micro-batches there are; gpipe one input more for each, in the last stage also the
  // gradient of its output.
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(peaks_of("1f1b", 8, Recompute::never)[rank] == peaks_of("1f1b", 32, Recompute::never)[rank]);
    CHECK(peaks_of("gpipe", 32, Recompute::never)[rank] ==
          peaks_of("gpipe", 8, Recompute::never)[rank] + (rank == 3 ? 48 : 24));
  }
}

TEST_CASE("a forward pass gives the outputs in order and keeps nothing") {
  const auto program = make_program(forward_only(looped_stages(2, 2), 5));
  run_ranks(test::ranks(Mesh(1, 2, 1)), [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Chain stages(rank.device, 4);
    PipelineEngine engine(program, rank.along(Axis::pp), rank.device, tracer, rank.clock);
    const std::vector<Tensor> outputs = engine.run(stages);
    CHECK(outputs.size() == (rank.index == 1 ? 5 : 0));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      CHECK(outputs[i].to_doubles()[0] == static_cast<double>(i + 1) * 2 * 3 * 4 * 5);
  });
}

}  // namespace heddle::test::pipeline_engine_test
