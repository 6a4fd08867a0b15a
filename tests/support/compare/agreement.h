// Compares the tested backend with cpu: the same inputs must give the same values.
#pragma once

#include <string>
#include <vector>

#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test {

/// How far results in this type may differ, relative to the largest, if sums are computed in another order.
inline double rounding_of(DType dtype) {
  return dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
}

/// run(device) returns the results of kernels and makes its own inputs on both backends. A tolerance of 0 demands the
/// same bits.
template <class F>
void check_agreement(const std::string& what, double tolerance, F run) {
  Device tested = make_device();
  Device cpu = make_device("cpu");
  const std::vector<Tensor> results = run(tested);
  const std::vector<Tensor> expected = run(cpu);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> a = results[i].to_doubles();
    const std::vector<double> b = expected[i].to_doubles();
    const bool is_near = tolerance == 0 ? a == b : difference(a, b) <= tolerance;
    CHECK_MESSAGE(is_near, what << ", result " << i << ": apart by " << difference(a, b));
  }
}

/// Drawn values behind `skipped` others, so that accesses may be unaligned.
inline Tensor drawn(Device& device, const Shape& shape, DType dtype, std::uint64_t seed, std::int64_t skipped = 0) {
  const std::int64_t count = shape.numel();
  return tensor(device, {skipped + count}, normal_values(skipped + count, seed), dtype)
      .rows(skipped, skipped + count)
      .reshape(shape);
}
/// Room for results, with the same misalignment.
inline Tensor room(Device& device, const Shape& shape, DType dtype, std::int64_t skipped = 0) {
  const std::int64_t count = shape.numel();
  return Tensor::zeros(device, {skipped + count}, dtype).rows(skipped, skipped + count).reshape(shape);
}

}  // namespace heddle::test
