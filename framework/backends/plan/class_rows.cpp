// Only the selected rows of a table are read and written.
#include "framework/kernels/class_rows.h"

#include "framework/backends/plan/context.h"

namespace heddle::plan {

namespace {

std::int64_t columns_of(const Tensor& x) {
  return x.shape().back();
}

/// Bytes of n rows of x.
std::int64_t row_bytes(const Tensor& x, std::int64_t n) {
  return x.defined() ? n * plan::columns_of(x) * static_cast<std::int64_t>(size_of(x.dtype())) : 0;
}
std::int64_t scale_bytes(const ClassTable& table, std::int64_t n) {
  return table.scale.defined() ? n * static_cast<std::int64_t>(size_of(table.scale.dtype())) : 0;
}
std::int64_t taken_bytes(const ClassTable& table, std::int64_t n) {
  return table.taken.defined() ? n * static_cast<std::int64_t>(size_of(table.taken.dtype())) : 0;
}
std::int64_t bytes_of(const Tensor& x) {
  return x.defined() ? x.bytes() : 0;
}

/// Operations on an element to get its gradient: product and sum, then the part along the row taken away.
std::int64_t gradient_operations(const Tensor& inverse_norm, const Tensor& products) {
  return products.defined() && inverse_norm.defined() ? 5 : 0;
}

}  // namespace

}  // namespace heddle::plan

namespace heddle {

template <>
void ClassRowKernelsOn<plan::Context>::load(const ClassTable& table, const ClassSelection& selection,
                                            double /*epsilon*/, Tensor& rows, Tensor& inverse_norm) const {
  const std::int64_t elements = selection.size * plan::columns_of(table.weight);
  context_.counter.add(((inverse_norm.defined() ? 2 : 0) + (table.scale.defined() ? 1 : 0)) * elements,
                       plan::row_bytes(table.weight, selection.size) + plan::scale_bytes(table, selection.size) +
                           plan::bytes_of(selection.index) + plan::bytes_of(rows) + plan::bytes_of(inverse_norm));
}

template <>
void ClassRowKernelsOn<plan::Context>::step(ClassTable& table, const ClassSelection& selection, const Tensor& rows,
                                            const Tensor& inverse_norm, const Tensor& products,
                                            const ClassStep& step) const {
  const std::int64_t n = selection.size;
  const bool is_adamw = std::holds_alternative<AdamWStep>(step.update);
  const std::int64_t update = is_adamw ? 14 : table.momentum.defined() ? 6 : 4;
  // An 8-bit row is divided by its scale.
  const std::int64_t operations = plan::gradient_operations(inverse_norm, products) + (step.factor == 1 ? 0 : 1) +
                                  update + (table.scale.defined() ? 1 : 0);
  context_.counter.add(operations * n * plan::columns_of(table.weight),
                       plan::bytes_of(selection.index) + plan::bytes_of(rows) + plan::bytes_of(products) +
                           (products.defined() ? plan::bytes_of(inverse_norm) : 0) + plan::row_bytes(table.weight, n) +
                           plan::scale_bytes(table, n) + plan::taken_bytes(table, n) +
                           2 * (plan::row_bytes(table.momentum, n) + plan::row_bytes(table.square, n)));
}

template <>
bool ClassRowKernelsOn<plan::Context>::can_step_into_target() const {
  return false;
}

template <>
void ClassRowKernelsOn<plan::Context>::catch_up(ClassTable& table, const ClassSelection& selection,
                                                const DeferredSteps& /*steps*/) const {
  const std::int64_t n = selection.size;
  context_.counter.add(
      (table.momentum.defined() ? 6 : 1) * n * plan::columns_of(table.weight),
      plan::bytes_of(selection.index) +
          2 * (plan::row_bytes(table.weight, n) + plan::row_bytes(table.momentum, n) + plan::taken_bytes(table, n)));
}

template <>
void ClassRowKernelsOn<plan::Context>::add_squared_gradient(const Tensor& rows, const Tensor& inverse_norm,
                                                            const Tensor& products, double /*bound*/,
                                                            Tensor& /*result*/) const {
  if (!products.defined()) return;
  context_.counter.kernel((2 + plan::gradient_operations(inverse_norm, products)) * rows.numel(),
                          inverse_norm.defined() ? rows : Tensor(), inverse_norm, products);
}

template <>
void ClassRowKernelsOn<plan::Context>::fill(ClassTable& table, const DrawKey& /*key*/, std::int64_t /*first_element*/,
                                            const ClassInitial& /*initial*/) const {
  context_.counter.kernel(0, table.weight, table.scale);
}

}  // namespace heddle
