#include "tests/support/layouts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

/// Copies what a rank holds, divided by its scale, to its place in the whole. What other ranks hold, too, must have the
/// same bits.
void collect(Tensors& tensors, const std::string& name, const ParameterPart& part, const Tensor& held,
             double scale = 1) {
  std::vector<double>& whole = tensors[name];
  whole.resize(static_cast<std::size_t>(part.whole.numel()), std::numeric_limits<double>::quiet_NaN());
  const std::vector<double> values = held.to_doubles();
  bool is_alike = true;
  for_each_run(part, [&](const ElementRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      double& value = whole[static_cast<std::size_t>(run.whole + i)];
      const double own = values[static_cast<std::size_t>(run.held + i)] / scale;
      is_alike = is_alike && (std::isnan(value) || value == own);
      value = own;
    }
  });
  CAPTURE(name);
  CHECK(is_alike);
}

void lay_out(Experiment& experiment, const Layout& layout) {
  experiment.mesh = {
      .dp = layout.mesh.size(Axis::dp), .pp = layout.mesh.size(Axis::pp), .tp = layout.mesh.size(Axis::tp)};
  experiment.train.micro_batches = layout.micro_batches;
  experiment.head.logits = layout.logits;
  experiment.head.over = layout.over;
  experiment.head.split = layout.split;
  for (HeadConfig& head : experiment.further_heads) head.over = layout.over;
  experiment.pipeline = layout.pipeline;
}

/// Cuts a model at random.
std::shared_ptr<const RunPlan> plan_of(const Experiment& experiment, const ModelPointer& model) {
  RandomStream draws({static_cast<std::uint64_t>(experiment.seed)}, Purpose::test, 3, 0);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < model->applications().size(); ++i) seconds.push_back(draws.uniform());
  return plan_run(experiment, model, mesh_of(experiment), seconds);
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

WorldOptions options_of(const Experiment& experiment, const std::string& backend = tested_backend()) {
  WorldOptions options = ranks(mesh_of(experiment), backend);
  options.backend_options.winograd = experiment.winograd == WinogradUse::automatic;
  options.key = {static_cast<std::uint64_t>(experiment.seed)};
  return options;
}

}  // namespace

Outcome train(Experiment experiment, const ModelPointer& model, const Layout& layout, const Course& course) {
  lay_out(experiment, layout);
  const auto dataset = open_datasets(experiment);
  const WorldOptions options = options_of(experiment);
  const auto plan = plan_of(experiment, model);
  Outcome outcome;
  std::mutex mutex;
  run_ranks(options, [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, *dataset, rank, tracer, plan);
    course.before(trainer);
    for (std::int64_t step = course.first; step < course.end; ++step) {
      const double loss = trainer.compute_gradients(step).value();
      if (rank.index == 0) outcome.losses.push_back(loss);
      if (step == course.first) {
        const std::lock_guard lock(mutex);
        for (const Parameter* parameter : trainer.parameters().all())
          if (parameter->trainable)
            collect(outcome.gradients, parameter->name, trainer.parameters().stepped_part(*parameter),
                    parameter->gradient->gradient(), trainer.parameters().gradient_scale(*parameter));
      }
      (void)trainer.apply_gradients(step);
    }
    course.after(trainer);
    trainer.catch_up_all();
    const std::lock_guard lock(mutex);
    for (const auto& state : {trainer.backbone_state(), trainer.head_state()})
      for (const StateTensor& tensor : state) collect(outcome.state, tensor.name, tensor.part, tensor.value);
    for (const Parameter* parameter : trainer.parameters().all()) outcome.weights[parameter->name];
    for (const Buffer* buffer : trainer.buffers()) outcome.weights[buffer->name];
  });
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    outcome
        .weights[experiment.heads() == 1 ? "head.weight" : fmt::format("head.{}.weight", experiment.data_of(set).name)];
  for (auto& [name, values] : outcome.weights) values = outcome.state.at(name);
  return outcome;
}

std::vector<Use> use_of_step(Experiment experiment, const ModelPointer& model, const Layout& layout,
                             const std::string& backend) {
  lay_out(experiment, layout);
  const auto dataset = open_datasets(experiment);
  const WorldOptions options = options_of(experiment, backend);
  const auto plan = plan_of(experiment, model);
  std::vector<Use> uses(static_cast<std::size_t>(layout.mesh.size()));
  run_ranks(options, [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, *dataset, rank, tracer, plan);
    if (experiment.train.forward_only) {
      trainer.forward(0);
    } else {
      (void)trainer.compute_gradients(0);
      (void)trainer.apply_gradients(0);
    }
    const auto& peak = rank.device.meter().peak().bytes;
    uses[static_cast<std::size_t>(rank.index)] = {
        {peak.begin(), peak.end()}, rank.bytes.sent_bytes(), rank.device.meter().peak_offloaded()};
  });
  return uses;
}

Tolerance tolerance_of(const Experiment& experiment) {
  const auto of_epsilon = [](double epsilon) { return Tolerance{4 * std::sqrt(epsilon), 16 * epsilon}; };
  switch (experiment.train.dtype) {
    case DType::f64:
      return {1e-12, 1e-12};
    case DType::f32:
      return {2e-5, 2e-5};
    case DType::bf16:
      return of_epsilon(0x1p-8);
    default:
      return of_epsilon(0x1p-11);  // f16
  }
}

void check_against_reference(const Experiment& experiment, const ModelPointer& model, const Layout& layout,
                             bool synchronized) {
  check_close(experiment, model, layout, reference_of(layout, synchronized));
}

void check_close(const Experiment& experiment, const ModelPointer& model, const Layout& layout, const Layout& other) {
  const Tolerance tolerance = tolerance_of(experiment);
  const Outcome reference = train(experiment, model, other, 3);
  const Outcome outcome = train(experiment, model, layout, 3);
  CAPTURE(to_string(layout.mesh));
  CAPTURE(layout.micro_batches);
  for (std::size_t i = 0; i < reference.losses.size(); ++i)
    CHECK(outcome.losses[i] == close_to(reference.losses[i]).epsilon(tolerance.losses));
  const auto check_all = [&](const Tensors& a, const Tensors& b) {
    const Difference largest = max_difference(a, b);
    CAPTURE(largest.tensor);
    CHECK(largest.error <= tolerance.norms);
  };
  check_all(outcome.gradients, reference.gradients);
  check_all(outcome.weights, reference.weights);
}

void check_same_bits(const Experiment& experiment, const ModelPointer& model, const Layout& a, const Layout& b) {
  const Outcome first = train(experiment, model, a, 2);
  const Outcome second = train(experiment, model, b, 2);
  CHECK(first.losses == second.losses);
  CHECK(first.gradients == second.gradients);
  CHECK(first.weights == second.weights);
}

Difference max_difference(const Tensors& a, const Tensors& b) {
  double all_squares = 0;
  double all_size = 0;
  for (const auto& [name, values] : b) {
    all_squares += norm(values) * norm(values);
    all_size += static_cast<double>(values.size());
  }
  constexpr double none = std::numeric_limits<double>::infinity();
  Difference largest{a.size() == b.size() ? 0 : none, "the number of tensors"};
  for (const auto& [name, expected] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.size() != expected.size()) return {none, name};
    std::vector<double> difference = found->second;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
    const double share = std::sqrt(static_cast<double>(expected.size()) / all_size) * std::sqrt(all_squares);
    const double error = norm(difference) / (norm(expected) + share);
    if (error > largest.error) largest = {error, name};
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
  experiment.head.margin = {.scale = 16, .combined = {.m1 = 1, .m2 = 0.3, .m3 = 0.05}};
  experiment.train.batch = batch;
  experiment.train.steps = 3;
  experiment.train.dtype = dtype;
  experiment.train.loss_scale.init_scale = 128;  // no step is skipped
  experiment.train.optimizer.learning_rate = 0.02;
  experiment.train.optimizer.weight_decay = 0.001;
  return experiment;
}

}  // namespace heddle::test
