// Leaves of either kind with drawn values, and roots with drawn gradients.
#pragma once

#include <memory>
#include <vector>

#include "framework/autograd/autograd.h"
#include "tests/support/devices.h"

namespace heddle::test {

enum class Kind { constant, parameter, input };

struct Leaf {
  std::shared_ptr<Accumulator> accumulator;
  Variable variable;

  Leaf(Kind kind, Tensor value)
      : accumulator(std::make_shared<Accumulator>(kind == Kind::input ? Category::activations : Category::gradients)) {
    variable = kind == Kind::constant    ? Variable(std::move(value))
               : kind == Kind::parameter ? Variable::parameter(std::move(value), accumulator)
                                         : Variable::input(std::move(value), accumulator);
  }
  Leaf(Device& device, Kind kind, const Shape& shape, std::uint64_t seed, DType dtype = DType::f64)
      : Leaf(kind, tensor(device, shape, normal_values(shape.numel(), seed), dtype)) {}

  /// The gradient that was accumulated; empty if none was.
  std::vector<double> gradient() const {
    return accumulator->gradient().defined() ? accumulator->gradient().to_doubles() : std::vector<double>();
  }
};

inline Root root_of(const Variable& y, std::uint64_t seed = 99) {
  return {y, tensor(y.device(), y.shape(), normal_values(y.value().numel(), seed), y.dtype())};
}

inline std::vector<std::vector<double>> gradients_of(const std::vector<Leaf>& leaves) {
  std::vector<std::vector<double>> gradients;
  for (const Leaf& leaf : leaves) gradients.push_back(leaf.gradient());
  return gradients;
}

}  // namespace heddle::test
