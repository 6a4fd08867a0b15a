// Each margin trains alike wherever the logits are, on any number of ranks and in any micro-batches, and plan counts
// the bytes that it holds and sends.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/head/head_training.h"

namespace heddle::test::head_margin_ways_test {

namespace {

using test::check_alike;
using test::check_every_way;
using test::every_way;
using test::fits;
using test::Learned;
using test::train;
using test::Training;
using test::Way;

struct Case {
  std::string name;
  HeadConfig config;
};

/// With a large momentum, so that a step's running statistics change the next step.
std::vector<Case> every_margin() {
  return {
      {"linear", {.margin = {.scale = 16, .combined = {.m2 = 0.4, .beyond_pi = BeyondPi::linear}}}},
      {"easy", {.margin = {.scale = 16, .combined = {.m2 = 0.4, .beyond_pi = BeyondPi::easy}}}},
      {"psi", {.margin = {.scale = 16, .combined = {.m1 = 3, .beyond_pi = BeyondPi::psi}}}},
      {"filter", {.margin = {.scale = 16, .combined = {.m2 = 0.4, .filter = 0.2}}}},
      {"l_softmax", {.margin = {.type = MarginType::l_softmax, .scale = 2, .l_softmax = {.m = 3}}, .normalize = false}},
      {"adaface", {.margin = {.type = MarginType::adaface, .scale = 16, .adaface = {.momentum = 0.5}}}},
      {"curricularface",
       {.margin = {.type = MarginType::curricularface, .scale = 16, .curricularface = {.momentum = 0.5}}}},
      {"bias", {.margin = {.scale = 2}, .normalize = false, .bias = true}},
      {"sub_centres", {.margin = {.scale = 16, .combined = {.m2 = 0.4}}, .sub_centres = 3}},
      {"sub_centres of hard negatives",
       {.margin = {.type = MarginType::curricularface, .scale = 16, .curricularface = {.momentum = 0.5}},
        .sub_centres = 2}},
      {"own losses",
       {.margin = {.scale = 16, .combined = {.m2 = 0.4}}, .loss_reduction = LossReduction::reduce_scatter}},
  };
}

Training training_of(const Case& margin, std::int64_t classes) {
  Training t;
  t.config = margin.config;
  t.config.classes = classes;
  t.config.tile = 3;
  return t;
}

}  // namespace

TEST_CASE("every margin trains alike wherever the logits are and however many ranks") {
  for (const Case& margin : every_margin()) {
    CAPTURE(margin.name);
    check_every_way(training_of(margin, 11), {1, 2, 3});
  }
}

TEST_CASE("micro-batches change no margin: running statistics are those of the steps before") {
  for (const Case& margin : every_margin()) {
    CAPTURE(margin.name);
    Training t = training_of(margin, 9);
    t.config.logits = Logits::fused;
    t.micro_batches = 1;
    const Learned whole = train(t, 2);
    t.micro_batches = 4;
    check_alike(train(t, 2), whole, 1e-12);
  }
}

TEST_CASE("running statistics and margins go with sampled classes, on any number of ranks") {
  for (const Case& margin : every_margin()) {
    CAPTURE(margin.name);
    Training t = training_of(margin, 40);
    t.config.sample = {.rate = 0.3, .correction = true, .shards = 4};
    t.config.logits = Logits::sharded;
    const Learned reference = train(t, 1);
    for (const Way& way : {Way{Logits::sharded}, Way{Logits::fused}, Way{Logits::fused, true}})
      for (const int ranks : {1, 2, 3}) {
        if (!fits(margin.config, way)) continue;
        t.config.logits = way.logits;
        t.config.stash = way.stash;
        check_alike(train(t, ranks), reference, 1e-12);
      }
  }
}

TEST_CASE("plan holds and sends what a run does, for every margin") {
  for (const Case& margin : every_margin())
    for (const Way& way : every_way) {
      if (!fits(margin.config, way)) continue;
      CAPTURE(margin.name);
      CAPTURE(static_cast<int>(way.logits));
      Training t = training_of(margin, 50);
      t.dtype = DType::f32;
      t.config.logits = way.logits;
      t.config.stash = way.stash;
      check_planned(t, Mesh(3));
    }
}

}  // namespace heddle::test::head_margin_ways_test
