#include "tests/support/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "tests/support/devices.h"

namespace heddle::test {

namespace {

// Truncation errs by about h^4 f^(5) / 30, rounding by 1e-16 f / h, where h is the increment: both well below 1e-10
// here.
constexpr double increment = 1e-3;

/// Inputs of more elements are not differenced at all of them.
constexpr std::size_t max_differenced = 300;

/// The differences of an operation's weighted sum of outputs around the values of its inputs.
class Differences {
 public:
  Differences(const OperationCase& operation, Device& device, std::vector<std::vector<double>> values,
              std::vector<double> weights)
      : operation_(operation), device_(device), values_(std::move(values)), weights_(std::move(weights)) {}

  double at_element(std::size_t input, std::size_t element) const {
    return quotient([=](auto& values, double step) { values[input][element] += step; });
  }
  double along(std::size_t input, const std::vector<double>& direction) const {
    return quotient([&, input](auto& values, double step) {
      for (std::size_t e = 0; e < direction.size(); ++e) values[input][e] += step * direction[e];
    });
  }

 private:
  /// d(sum of weights * output) / dt, where `move(values, t)` moves the values by t.
  template <class Move>
  double quotient(const Move& move) const {
    const NoGrad no_grad(device_);
    const auto output = [&](double step) {
      std::vector<std::vector<double>> moved = values_;
      move(moved, step);
      return make_graph(operation_, device_, DType::f64, moved).output.value().to_doubles();
    };
    const std::vector<double> up = output(increment);
    const std::vector<double> down = output(-increment);
    const std::vector<double> far_up = output(2 * increment);
    const std::vector<double> far_down = output(-2 * increment);
    double sum = 0;
    for (std::size_t i = 0; i < up.size(); ++i)
      sum += weights_[i] * (8 * (up[i] - down[i]) - (far_up[i] - far_down[i])) / (12 * increment);
    return sum;
  }

  const OperationCase& operation_;
  Device& device_;
  std::vector<std::vector<double>> values_;
  std::vector<double> weights_;
};

/// A direction of length 1 in which all elements change equally far.
std::vector<double> direction_of(std::size_t elements, std::uint64_t seed) {
  std::vector<double> direction = normal_values(static_cast<std::int64_t>(elements), seed);
  for (double& each : direction) each = std::copysign(1 / std::sqrt(static_cast<double>(elements)), each);
  return direction;
}

/// The distance of the elements that are differenced. It has no factor in common with any side of a tensor of so many
/// elements, so that they are spread over all of its rows and columns.
std::size_t stride_over(std::size_t elements) {
  std::size_t stride = (elements + max_differenced - 1) / max_differenced;
  while (stride > 1 && std::gcd(stride, elements) > 1) ++stride;
  return stride;
}

/// What a gradient is compared with, and where.
struct Compared {
  std::string where;
  double gradient = 0;
  double expected = 0;
};

std::vector<Compared> compared(const Differences& differences, std::size_t input, const std::vector<double>& gradient) {
  std::vector<Compared> all;
  const std::size_t stride = stride_over(gradient.size());
  for (std::size_t e = 0; e < gradient.size(); e += stride)
    all.push_back({fmt::format("element {}", e), gradient[e], differences.at_element(input, e)});
  if (stride <= 1) return all;
  for (const std::uint64_t seed : {101, 102}) {
    const std::vector<double> direction = direction_of(gradient.size(), seed);
    const double along = std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
    all.push_back({"along a direction", along, differences.along(input, direction)});
  }
  return all;
}

}  // namespace

GradientError gradient_error(const OperationCase& operation, Device& device) {
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) values.push_back(case_values(operation.inputs[i], i));
  const CaseGraph graph = make_graph(operation, device, DType::f64, values);
  graph.go_back();
  const Differences differences(operation, device, values, output_gradients(graph.output.value().numel()));
  GradientError error;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<Compared> all = compared(differences, i, graph.accumulators[i]->gradient().to_doubles());
    double scale = 0;
    for (const Compared& each : all) scale = std::max(scale, std::abs(each.expected));
    for (const auto& [where, gradient, expected] : all) {
      const double relative = std::abs(gradient - expected) / std::max(scale, 1e-3);
      if (!(relative > error.largest) && !std::isnan(relative)) continue;
      error.largest = std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
      error.where = fmt::format("input {} {}: {} instead of {}", i, where, gradient, expected);
    }
  }
  return error;
}

}  // namespace heddle::test
