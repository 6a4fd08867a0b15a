// The margin `li_arcface`: a logit that falls linearly with the target's angle, phi = 1 - 2 (angle + m) / pi (Li et al.
// 2019, "AirFace: lightweight and efficient model for face recognition"). The logits of other classes stay cosines
// here.
#include <cmath>
#include <numbers>

#include "experiments/extensions/extension.h"

using namespace heddle;

/// phi and its derivative by the cosine, which is never +-1.
static TargetValue<double> li_arcface(double cosine, const double* settings) {
  constexpr double factor = 2 / std::numbers::pi;
  const double m = settings[0];
  return {.phi = 1 - factor * (std::acos(cosine) + m), .slope = factor / std::sqrt(1 - cosine * cosine)};
}

extern "C" void heddle_extend(Extension& own) {
  own.margins.push_back({.name = "li_arcface",
                         .help = "1 - 2 (angle + m) / pi for the target",
                         .target = li_arcface,
                         .settings = {{"m", 0.4, 0, std::numbers::pi, "radians added to the target's angle"}}});
}
