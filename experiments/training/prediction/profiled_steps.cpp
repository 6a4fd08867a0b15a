#include "experiments/training/prediction/profiled_steps.h"

#include <algorithm>

#include "experiments/training/ranks/world_options.h"
#include "experiments/training/span_names.h"
#include "experiments/training/trainer.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// A rank's clock, once everything that it has issued is done.
struct Now {
  explicit Now(Rank& rank) {
    rank.device.backend().settle();
    seconds = rank.clock.now();
    computing = rank.clock.busy_seconds();
  }
  double seconds = 0;
  double computing = 0;
};

double of_heads(const std::vector<Span>& spans, double (SpanSamples::*seconds)(const std::string&) const) {
  const SpanSamples samples(spans);
  return (samples.*seconds)(span_names::head_weight) + (samples.*seconds)(span_names::head_norm);
}

ProfiledStep training_step(Trainer& trainer, Tracer& tracer, Rank& rank, std::int64_t step, int stages) {
  (void)trainer.compute_gradients(step);
  std::vector<Span> spans = tracer.take_spans();
  const Now before(rank);
  (void)trainer.apply_gradients(step);
  const Now after(rank);
  const std::vector<Span> later = tracer.take_spans();
  spans.insert(spans.end(), later.begin(), later.end());
  return {.spans = SpanSamples(without_updates_in_loss(std::move(spans), stages)),
          .update = std::max(0.0, after.seconds - before.seconds - of_heads(later, &SpanSamples::sum_of)),
          .computing_update =
              std::max(0.0, after.computing - before.computing - of_heads(later, &SpanSamples::computing_of))};
}

ProfiledStep forward_step(Trainer& trainer, Tracer& tracer, std::int64_t step) {
  trainer.forward(step);
  return {.spans = SpanSamples(tracer.take_spans())};
}

}  // namespace

Experiment profiled_experiment(const Experiment& experiment) {
  Experiment profiled = experiment;
  profiled.transport = Experiment().transport;
  constexpr Link at_once{.latency = 0, .bandwidth = 1e18};
  profiled.links = {.within_node = at_once};
  profiled.train.steps = experiment.device == DeviceType::plan ? 2 : 6;
  profiled.train.save_every = 0;
  profiled.pipeline.head_work = HeadWork::at_once;
  profiled.evaluate = false;
  return profiled;
}

std::vector<std::vector<ProfiledStep>> run_profiled(const Experiment& profiled, const Dataset& dataset,
                                                    const std::shared_ptr<const RunPlan>& plan) {
  std::vector<std::vector<ProfiledStep>> steps(static_cast<std::size_t>(ranks_of(profiled)));
  run_ranks(world_options(profiled), [&](Rank& rank) {
    const auto tracer = std::make_shared<Tracer>(rank.clock, rank.device);
    Trainer trainer(profiled, dataset, rank, *tracer, plan);
    for (std::int64_t step = 0; step < profiled.train.steps; ++step) {
      rank.world.barrier().wait();  // replicas that only go forward do not wait for each other
      tracer->set_recording(step > 0);
      ProfiledStep measured = profiled.train.forward_only ? forward_step(trainer, *tracer, step)
                                                          : training_step(trainer, *tracer, rank, step, plan->stages());
      if (step > 0) steps[static_cast<std::size_t>(rank.index)].push_back(std::move(measured));
    }
  });
  return steps;
}

}  // namespace heddle
