#include <algorithm>
#include <vector>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/elementwise/bias.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/kernels/elementwise.h"
#include "framework/scalars/scalar.h"

namespace heddle::cpu {

namespace {

/// One dimension of the result, with the operands' strides; 0 repeats an element.
struct Step {
  std::int64_t size;
  std::int64_t a;
  std::int64_t b;
};

std::int64_t stride_of(const Shape& shape, int from_end) {
  const int dimension = shape.rank() - 1 - from_end;
  if (dimension < 0 || shape[dimension] == 1) return 0;
  return shape.product(dimension + 1, shape.rank());
}

/// The result's dimensions, those merged that both operands walk as one. The last one is the inner loop.
std::vector<Step> steps_of(const Shape& a, const Shape& b, const Shape& y) {
  std::vector<Step> steps;
  for (int i = 0; i < y.rank(); ++i) {
    const int from_end = y.rank() - 1 - i;
    const Step step{y[i], stride_of(a, from_end), stride_of(b, from_end)};
    if (step.size == 1) continue;
    if (!steps.empty() && steps.back().a == step.size * step.a && steps.back().b == step.size * step.b)
      steps.back() = {steps.back().size * step.size, step.a, step.b};
    else
      steps.push_back(step);
  }
  if (steps.empty()) steps.push_back({1, 0, 0});
  return steps;
}

template <BinaryOp op, class T>
void inner_loop(const T* a, const T* b, Step step, T* y) {
  using C = Compute<T>;
  const auto at = [](const T* x, std::int64_t i) { return static_cast<C>(x[i]); };
  if (step.a != 0 && step.b != 0) {
#pragma omp simd
    for (std::int64_t i = 0; i < step.size; ++i) assign(y[i], binary_value<op>(at(a, i), at(b, i)));
  } else if (step.a != 0) {
    const C right = at(b, 0);
#pragma omp simd
    for (std::int64_t i = 0; i < step.size; ++i) assign(y[i], binary_value<op>(at(a, i), right));
  } else if (step.b != 0) {
    const C left = at(a, 0);
#pragma omp simd
    for (std::int64_t i = 0; i < step.size; ++i) assign(y[i], binary_value<op>(left, at(b, i)));
  } else {
    std::fill(y, y + step.size, static_cast<T>(binary_value<op>(at(a, 0), at(b, 0))));
  }
}

template <BinaryOp op, class T>
void broadcast(const T* a, const T* b, std::vector<Step> steps, T* y) {
  const Step inner = steps.back();
  steps.pop_back();
  if (steps.empty()) {
    parallel_for(inner.size, default_grain, [&](std::int64_t begin, std::int64_t end) {
      inner_loop<op>(a + begin * inner.a, b + begin * inner.b, {end - begin, inner.a, inner.b}, y + begin);
    });
    return;
  }
  std::int64_t rows = 1;
  for (const Step& step : steps) rows *= step.size;
  parallel_for(rows, 1 + default_grain / inner.size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t in_a = 0;
      std::int64_t in_b = 0;
      std::int64_t rest = row;
      for (std::size_t i = steps.size(); i-- > 0;) {
        const std::int64_t position = i == 0 ? rest : rest % steps[i].size;
        rest = i == 0 ? 0 : rest / steps[i].size;
        in_a += position * steps[i].a;
        in_b += position * steps[i].b;
      }
      inner_loop<op>(a + in_a, b + in_b, inner, y + row * inner.size);
    }
  });
}

void broadcast(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.numel() == 0) return;
  visit_floating(y.dtype(), "binary", [&]<class T>(T) {
    visit(op, [&](auto which) {
      broadcast<decltype(which)::value>(a.as<const T>(), b.as<const T>(), steps_of(a.shape(), b.shape(), y.shape()),
                                        y.as<T>());
    });
  });
}

}  // namespace

void add_bias(const Tensor& bias, Tensor& y) {
  if (bias.defined()) broadcast(BinaryOp::add, y, bias, y);
}

}  // namespace heddle::cpu

namespace heddle {

template <>
void ElementwiseKernelsOn<cpu::Context>::binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) const {
  cpu::broadcast(op, a, b, y);
}

}  // namespace heddle
