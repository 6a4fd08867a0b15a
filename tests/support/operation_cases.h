// One table of cases for all operations: the arguments of each and its tolerance. The gradient check, the comparison of
// types and backends, and the byte counts of plan all use it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/autograd/autograd.h"
#include "framework/tensors/device.h"

namespace heddle::test {

/// How an input is drawn. No kink may lie within a finite difference of it.
enum class Domain {
  normal,
  away_from_zero,  // |x| in [0.3, 1.3]
  positive,        // [0.3, 1.3]
  distinct,        // multiples of 0.1, each once, in random order
};

struct CaseInput {
  Shape shape;
  Domain values = Domain::normal;
  bool is_of_compute_type = false;  // slopes, gammas and betas are f32 with 16-bit elements
};

struct OperationCase {
  std::string name;
  std::vector<CaseInput> inputs;
  std::function<Variable(const std::vector<Variable>&)> run;
  // Largest deviation from f64 over the largest value, for outputs and gradients.
  double f32_tolerance = 2e-6;
  double bf16_tolerance = 2e-2;
};

const std::vector<OperationCase>& operation_cases();

/// The values of an input as f64.
std::vector<double> case_values(const CaseInput& input, std::size_t position);

/// A case's graph on a device: leaves with accumulators, and the output.
struct CaseGraph {
  std::vector<Variable> inputs;
  std::vector<std::shared_ptr<Accumulator>> accumulators;
  Variable output;

  /// Runs the backward pass from fixed, drawn gradients of the output.
  void go_back() const;
};

/// `values` of each input are rounded to the type. Inputs whose bit in `wanted` is 0 are constants.
CaseGraph make_graph(const OperationCase& operation, Device& device, DType dtype,
                     const std::vector<std::vector<double>>& values, unsigned wanted = ~0U);
CaseGraph make_graph(const OperationCase& operation, Device& device, DType dtype, unsigned wanted = ~0U);

/// The drawn gradients of the output that `go_back` uses.
std::vector<double> output_gradients(std::int64_t count);

}  // namespace heddle::test
