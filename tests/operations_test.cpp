#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "framework/ops/normalization.h"
#include "framework/ops/pooling.h"
#include "framework/ops/reduce.h"
#include "framework/ops/rows.h"
#include "framework/ops/shape.h"
#include "framework/scalar.h"
#include "tests/support/devices.h"
#include "tests/support/gradcheck.h"

namespace heddle::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("Every operation's gradient is its finite difference to 1e-7") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    const GradientError error = gradient_error(operation, device);
    CHECK_MESSAGE(error.largest <= 1e-7, operation.name << ": " << error.where);
  }
}

TEST_CASE("Case names are distinct") {
  std::set<std::string> names;
  for (const OperationCase& operation : operation_cases())
    CHECK_MESSAGE(names.insert(operation.name).second, operation.name);
}

TEST_CASE("A gradient does not change when the other inputs are constants") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    const CaseGraph all = make_graph(operation, device, DType::f64);
    all.go_back();
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const CaseGraph one = make_graph(operation, device, DType::f64, 1U << i);
      one.go_back();
      for (std::size_t j = 0; j < operation.inputs.size(); ++j) {
        const Tensor gradient = one.accumulators[j]->gradient();
        if (i == j)
          CHECK_MESSAGE(gradient.to_doubles() == all.accumulators[i]->gradient().to_doubles(), operation.name);
        else
          CHECK_MESSAGE(!gradient.defined(), operation.name);
      }
    }
  }
}

/// Outputs and gradients of a case in a type, against f64 on the same rounded inputs.
void compare_with_f64(const OperationCase& operation, Device& device, DType dtype, double tolerance) {
  const CaseGraph narrow = make_graph(operation, device, dtype);
  std::vector<std::vector<double>> rounded;
  for (const Variable& input : narrow.inputs) rounded.push_back(input.value().to_doubles());
  const CaseGraph wide = make_graph(operation, device, DType::f64, rounded);
  const auto check = [&](const Tensor& a, const Tensor& b, const std::string& what) {
    const double difference = relative_difference(a.to_doubles(), b.to_doubles());
    CHECK_MESSAGE(difference <= tolerance,
                  operation.name << " in " << name_of(dtype) << ": " << what << " differs by " << difference);
  };
  check(narrow.output.value(), wide.output.value(), "the output");
  narrow.go_back();
  wide.go_back();
  for (std::size_t i = 0; i < rounded.size(); ++i)
    check(narrow.accumulators[i]->gradient(), wide.accumulators[i]->gradient(), fmt::format("gradient {}", i));
}

TEST_CASE("Every operation in f32 and bf16 is f64's to rounding") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    compare_with_f64(operation, device, DType::f32, operation.f32_tolerance);
    compare_with_f64(operation, device, DType::bf16, operation.bf16_tolerance);
  }
}

TEST_CASE("exponential is within one unit of the last place, down to subnormal results") {
  const auto units = [](float x) {
    const double exact = std::exp(static_cast<double>(x));
    const float rounded = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) - rounded;
    return std::abs(static_cast<double>(exponential(x)) - exact) / unit;
  };
  double worst = 0;
  for (float x = -103; x < 88.7F; x += 0.00137F) worst = std::max(worst, units(x));
  for (float x = -1e-3F; x < 1e-3F; x += 1.7e-7F) worst = std::max(worst, units(x));
  CHECK(worst <= 1);
  CHECK(exponential(0.0F) == 1.0F);
  CHECK(exponential(-200.0F) == 0.0F);
  CHECK(exponential(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(exponential(89.0F) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}
}  // namespace
}  // namespace heddle::test
