#include "framework/kernels/class_rows_checks.h"

#include "framework/error.h"

namespace heddle {

void check(const ClassSelection& selection, const Tensor& weight) {
  const std::int64_t rows = weight.shape()[0];
  if (selection.begin < 0 || selection.size < 0 || selection.begin + selection.size > rows)
    fail("class rows: expected rows of {}, got {} from {} on", rows, selection.size, selection.begin);
}

namespace {

void check_alike(const ClassTable& table, const ClassTable& target) {
  const auto check = [](const Tensor& x, const Tensor& y) {
    if (x.defined() != y.defined() || (x.defined() && (x.shape() != y.shape() || x.dtype() != y.dtype())))
      fail("class rows: {} cannot be stepped into {}", to_string(x), to_string(y));
  };
  check(table.weight, target.weight);
  check(table.scale, target.scale);
  check(table.momentum, target.momentum);
  check(table.square, target.square);
}

}  // namespace

void check(const ClassTable& table, const ClassSelection& selection, const Tensor& rows, const Tensor& products,
           const ClassStep& step) {
  const Tensor& weight = table.weight;
  const DType compute = compute_dtype(weight.dtype());
  const Shape selected{selection.size, weight.shape().back()};
  const auto is_state = [&weight](const Tensor& x) { return !x.defined() || x.shape() == weight.shape(); };
  const bool is_adamw = std::holds_alternative<AdamWStep>(step.update);
  if (!is_state(table.momentum) || !is_state(table.square) ||
      (is_adamw && (!table.momentum.defined() || !table.square.defined())) ||
      (table.momentum.defined() && compute_dtype(table.momentum.dtype()) != compute) ||
      (table.square.defined() && table.square.dtype() != compute))
    fail("class rows: weight {} with momentum {} and square {}", to_string(weight), to_string(table.momentum),
         to_string(table.square));
  const auto expect = [&selected](const Tensor& x, DType type) {
    if (x.shape() != selected || x.dtype() != type)
      fail("class rows: expected {}, got {}", to_string(type, selected), to_string(x));
  };
  if (step.target != nullptr) check_alike(table, *step.target);
  expect(rows, rows.dtype() == DType::bf16 || rows.dtype() == DType::f16 ? weight.dtype() : compute);
  if (products.defined()) expect(products, compute);
}

void check(const ClassTable& table, const DeferredSteps& steps) {
  const Tensor& weight = table.weight;
  const bool is_wide = weight.dtype() == DType::f32 || weight.dtype() == DType::f64;
  const bool is_alike = !table.momentum.defined() ||
                        (table.momentum.dtype() == weight.dtype() && table.momentum.shape() == weight.shape());
  if (!is_wide || !is_alike)
    fail("class rows: only f32 and f64 state can defer steps, got weight {} with momentum {}", to_string(weight),
         to_string(table.momentum));
  if (!table.taken.defined() || table.taken.dtype() != DType::i32 || table.taken.shape() != Shape{weight.shape()[0]})
    fail("class rows: expected the steps taken as {}, got {}", to_string(DType::i32, {weight.shape()[0]}),
         to_string(table.taken));
  if (steps.maps.dtype() != DType::f64 || steps.maps.numel() < 4 * 2 * steps.count)
    fail("class rows: expected the maps of {} steps, got {}", steps.count, to_string(steps.maps));
}

}  // namespace heddle
