// Convolutions by Winograd's method, which experiments use by default, in every layout.
#include <doctest/doctest.h>

#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/pooling.h"
#include "tests/support/layouts.h"

namespace heddle::test::winograd_test {

namespace {

/// Two convolutions of enough channels and pixels. `split`: the channels of the first are sharded.
ModelPointer model_of(bool split) {
  ModelSpec model({12, 12, 3});
  model.then("stem", Convolution::spec({.in = 3, .out = 32}));
  model.then("relu0", Activation::spec(ActivationKind::relu));
  model.then("conv1", Convolution::spec({.in = 32, .out = 64}));
  model.then("relu1", Activation::spec(ActivationKind::relu));
  model.then("conv2", Convolution::spec({.in = 64, .out = 32}));
  model.then("relu2", Activation::spec(ActivationKind::relu));
  model.then("flatten", Flatten::spec());
  model.then("fc", Linear::spec({.in = 12 * 12 * 32, .out = 6}));
  if (split) {
    model.place("conv1", {Parallel::column, Axis::tp});
    model.place("conv2", {Parallel::row, Axis::tp});
  }
  return std::make_shared<ModelSpec>(model);
}

Experiment experiment_of(WinogradUse use) {
  Experiment experiment = small_experiment(10, 32, 6, DType::f32);
  experiment.data.synthetic_identities.image = {3, 12, 12};
  experiment.winograd = use;
  return experiment;
}

}  // namespace

TEST_CASE("layouts whose convolutions use Winograd's method equal their serial reference") {
  const Experiment experiment = experiment_of(WinogradUse::automatic);
  check_against_reference(experiment, model_of(false), {.mesh = Mesh(2), .micro_batches = 2});
  check_against_reference(experiment, model_of(true), {.mesh = Mesh(1, 1, 2), .micro_batches = 2});
  check_against_reference(experiment, model_of(true), {.mesh = Mesh(2, 1, 2)});
  // Ranks with 16 of conv1's channels: too few, where the serial run has enough.
  check_against_reference(experiment, model_of(true), {.mesh = Mesh(1, 1, 4)});
  // Serial runs differ in the last bits with and without it: it was used.
  if (tested_backend() != "cpu") return;
  const Layout serial{.mesh = Mesh()};
  CHECK(train(experiment, model_of(false), serial, 1).gradients !=
        train(experiment_of(WinogradUse::off), model_of(false), serial, 1).gradients);
}

TEST_CASE("schedules and stages change no bit where convolutions use Winograd's method") {
  const Experiment experiment = experiment_of(WinogradUse::automatic);
  const Layout serial{.mesh = Mesh(), .micro_batches = 4};
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    check_same_bits(experiment, model_of(false), serial,
                    {.mesh = Mesh(1, 2), .micro_batches = 4, .pipeline = pipeline_by(schedule), .over = last_stage});
}

TEST_CASE("plan counts the memory of convolutions by Winograd's method to the byte") {
  const Experiment experiment = experiment_of(WinogradUse::automatic);
  for (const Layout& layout : {Layout{.mesh = Mesh()}, Layout{.mesh = Mesh(2, 1, 2)}})
    CHECK(use_of_step(experiment, model_of(true), layout, "plan") == use_of_step(experiment, model_of(true), layout));
}

}  // namespace heddle::test::winograd_test
