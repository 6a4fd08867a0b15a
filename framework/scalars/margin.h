// Margin softmax: how a row's cosines become logits. A margin has four parts:
//
//   row statistic   a value of each row that it needs before the logits, and the parameter that it makes of that value;
//   target map      the logit of the row's own class: scale * phi(cosine);
//   negative map    the logit of every other class: scale * n(cosine);
//   state           running statistics of the global batch. A step uses those of the steps before it, in all of its
//                   micro-batches, and adds its own at its end. They are saved in checkpoints.
//
//   combined        phi(c) = cos(m1 * acos(c) + m2) - m3, n(c) = c, or 0 above the filter (InsightFace's interclass
//                   filtering). (1, 0, 0) is plain softmax, (1, .5, 0) ArcFace (Deng et al. 2019), (1, 0, .35) CosFace
//                   (Wang et al. 2018), (1.35, 0, 0) SphereFace (Liu et al. 2017), (4, 0, 0) with psi SphereFace as it
//                   was published.
//   l_softmax       takes products, not cosines: |w| |x| psi(c) with psi(theta) = (-1)^k cos(m theta) - 2k
//                   (Liu et al. 2016).
//   adaface         phi(c) = cos(acos(c) - m k) - m (1 + k) with the row's quality k: the norm of its embedding,
//                   standardised by the norms' running mean and deviation (Kim et al. 2022). No gradient goes through
//                   the norm.
//   curricularface  ArcFace for the target; a negative above the target's cos(theta + m) is hard, n(c) = c (t + c) with
//                   the running mean t of the targets' cosines (Huang et al. 2020). No gradient goes through the
//                   comparison, as published: negatives depend on the target by it alone. The published code adds a
//                   batch to t before it uses it; here a step's t is that of the steps before.
//
// Scalar code, shared by all backends.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "framework/host_device.h"

namespace heddle {

class Describer;

enum class MarginType { combined, l_softmax, adaface, curricularface };

/// How the target's logit is differentiated.
enum class MarginGradient {
  exact,            // phi'(c)
  straight_through  // dphi/dc = 1, as InsightFace does since December 2022
};

/// What phi is where the angle m1 * theta + m2 leaves [0, pi] and its cosine would rise again.
enum class BeyondPi {
  cosine,  // the formula goes on
  linear,  // c - m2 * sin(pi - m2), InsightFace's way until 2022
  easy,    // its easy margin: none at all for c <= 0
  psi      // (-1)^k cos(angle) - 2k with k = floor(angle / pi), which falls all the way (SphereFace)
};

struct CombinedMargin {
  double m1 = 1.0;
  double m2 = 0.0;
  double m3 = 0.0;
  MarginGradient gradient = MarginGradient::exact;
  BeyondPi beyond_pi = BeyondPi::cosine;
  double filter = 0;  // 0: none

  /// Whether it does not change the logits.
  bool is_plain() const { return m1 == 1 && m2 == 0 && m3 == 0 && beyond_pi == BeyondPi::cosine && filter == 0; }
};
struct LSoftmaxMargin {
  std::int64_t m = 2;
};
struct AdaFaceMargin {
  double m = 0.4;
  double h = 0.333;        // qualities of one deviation
  double momentum = 0.01;  // weight of a step's norms in the running ones
};
struct CurricularFaceMargin {
  double m = 0.5;
  double momentum = 0.01;
};

/// phi(c) and its derivative.
template <class T>
struct TargetValue {
  T phi;
  T slope;
};

/// A margin that an extension of the program defines: a target map with up to four settings. It has no row statistic,
/// no negative map and no state. Its function is the host's, which the device cuda cannot call.
struct ExtensionMargin {
  static constexpr std::size_t max_settings = 4;
  struct Setting {
    const char* name;
    double default_value;
    double minimum;
    double maximum;
    std::string_view help;
  };
  std::string_view name;
  std::string_view help;
  /// phi of a cosine in (-1, 1), and its derivative. `settings` are in the order of the list below.
  TargetValue<double> (*target)(double cosine, const double* settings);
  std::vector<Setting> settings{};
};
/// Experiments that are read later may name these margins. Must be called before there are several threads. InputError
/// for a name that a margin has, or for more than four settings.
void add_margins(const std::vector<ExtensionMargin>& margins);

/// An extension's margin with the values of its settings.
struct ChosenExtensionMargin {
  const ExtensionMargin* margin = nullptr;  // none: the margin is one of MarginType
  std::array<double, ExtensionMargin::max_settings> settings{};
};

struct MarginConfig {
  MarginType type = MarginType::combined;
  double scale = 64.0;
  CombinedMargin combined{};
  LSoftmaxMargin l_softmax{};
  AdaFaceMargin adaface{};
  CurricularFaceMargin curricularface{};
  /// Replaces the target map of `combined`, whose members have their defaults.
  ChosenExtensionMargin extension{};
};

void describe(Describer& d, MarginConfig& config);
/// InputError if settings contradict each other. `normalize`: whether the logits are computed from cosines.
void check(const MarginConfig& margin, bool normalize);

/// The largest logit that a cosine can give.
double max_logit(const MarginConfig& margin);
/// The smallest logit that a cosine can give.
double min_logit(const MarginConfig& margin);

/// The value of each row that a margin needs before the logits.
enum class RowStatistic {
  none,
  inverse_norm,   // 1 / |x|
  target_cosine,  // of the row's own class
  target_radius   // |w| |x| with the weight of the row's own class
};
RowStatistic row_statistic(const MarginConfig& margin);
bool has_negative_map(const MarginConfig& margin);
/// The running statistics before the first step; empty: the margin has none. AdaFace: mean and deviation of the norms;
/// CurricularFace: t.
std::vector<double> initial_running(const MarginConfig& margin);

/// A cosine that is kept away from +-1, where acos has an infinite slope, and which rounding may exceed.
template <class T>
HEDDLE_HOST_DEVICE T inner_cosine(T cosine) {
  const T bound = T{1} - static_cast<T>(1e-6);
  return cosine > bound ? bound : cosine < -bound ? -bound : cosine;
}

/// The value of a row that enters the running statistics. AdaFace: the norm, within bounds.
template <class T>
HEDDLE_HOST_DEVICE T observed_value(const MarginConfig& margin, T statistic) {
  if (margin.type != MarginType::adaface) return statistic;
  const T norm = T{1} / statistic;
  const T least = static_cast<T>(1e-3);
  const T most = static_cast<T>(100);
  return norm < least ? least : norm > most ? most : norm;
}

/// The quality of a row whose embedding has this norm.
template <class T>
HEDDLE_HOST_DEVICE T adaface_quality(const AdaFaceMargin& margin, const double* running, T norm) {
  const T spread = static_cast<T>(running[1] + 1e-3);
  const T quality = static_cast<T>(margin.h) * (norm - static_cast<T>(running[0])) / spread;
  return quality < T{-1} ? T{-1} : quality > T{1} ? T{1} : quality;
}

/// The parameter of a row, which its maps take. AdaFace: the quality; CurricularFace: the cosine above which a negative
/// is hard; L-Softmax: |w| |x|.
template <class T>
HEDDLE_HOST_DEVICE T row_parameter(const MarginConfig& margin, const double* running, T statistic) {
  switch (margin.type) {
    case MarginType::adaface:
      return adaface_quality(margin.adaface, running, observed_value(margin, statistic));
    case MarginType::curricularface:
      return std::cos(std::acos(inner_cosine(statistic)) + static_cast<T>(margin.curricularface.m));
    case MarginType::combined:
    case MarginType::l_softmax:
      break;
  }
  return statistic;
}

/// Moves a running value towards that of a step by this share of the difference.
HEDDLE_HOST_DEVICE inline void approach(double& running, double share, double value) {
  running += share * (value - running);
}

/// Adds a step's rows to the running statistics. `moments`: the number of rows, the sum of their observed values and
/// the sum of the squares of these.
HEDDLE_HOST_DEVICE inline void update_running(const MarginConfig& margin, const double* moments, double* running) {
  const double count = moments[0];
  if (count == 0) return;
  const double mean = moments[1] / count;
  switch (margin.type) {
    case MarginType::adaface: {
      approach(running[0], margin.adaface.momentum, mean);
      if (count < 2) return;
      const double square = (moments[2] - count * mean * mean) / (count - 1);
      approach(running[1], margin.adaface.momentum, std::sqrt(square > 0 ? square : 0));
      return;
    }
    case MarginType::curricularface:
      approach(running[0], margin.curricularface.momentum, mean);
      return;
    case MarginType::combined:
    case MarginType::l_softmax:
      return;
  }
}

/// psi of the angle factor * theta + shift at c = cos(theta), and its derivative by c.
template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> psi_of(T c, T factor, T shift) {
  const T angle = factor * std::acos(c) + shift;
  const T turns = std::floor(angle / static_cast<T>(3.14159265358979323846));
  const T sign = std::fmod(turns, T{2}) == T{0} ? T{1} : T{-1};
  return {sign * std::cos(angle) - T{2} * turns, sign * factor * std::sin(angle) / std::sqrt(T{1} - c * c)};
}

template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> combined_target(const CombinedMargin& margin, T cosine) {
  const T m1 = static_cast<T>(margin.m1);
  const T m2 = static_cast<T>(margin.m2);
  const T m3 = static_cast<T>(margin.m3);
  if (margin.beyond_pi == BeyondPi::easy && cosine <= T{0}) return {cosine, T{1}};
  if (m1 == T{1} && m2 == T{0}) return {cosine - m3, T{1}};
  if (margin.beyond_pi == BeyondPi::linear && cosine <= -std::cos(m2)) return {cosine - m2 * std::sin(m2) - m3, T{1}};
  const T c = inner_cosine(cosine);
  TargetValue<T> value;
  if (margin.beyond_pi == BeyondPi::psi) {
    value = psi_of(c, m1, m2);
  } else {
    const T angle = m1 * std::acos(c) + m2;
    value = {std::cos(angle), m1 * std::sin(angle) / std::sqrt(T{1} - c * c)};
  }
  return {value.phi - m3, margin.gradient == MarginGradient::straight_through ? T{1} : value.slope};
}

template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> adaface_target(const AdaFaceMargin& margin, T cosine, T quality) {
  const T m = static_cast<T>(margin.m);
  const T c = inner_cosine(cosine);
  const T least = static_cast<T>(1e-3);
  const T most = static_cast<T>(3.14159265358979323846) - least;
  const T taken = m * (T{1} + quality);
  const T angle = std::acos(c) - m * quality;
  if (angle < least || angle > most) return {std::cos(angle < least ? least : most) - taken, T{0}};
  return {std::cos(angle) - taken, std::sin(angle) / std::sqrt(T{1} - c * c)};
}

/// The target's product w.x -> phi and its derivative. `radius`: |w| |x|.
template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> l_softmax_target(const LSoftmaxMargin& margin, T product, T radius) {
  if (radius == T{0}) return {product, T{1}};
  const auto value = psi_of(inner_cosine(product / radius), static_cast<T>(margin.m), T{0});
  return {radius * value.phi, value.slope};
}

/// `experiment_checks` refuses it on the device cuda.
template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> extension_target(const ChosenExtensionMargin& chosen, T cosine) {
#ifdef __CUDA_ARCH__
  return {cosine, T{1}};
#else
  const auto value = chosen.margin->target(static_cast<double>(inner_cosine(cosine)), chosen.settings.data());
  return {static_cast<T>(value.phi), static_cast<T>(value.slope)};
#endif
}

/// The target's cosine (L-Softmax: its product w.x) -> phi and its derivative.
template <class T>
HEDDLE_HOST_DEVICE TargetValue<T> margin_target(const MarginConfig& margin, T cosine, T parameter = T{0}) {
  if (margin.extension.margin != nullptr) return extension_target(margin.extension, cosine);
  switch (margin.type) {
    case MarginType::adaface:
      return adaface_target(margin.adaface, cosine, parameter);
    case MarginType::curricularface:
      return combined_target(CombinedMargin{.m2 = margin.curricularface.m, .beyond_pi = BeyondPi::linear}, cosine);
    case MarginType::l_softmax:
      return l_softmax_target(margin.l_softmax, cosine, parameter);
    case MarginType::combined:
      break;
  }
  return combined_target(margin.combined, cosine);
}

/// L-Softmax: the derivative of phi by |w| |x| at this product w.x, which is psi(c) - c psi'(c).
template <class T>
HEDDLE_HOST_DEVICE T radial_slope(const MarginConfig& margin, T product, T radius) {
  if (radius == T{0}) return T{0};
  const T c = inner_cosine(product / radius);
  const auto value = psi_of(c, static_cast<T>(margin.l_softmax.m), T{0});
  return value.phi - c * value.slope;
}

/// The negative map of a row: n(c) = c up to the threshold, c * (linear + square * c) above it.
template <class T>
struct NegativeMap {
  T threshold = std::numeric_limits<T>::infinity();
  T linear = T{1};
  T square = T{0};

  HEDDLE_HOST_DEVICE T value(T c) const { return c > threshold ? c * (linear + square * c) : c; }
  HEDDLE_HOST_DEVICE T slope(T c) const { return c > threshold ? linear + T{2} * square * c : T{1}; }
};

template <class T>
HEDDLE_HOST_DEVICE NegativeMap<T> negative_map(const MarginConfig& margin, const double* running, T parameter) {
  switch (margin.type) {
    case MarginType::curricularface:
      return {parameter, static_cast<T>(running[0]), T{1}};
    case MarginType::combined:
      return {static_cast<T>(margin.combined.filter), T{0}, T{0}};
    case MarginType::l_softmax:
    case MarginType::adaface:
      break;
  }
  return {};
}

}  // namespace heddle
