// Graphs of random operations.
#pragma once

#include <vector>

#include "framework/autograd/recompute.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/normalization.h"
#include "tests/support/autograd/leaves.h"

namespace heddle::test {

/// Random operations on [6, 4]. Most of them have parameters that others read, too; some read only products of
/// parameters.
class RandomGraph {
 public:
  RandomGraph(Device& device, std::uint64_t seed) : seed_(seed) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      inputs.emplace_back(device, i == 2 ? Kind::constant : Kind::input, Shape{6, 4}, 10 * seed + i, DType::f32);
      channels_.emplace_back(device, Kind::parameter, Shape{4}, 20 * seed + i, DType::f32);
      matrices_.emplace_back(device, Kind::parameter, Shape{4, 4}, 30 * seed + i, DType::f32);
    }
    parameters = channels_;
    parameters.insert(parameters.end(), matrices_.begin(), matrices_.end());
  }

  /// Gives the same operations each time. With `recomputes` they are in segments, all of whose values are outputs.
  std::vector<Root> forward(bool recomputes = false) const {
    std::vector<Variable> values;
    for (const Leaf& input : inputs) values.push_back(input.variable);
    for (std::uint64_t i = 0; i < segments; ++i) {
      const SegmentFunction run = [this, i](std::span<const Variable> given, bool) {
        return segment(i, {given.begin(), given.end()});
      };
      values = recomputes ? recompute_segment(values, run) : run(values, false);
    }
    std::vector<Root> roots;
    for (std::size_t i = values.size() - 3; i < values.size(); ++i)
      if (values[i].leads().anywhere()) roots.push_back(root_of(heddle::tanh(values[i]), seed_ + i));
    return roots;
  }

  std::vector<Leaf> inputs;
  std::vector<Leaf> parameters;

 private:
  static constexpr std::uint64_t segments = 4;

  std::vector<Variable> segment(std::uint64_t number, std::vector<Variable> values) const {
    RandomStream draw({seed_}, Purpose::test, 3, number);
    const auto any = [&](const auto& of) -> const auto& {
      return of[draw.below(of.size())];
    };
    const auto parameter = [&](const std::vector<Leaf>& of, auto product) {
      const Variable& p = any(of).variable;
      return draw.below(3) == 0 ? product(p, any(of).variable) : p;
    };
    const auto channel = [&] {
      return parameter(channels_, [](const Variable& a, const Variable& b) { return multiply(a, b); });
    };
    const auto matrix = [&] {
      return parameter(matrices_, [](const Variable& a, const Variable& b) { return matmul(a, b); });
    };
    for (int i = 0; i < 6; ++i) {
      const Variable x = any(values);
      const Variable p = channel();
      switch (draw.below(8)) {
        case 0:
          values.push_back(linear(x, matrix(), p));
          break;
        case 1:
          values.push_back(multiply(x, p));
          break;
        case 2:
          values.push_back(add(x, any(values)));
          break;
        case 3:
          values.push_back(heddle::tanh(x));
          break;
        case 4:
          values.push_back(prelu(x, p));
          break;
        case 5:
          values.push_back(add_bias(x, p));
          break;
        case 6:
          values.push_back(layer_norm(x, p, any(channels_).variable, 1e-5));
          break;
        default: {
          Tensor statistics;
          values.push_back(batch_norm(x, p, any(channels_).variable, 1e-5, {.residual = any(values)}, statistics));
        }
      }
    }
    return values;
  }

  std::uint64_t seed_;
  std::vector<Leaf> channels_;
  std::vector<Leaf> matrices_;
};

}  // namespace heddle::test
