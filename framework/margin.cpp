#include "framework/margin.h"

#include <algorithm>
#include <array>

#include "framework/describe.h"

namespace heddle {

template <>
std::span<const std::string_view> names_of<MarginGradient>() {
  static constexpr std::array<std::string_view, 2> names{"exact", "straight_through"};
  return names;
}

double largest_logit(const MarginConfig& margin) {
  return margin.scale * (1 + std::max(0.0, -margin.m3));
}

double smallest_logit(const MarginConfig& margin) {
  return -margin.scale * (1 + std::max(0.0, margin.m3));
}

void describe(Describer& d, MarginConfig& c) {
  d.field("m1", c.m1, above(0), "factor on the target's angle (SphereFace)");
  d.field("m2", c.m2, between(0, 3.141592653589793), "radians added to the target's angle (ArcFace)");
  d.field("m3", c.m3, any_number(), "subtracted from the target's cosine (CosFace, AM-softmax)");
  d.field("scale", c.scale, above(0), "factor on every cosine before the softmax");
  choice(d, "gradient", c.gradient, "derivative of the target's logit");
}

}  // namespace heddle
