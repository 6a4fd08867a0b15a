// Averages of the backbone's weights over layouts: the formula, checkpoints, evaluation and bytes.
#include <cmath>

#include <doctest/doctest.h>

#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/scratch.h"

namespace heddle::test::ema_test {

using namespace checkpoint_ways;

namespace {

Experiment averaged(const Way& way, OptimizerType optimizer = OptimizerType::sgd, DType dtype = DType::f64) {
  Experiment experiment = experiment_of(way, optimizer, dtype);
  experiment.train.averages_weights = true;
  experiment.train.ema = {.decay = 0.7};
  return experiment;
}

Tensors averages_in(const Tensors& state) {
  Tensors averages;
  for (const auto& [name, values] : state)
    if (name.starts_with("ema.")) averages[name.substr(4)] = values;
  return averages;
}

constexpr std::size_t averaged_tensors = 10 - 1 + 4;  // all parameters but the head's, and running statistics

}  // namespace

TEST_CASE("averages of weights and running statistics follow their formula, alike on every layout") {
  for (const bool warm_up : {false, true})
    for (const Way& way : several_ways()) {
      CAPTURE(to_string(way.layout.mesh));
      Experiment experiment = averaged(way);
      experiment.train.ema.warm_up = warm_up;
      const Outcome drawn = run(way, experiment, Course{});
      Tensors expected = averages_in(drawn.state);
      CHECK(expected.size() == averaged_tensors);
      for (const auto& [name, values] : expected) CHECK(values == drawn.weights.at(name));
      for (std::int64_t step = 0; step < 3; ++step) {
        const Outcome outcome = run(way, experiment, {.end = step + 1});
        const double decay = warm_up ? std::min(0.7, (1.0 + step) / (10.0 + step)) : 0.7;
        for (auto& [name, values] : expected)
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = decay * values[i] + (1 - decay) * outcome.weights.at(name)[i];
        const Difference largest = max_difference(averages_in(outcome.state), expected);
        CAPTURE(largest.tensor);
        CHECK(largest.error <= 1e-14);
      }
      const Outcome reference = train(experiment, network(way), reference_of(way.layout), 3);
      CHECK(max_difference(expected, averages_in(reference.state)).error <= 1e-12);
    }
}

TEST_CASE("averages do not change the training, and frozen parameters have none") {
  for (const Way& way : ways()) {
    CAPTURE(to_string(way.layout.mesh));
    ModelSpec spec = *network(way);
    spec.freeze({"conv1.*"});
    const auto model = std::make_shared<ModelSpec>(std::move(spec));
    const Outcome with = train(averaged(way), model, way.layout, 2);
    const Outcome without = train(experiment_of(way, OptimizerType::sgd, DType::f64), model, way.layout, 2);
    CHECK(with.weights == without.weights);
    CHECK(!with.state.contains("ema.conv1.weight"));
    CHECK(with.state.contains("ema.conv2.weight"));
    CHECK(with.state.contains("ema.bn1.running_mean"));
    CHECK(averages_in(without.state).empty());
  }
}

TEST_CASE("every layout loads the averages of every other with the same bits, and continues them" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const Way& saver : ways()) {
    const Scratch scratch;
    const CheckpointFolder folder(scratch / "");
    const auto experiment = [](const Way& way) { return averaged(way, OptimizerType::sgd, DType::f32); };
    const Outcome saved = run(saver, experiment(saver), saving(folder, 2));
    CHECK(averages_in(saved.state).size() == averaged_tensors);
    for (const Way& loader : ways()) {
      CAPTURE(to_string(saver.layout.mesh));
      CAPTURE(to_string(loader.layout.mesh));
      CHECK(run(loader, experiment(loader), resuming(folder, 2, 2)).state == saved.state);
    }
    CHECK(run(saver, experiment(saver), resuming(folder, 2, 4)).state ==
          run(saver, experiment(saver), {.end = 4}).state);
  }
}

TEST_CASE("within with_averages every rank has the averages in place of the weights, and then the weights again") {
  for (const Way& way : several_ways()) {
    CAPTURE(to_string(way.layout.mesh));
    const Experiment experiment = averaged(way);
    const Tensors expected = averages_in(run(way, experiment, {.end = 2}).state);
    const auto differ = [&](Trainer& trainer) {
      std::int64_t different = 0;
      const auto compare = [&](const std::string& name, const ParameterPart& part, const Tensor& value) {
        const std::vector<double> held = value.to_doubles();
        const std::vector<double>& whole = expected.at(name);
        for_each_run(part, [&](const ElementRun& elements) {
          for (std::int64_t i = 0; i < elements.count; ++i)
            different +=
                held[static_cast<std::size_t>(elements.held + i)] != whole[static_cast<std::size_t>(elements.whole + i)]
                    ? 1
                    : 0;
        });
      };
      const std::vector<Parameter*> all = trainer.parameters().all();
      for (const Parameter* parameter : all)
        if (!parameter->name.starts_with("head.")) compare(parameter->name, parameter->part, parameter->value);
      for (const Buffer* buffer : trainer.buffers()) compare(buffer->name, buffer->part, buffer->value);
      return different;
    };
    Course course{.end = 2, .after = [&](Trainer& trainer) {
                    std::int64_t inside = -1;
                    trainer.with_averages([&] { inside = differ(trainer); });
                    if (inside != 0) fail("{} elements are not the averages", inside);
                    if (differ(trainer) == 0 && !trainer.buffers().empty()) fail("the averages have stayed");
                  }};
    const Outcome outcome = run(way, experiment, course);
    CHECK(outcome.state == run(way, experiment, {.end = 2}).state);
  }
}

TEST_CASE("averages of bf16 weights are f32, on every layout") {
  for (const Way& way : ways()) {
    CAPTURE(to_string(way.layout.mesh));
    Experiment experiment = averaged(way, OptimizerType::sgd, DType::bf16);
    experiment.train.optimizer.weights = DType::bf16;
    const Outcome drawn = run(way, experiment, Course{});
    const Outcome outcome = run(way, experiment, {.end = 1});
    for (const auto& [name, values] : averages_in(outcome.state)) {
      CAPTURE(name);
      double error = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        error =
            std::max(error, std::abs(0.7 * drawn.weights.at(name)[i] + 0.3 * outcome.weights.at(name)[i] - values[i]));
      CHECK(error <= 1e-6);
    }
  }
}

TEST_CASE("plan holds the bytes of averages, one for each element that a rank steps and for running statistics") {
  for (const Way& way : ways()) {
    CAPTURE(to_string(way.layout.mesh));
    const Experiment experiment = averaged(way, OptimizerType::sgd, DType::f32);
    const std::vector<Use> use = use_of_step(experiment, network(way), way.layout);
    CHECK(use == use_of_step(experiment, network(way), way.layout, "plan"));
    const std::vector<Use> without =
        use_of_step(experiment_of(way, OptimizerType::sgd, DType::f32), network(way), way.layout);
    std::int64_t more = 0;
    for (std::size_t rank = 0; rank < use.size(); ++rank) {
      CHECK(use[rank].sent == without[rank].sent);
      more += use[rank].bytes[static_cast<std::size_t>(Category::optimizer)] -
              without[rank].bytes[static_cast<std::size_t>(Category::optimizer)];
    }
    // conv1 7 x 3 x 9, bn1 and its slope 3 x 7, conv2 5 x 7 x 9, bn2 2 x 5, fc 6 x 80 + 6; statistics 2 x 7 and 2 x 5
    constexpr std::int64_t once = 4 * (189 + 21 + 315 + 10 + 486 + 14 + 10);
    const bool is_serial = way.layout.mesh.size() == 1;
    const bool is_pipeline = way.layout.mesh.size() == 2 && way.layout.mesh.size(Axis::pp) == 2 &&
                             way.layout.mesh.size(Axis::copies) == 1 && way.layout.pipeline.schedule == "1f1b";
    if (is_serial || is_pipeline)
      CHECK(more == once);
    else
      CHECK(more >= once);
  }
}

}  // namespace heddle::test::ema_test
