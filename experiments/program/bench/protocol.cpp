// PLSC's protocol for the speed of a training (its benchmark of face recognition: R50, 128 images per GPU): the median
// of 5 runs of 200 steps, where a run counts the mean of its steps 50 to 150.
#include <algorithm>

#include <fmt/format.h>

#include "experiments/program/bench/bench.h"
#include "experiments/training/measurements/median.h"
#include "experiments/training/run.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Adds up the time of some of a run's steps.
class SecondsOfSteps : public RunObserver {
 public:
  explicit SecondsOfSteps(IndexRange steps) : steps_(steps) {}
  void on_step(const StepRecord& record) override {
    if (steps_.contains(record.step)) seconds_ += record.seconds;
  }
  double seconds() const { return seconds_; }

 private:
  IndexRange steps_;
  double seconds_ = 0;
};

}  // namespace

std::string_view plsc_experiment() {
  return R"({
  "name": "plsc",
  "mesh": {"dp": 2},
  "data": {"type": "synthetic_identities", "identities": 93431, "image": [3, 112, 112]},
  "model": {"type": "iresnet50", "embedding": 512},
  "head": {"classes": 93431, "logits": "fused", "margin": {"m2": 0.5, "scale": 64}, "sample": {"rate": 0.1}},
  "train": {"batch": 256, "steps": 200, "save": false,
            "optimizer": {"type": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0.0005}}
})";
}

std::vector<BenchRow> bench_plsc(const Experiment& experiment, std::int64_t runs, const BenchSettings& settings) {
  const std::int64_t steps = experiment.train.steps;
  if (experiment.device == DeviceType::plan)
    fail<InputError>("device: the protocol measures real time: expected cpu or cuda, got plan");
  // The middle half: 50 to 150 of 200.
  const IndexRange counted{steps / 4, steps / 2};
  if (counted.size == 0) fail<InputError>("train.steps: expected at least 2 for the protocol, got {}", steps);
  BenchRows rows(settings);
  std::vector<double> rates;
  std::int64_t max_bytes = 0;
  for (std::int64_t run = 1; run <= runs; ++run) {
    SecondsOfSteps observer(counted);
    const VariantResult result = run_variant(experiment, fmt::format("run {}", run), {.observer = &observer});
    if (result.status == VariantResult::Status::out_of_memory) fail<OutOfMemory>("run {}: {}", run, result.error);
    if (result.status != VariantResult::Status::ok) fail<RankFailed>("run {}: {}", run, result.error);
    rates.push_back(static_cast<double>(experiment.train.batch * counted.size) / observer.seconds());
    for (const RankResult& rank : result.ranks) max_bytes = std::max(max_bytes, rank.peak.total());
    rows.add({.name = fmt::format("run {}, steps {} to {}", run, counted.begin, counted.end()),
              .value = rates.back(),
              .unit = "images/s"});
  }
  rows.add(
      {.name = fmt::format("median of {} runs of {} steps", runs, steps), .value = median(rates), .unit = "images/s"});
  rows.add({.name = "largest memory of a rank", .value = static_cast<double>(max_bytes) / giga, .unit = "GB"});
  return rows.take();
}

}  // namespace heddle
