// The learning rate of each step: a pure function of the step, so that a resumed run continues where it was.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

class Describer;

enum class LearningRateType { constant, step, polynomial, cosine };

struct LearningRateConfig {
  LearningRateType type = LearningRateType::constant;
  std::int64_t warm_up = 0;                // steps of linear growth to the base rate
  std::vector<std::int64_t> milestones{};  // step: from these steps on ...
  double factor = 0.1;                     // step: ... the rate is multiplied by this
  double power = 2;                        // polynomial
  double final_share = 0;                  // polynomial, cosine: share of the base rate at the end
};

/// The tagged union "schedule": {"type": ..., ...}.
void describe_learning_rate(Describer& d, const char* key, LearningRateConfig& config);

/// The rate of a step, 0 .. steps-1. Warm-up: base * (step + 1) / warm_up for the first warm_up steps; then, with t =
/// (step - warm_up) / (steps - warm_up),
///   constant    base
///   step        base * factor^(number of milestones <= step)
///   polynomial  base * (final_share + (1 - final_share) * (1 - t)^power)
///   cosine      base * (final_share + (1 - final_share) * (1 + cos(pi t)) / 2)
double learning_rate(const LearningRateConfig& config, double base, std::int64_t step, std::int64_t steps);

}  // namespace heddle
