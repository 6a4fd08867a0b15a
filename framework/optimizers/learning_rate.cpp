#include "framework/optimizers/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "framework/description/describe.h"

namespace heddle {

void describe_learning_rate(Describer& d, const char* key, LearningRateConfig& c) {
  const auto warm_up = [&c](Describer& inner) {
    inner.field("warm_up", c.warm_up, between(0, 1e12), "steps of linear growth to the optimizer's lr");
  };
  const auto final_share = [&c](Describer& inner) {
    inner.field("final_share", c.final_share, between(0, 1), "share of the lr that it falls to after the last step");
  };
  const std::array<Describer::Alternative, 4> kinds{
      {{"constant", "the lr at every step", warm_up},
       {"step", "falls by a factor at given steps",
        [&c, warm_up](Describer& inner) {
          warm_up(inner);
          inner.field("milestones", c.milestones, between(1, 1e12), between(0, 1000), "steps at which the lr falls");
          inner.field("factor", c.factor, above(0), "what it is multiplied by there");
        }},
       {"polynomial", "falls as a power of the share of steps that is left",
        [&c, warm_up, final_share](Describer& inner) {
          warm_up(inner);
          inner.field("power", c.power, above(0), "1: linear");
          final_share(inner);
        }},
       {"cosine", "falls along half a cosine", [warm_up, final_share](Describer& inner) {
          warm_up(inner);
          final_share(inner);
        }}}};
  int type = static_cast<int>(c.type);
  d.tagged(key, type, kinds, "how the learning rate changes from step to step");
  c.type = static_cast<LearningRateType>(type);
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
