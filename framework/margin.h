// Margin softmax: the target's logit is scale * phi(cos), phi(c) = cos(m1 * acos(c) + m2) - m3, every other's
// scale * cos. (1, 0, 0) is plain softmax, (1, .5, 0) ArcFace (Deng et al. 2019), (1, 0, .35) CosFace (Wang et al.
// 2018), (1.35, 0, 0) SphereFace (Liu et al. 2017). Scalar code, shared by all backends.
#pragma once

#include <cmath>
#include <span>
#include <string_view>

#include "framework/host_device.h"

namespace heddle {

class Describer;

/// How the target's logit is differentiated.
enum class MarginGradient {
  exact,            // phi'(c) = m1 * sin(m1 * acos c + m2) / sqrt(1 - c^2)
  straight_through  // dphi/dc = 1, as InsightFace does since December 2022
};

struct MarginConfig {
  double m1 = 1.0;
  double m2 = 0.0;
  double m3 = 0.0;
  double scale = 64.0;
  MarginGradient gradient = MarginGradient::exact;
};

void describe(Describer& d, MarginConfig& config);

/// No logit of cosines is larger.
double largest_logit(const MarginConfig& margin);
/// And none is smaller.
double smallest_logit(const MarginConfig& margin);

/// phi(c) and its derivative.
template <class T>
struct TargetValue {
  T phi;
  T slope;
};

template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> margin_target(const MarginConfig& margin, T cosine) {
  const T m1 = static_cast<T>(margin.m1);
  const T m2 = static_cast<T>(margin.m2);
  const T m3 = static_cast<T>(margin.m3);
  if (m1 == T{1} && m2 == T{0}) return {cosine - m3, T{1}};
  // acos has an infinite slope at 1 and is undefined beyond it, where rounding puts cosines.
  const T bound = T{1} - static_cast<T>(1e-6);
  const T c = cosine > bound ? bound : cosine < -bound ? -bound : cosine;
  const T angle = m1 * std::acos(c) + m2;
  const T slope =
      margin.gradient == MarginGradient::straight_through ? T{1} : m1 * std::sin(angle) / std::sqrt(T{1} - c * c);
  return {std::cos(angle) - m3, slope};
}

}  // namespace heddle
