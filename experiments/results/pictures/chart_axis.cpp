#include "experiments/results/pictures/chart_axis.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace heddle {

namespace {

/// Numbers at distances of 1, 2 or 5 times a power of ten.
std::vector<double> linear_ticks(double least, double greatest, int most) {
  const double rough = (greatest - least) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double share = rough / power;
  const double step = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::ceil(least / step) * step;
  for (int i = 0; i <= most; ++i) {
    const double exact = first + i * step;
    if (!(exact <= greatest + step * 1e-9)) break;
    const double tick = std::abs(exact) < step * 1e-9 ? 0 : exact;
    if (ticks.empty() || tick > ticks.back()) ticks.push_back(tick);
  }
  return ticks;
}

/// Powers of ten, with 2 and 5 times each where there is room, from 10^least to 10^greatest. The exponents may be
/// fractions.
std::vector<double> logarithmic_ticks(double least, double greatest, int most) {
  std::vector<double> ticks;
  if (3 * (greatest - least) <= most) {
    for (double power = std::floor(least); power <= greatest + 1e-9; ++power)
      for (const double digit : {1.0, 2.0, 5.0})
        if (const double exponent = power + std::log10(digit); exponent >= least - 1e-9 && exponent <= greatest + 1e-9)
          ticks.push_back(digit * std::pow(10, power));
    return ticks;
  }
  const double step = std::max(1.0, std::ceil((greatest - least) / most));
  for (double power = std::ceil(least - 1e-9); power <= greatest + 1e-9; power += step)
    ticks.push_back(std::pow(10, power));
  return ticks;
}

}  // namespace

ChartAxis::ChartAxis(double least, double greatest, double from, double to, bool logarithmic)
    : from_(from), to_(to), is_log_(logarithmic) {
  if (!(greatest > least)) greatest = least + std::max(std::abs(least), 1.0);
  least_ = at(least);
  greatest_ = at(greatest);
}

double ChartAxis::at(double value) const {
  return is_log_ ? std::log10(value) : value;
}

std::vector<double> ChartAxis::ticks(int most) const {
  return is_log_ ? logarithmic_ticks(least_, greatest_, most) : linear_ticks(least_, greatest_, most);
}

std::string tick_text(double value) {
  return fmt::format("{:.6g}", value);
}

}  // namespace heddle
