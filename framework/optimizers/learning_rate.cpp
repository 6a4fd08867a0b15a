#include "framework/optimizers/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/description/describe.h"

namespace heddle {

namespace {

void describe_warm_up(Describer& d, LearningRateConfig& c) {
  d.field("warm_up", c.warm_up, between(0, 1e12), "steps in which the rate grows linearly to the optimizer's lr");
}

void describe_final_share(Describer& d, LearningRateConfig& c) {
  d.field("final_share", c.final_share, between(0, 1), "fraction of the lr that remains after the last step");
}

void describe_step(Describer& d, LearningRateConfig& c) {
  describe_warm_up(d, c);
  d.field("milestones", c.milestones, between(1, 1e12), between(0, 1000), "steps at which the lr falls");
  d.field("factor", c.factor, above(0), "factor by which the lr is multiplied at each milestone");
}

void describe_polynomial(Describer& d, LearningRateConfig& c) {
  describe_warm_up(d, c);
  d.field("power", c.power, above(0), "exponent of the share of steps that is left; 1: the rate falls linearly");
  describe_final_share(d, c);
}

void describe_cosine(Describer& d, LearningRateConfig& c) {
  describe_warm_up(d, c);
  describe_final_share(d, c);
}

constexpr auto learning_rates = enum_table<LearningRateType, AlternativeRow<LearningRateConfig>>({
    {LearningRateType::constant, {"constant", "the lr at every step", describe_warm_up}},
    {LearningRateType::step, {"step", "falls by a factor at given steps", describe_step}},
    {LearningRateType::polynomial,
     {"polynomial", "falls as a power of the share of steps that is left", describe_polynomial}},
    {LearningRateType::cosine, {"cosine", "falls along half a cosine", describe_cosine}},
});

}  // namespace

void describe_learning_rate(Describer& d, const char* key, LearningRateConfig& c) {
  tagged(d, key, c.type, learning_rates, c, "how the learning rate changes from step to step");
}

double learning_rate(const LearningRateConfig& config, double base, std::int64_t step, std::int64_t steps) {
  if (step < config.warm_up) return base * static_cast<double>(step + 1) / static_cast<double>(config.warm_up);
  const auto left = static_cast<double>(std::max<std::int64_t>(steps - config.warm_up, 1));
  const double t = std::min(static_cast<double>(step - config.warm_up) / left, 1.0);
  switch (config.type) {
    case LearningRateType::constant:
      return base;
    case LearningRateType::step: {
      const auto passed = std::count_if(config.milestones.begin(), config.milestones.end(),
                                        [step](std::int64_t milestone) { return milestone <= step; });
      return base * std::pow(config.factor, static_cast<double>(passed));
    }
    case LearningRateType::polynomial:
      return base * (config.final_share + (1 - config.final_share) * std::pow(1 - t, config.power));
    case LearningRateType::cosine:
      return base * (config.final_share + (1 - config.final_share) * (1 + std::cos(std::numbers::pi * t)) / 2);
  }
  return base;
}

}  // namespace heddle
