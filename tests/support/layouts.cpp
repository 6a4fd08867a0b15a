#include "tests/support/layouts.h"

#include <cmath>
#include <limits>
#include <mutex>

#include "parallel/world.h"

namespace heddle::test {

namespace {

void collect(Tensors& tensors, const std::string& name, const Tensor& value, bool append) {
  std::vector<double>& all = tensors[name];
  if (!all.empty() && !append) return;
  const std::vector<double> values = value.to_doubles();
  all.insert(all.end(), values.begin(), values.end());
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

}  // namespace

Outcome train(Experiment experiment, const ModelMaker& model, const Layout& layout, std::int64_t steps) {
  experiment.train.micro_batches = layout.micro_batches;
  experiment.head.logits = layout.logits;
  const RandomKey key{static_cast<std::uint64_t>(experiment.seed)};
  const auto dataset = make_dataset(experiment.data, key);
  WorldOptions options{.mesh = Mesh(layout.ranks), .key = key};
  options.threads = 1;
  Outcome outcome;
  run_ranks(options, [&](Rank& rank) {
    Tracer tracer(Tracer::Clock::now());
    Trainer trainer(experiment, *dataset, rank, tracer, model);
    // Rank by rank, so that the shards come in order.
    const auto in_turn = [&](auto&& f) {
      for (int turn = 0; turn < rank.size; ++turn) {
        if (turn == rank.index) f();
        rank.world.barrier().wait();
      }
    };
    for (std::int64_t step = 0; step < steps; ++step) {
      const double loss = trainer.compute_gradients(step).value();
      if (rank.index == 0) outcome.losses.push_back(loss);
      in_turn([&] {
        if (step > 0) return;
        for (const Parameter* parameter : trainer.parameters())
          if (parameter->trainable)
            collect(outcome.gradients, parameter->name, parameter->gradient->gradient(),
                    parameter->holding == Holding::sharded);
      });
      (void)trainer.apply_gradients(step);
    }
    in_turn([&] {
      for (const Parameter* parameter : trainer.parameters())
        collect(outcome.weights, parameter->name, parameter->value, parameter->holding == Holding::sharded);
      for (const Buffer* buffer : trainer.buffers()) collect(outcome.weights, buffer->name, buffer->value, false);
    });
  });
  return outcome;
}

double largest_error(const Tensors& a, const Tensors& b) {
  double all_squares = 0;
  double all_size = 0;
  for (const auto& [name, values] : b) {
    all_squares += norm(values) * norm(values);
    all_size += static_cast<double>(values.size());
  }
  double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (const auto& [name, expected] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.size() != expected.size()) return std::numeric_limits<double>::infinity();
    std::vector<double> difference = found->second;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
    const double share = std::sqrt(static_cast<double>(expected.size()) / all_size) * std::sqrt(all_squares);
    largest = std::max(largest, norm(difference) / (norm(expected) + share));
  }
  return largest;
}

Experiment small_experiment(std::int64_t classes, std::int64_t batch, std::int64_t embedding, DType dtype) {
  Experiment experiment;
  experiment.name = "small";
  experiment.data.synthetic_identities = {.identities = std::min<std::int64_t>(classes, 10),
                                          .image = {3, 8, 8},
                                          .train_per_identity = 6,
                                          .test_per_identity = 1};
  experiment.model.embedding = embedding;
  experiment.head.classes = classes;
  experiment.head.margin = {.m1 = 1, .m2 = 0.3, .m3 = 0.05, .scale = 16};
  experiment.train.batch = batch;
  experiment.train.steps = 3;
  experiment.train.dtype = dtype == DType::f64 ? TrainDType::f64 : TrainDType::f32;
  experiment.train.optimizer.learning_rate = 0.02;
  experiment.train.optimizer.weight_decay = 0.001;
  return experiment;
}

}  // namespace heddle::test
