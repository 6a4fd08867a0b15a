// Trains from C++, without JSON and without the command line.
#include <fmt/format.h>

#include "experiments/training/run.h"

int main() {
  heddle::Experiment experiment;
  experiment.name = "two_ranks";
  experiment.mesh.dp = 2;
  experiment.data.synthetic_identities.identities = 10;
  experiment.model.type = heddle::ModelType::mlp;
  experiment.head.classes = 10;
  experiment.train.steps = 20;

  struct Losses : heddle::RunObserver {
    void on_step(const heddle::StepRecord& record) override { fmt::print("{} {}\n", record.step, record.loss.value()); }
  } losses;
  const heddle::VariantResult result = heddle::run_variant(experiment, "base", {.observer = &losses});
  fmt::print("rank 0 held {} bytes\n", result.ranks.front().peak.total());
}
