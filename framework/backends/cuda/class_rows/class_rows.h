// The parts of the cuda backend's kernels of class rows that have files of their own; class_rows.cu composes them.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/class_rows.h"

namespace heddle::cuda {

// class_rows_step.cu
void step_rows(const Context& context, ClassTable& table, const ClassSelection& selection, const Tensor& rows,
               const Tensor& inverse_norm, const Tensor& products, const ClassStep& step);
// class_rows_norm.cu
void add_squared_gradient(const Context& context, const Tensor& rows, const Tensor& inverse_norm,
                          const Tensor& products, double bound, Tensor& result);
// class_rows_fill.cu
void fill_rows(const Context& context, ClassTable& table, const DrawKey& key, std::int64_t first_element,
               const ClassInitial& initial);

}  // namespace heddle::cuda
