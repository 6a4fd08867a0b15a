#include "tests/support/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

namespace heddle::test {

namespace {

// Truncation errs by about h^4 f^(5) / 30, rounding by 1e-16 f / h, where h is the increment: both well below 1e-10
// here.
constexpr double increment = 1e-3;

/// d(sum of weights * output) / d(one element).
double difference_quotient(const OperationCase& operation, Device& device, std::vector<std::vector<double>>& values,
                           double& element, const std::vector<double>& weights) {
  const NoGrad no_grad(device);
  const double at = element;
  const auto output = [&](double step) {
    element = at + step;
    std::vector<double> result = make_graph(operation, device, DType::f64, values).output.value().to_doubles();
    element = at;
    return result;
  };
  const std::vector<double> up = output(increment);
  const std::vector<double> down = output(-increment);
  const std::vector<double> far_up = output(2 * increment);
  const std::vector<double> far_down = output(-2 * increment);
  double sum = 0;
  for (std::size_t i = 0; i < up.size(); ++i)
    sum += weights[i] * (8 * (up[i] - down[i]) - (far_up[i] - far_down[i])) / (12 * increment);
  return sum;
}

}  // namespace

GradientError gradient_error(const OperationCase& operation, Device& device) {
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) values.push_back(case_values(operation.inputs[i], i));
  const CaseGraph graph = make_graph(operation, device, DType::f64, values);
  graph.go_back();
  const std::vector<double> weights = output_gradients(graph.output.value().numel());
  GradientError error;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<double> gradient = graph.accumulators[i]->gradient().to_doubles();
    std::vector<double> expected;
    for (double& element : values[i])
      expected.push_back(difference_quotient(operation, device, values, element, weights));
    double scale = 0;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    for (std::size_t e = 0; e < expected.size(); ++e) {
      const double relative = std::abs(gradient[e] - expected[e]) / std::max(scale, 1e-3);
      if (!(relative > error.largest) && !std::isnan(relative)) continue;
      error.largest = std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
      error.where = fmt::format("input {} element {}: {} instead of {}", i, e, gradient[e], expected[e]);
    }
  }
  return error;
}

}  // namespace heddle::test
