// A margin of an extension is its function and its settings, wherever the logits are.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/head/head_training.h"
#include "tests/support/message.h"

namespace heddle::test {

namespace {

/// ArcFace's map.
TargetValue<double> added_angle(double cosine, const double* settings) {
  const double angle = std::acos(cosine) + settings[0];
  return {.phi = std::cos(angle), .slope = std::sin(angle) / std::sqrt(1 - cosine * cosine)};
}

const ExtensionMargin arcface_again{
    .name = "arcface_again", .help = "", .target = added_angle, .settings = {{"m", 0.5, 0, 3, "radians"}}};

}  // namespace

TEST_CASE("a margin of an extension with ArcFace's map trains as ArcFace wherever the logits are") {
  test::Training own = test::some_training(11);
  own.config.margin = {.scale = 16, .extension = {.margin = &arcface_again, .settings = {0.4}}};
  test::Training arcface = own;
  arcface.config.margin = {.scale = 16, .combined = {.m2 = 0.4}};
  for (const DType dtype : {DType::f64, DType::f32})
    for (const test::Way& way : test::every_way)
      for (const int ranks : {1, 3}) {
        CAPTURE(static_cast<int>(way.logits));
        for (test::Training* const t : {&own, &arcface}) {
          t->dtype = dtype;
          t->config.logits = way.logits;
          t->config.stash = way.stash;
        }
        check_alike(test::train(own, ranks), test::train(arcface, ranks), dtype == DType::f64 ? 1e-12 : 2e-5);
      }
}

TEST_CASE("the bounds of an extension's logits are those of its map, and include those of the other classes") {
  const MarginConfig own{.scale = 10, .extension = {.margin = &arcface_again, .settings = {0.4}}};
  CHECK(max_logit(own) == 10);
  CHECK(min_logit(own) == close_to(-10).epsilon(1e-6));
  const ExtensionMargin steep{.name = "steep", .help = "", .target = [](double c, const double*) {
                                return TargetValue<double>{.phi = 3 * c, .slope = 3};
                              }};
  CHECK(max_logit({.scale = 10, .extension = {.margin = &steep}}) == close_to(30).epsilon(1e-5));
  CHECK(min_logit({.scale = 10, .extension = {.margin = &steep}}) == close_to(-30).epsilon(1e-5));
}

TEST_CASE("an extension's margin needs a new name and at most four settings") {
  const auto error_of = [](const ExtensionMargin& margin) {
    return message_of<InputError>([&] { add_margins({margin}); });
  };
  CHECK(error_of({.name = "adaface", .help = "", .target = added_angle}) == "there is a margin \"adaface\" already");
  const ExtensionMargin::Setting setting{"m", 0, 0, 1, ""};
  CHECK(error_of({.name = "five", .help = "", .target = added_angle, .settings = {5, setting}}) ==
        "margin \"five\": expected at most 4 settings, got 5");
}

}  // namespace heddle::test
