// Tables of classes' weights for the tests of their kernels: 9 rows of 300 columns, drawn as a new head's are.
#pragma once

#include <vector>

#include "framework/kernels/class_rows.h"
#include "tests/support/devices.h"

namespace heddle::test::class_tables {

inline constexpr double epsilon = 1e-12;
inline constexpr std::int64_t classes = 9;
inline constexpr std::int64_t columns = 300;  // more than two groups of draws, and none of them whole

inline const std::vector<DType> weight_types{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i8};

inline DType momentum_beside(DType weight) {
  return weight == DType::i8 ? DType::bf16 : weight;
}

/// Rows of different lengths, the same for the same seed.
inline std::vector<double> row_values(std::int64_t rows, std::uint64_t seed, double size = 1) {
  std::vector<double> values = normal_values(rows * columns, seed);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= size * (1 + static_cast<double>(i / columns));
  return values;
}

/// A table drawn as a new one is, with momentum and square of zeros where asked.
inline ClassTable drawn_table(Device& device, DType dtype, std::int64_t rows = classes, std::int64_t first_row = 0,
                              bool has_square = false, const ClassInitial& initial = {.deviation = 0.05}) {
  ClassTable table{.weight = Tensor::empty(device, {rows, columns}, dtype),
                   .momentum = Tensor::zeros(device, {rows, columns}, momentum_beside(dtype))};
  if (dtype == DType::i8) table.scale = Tensor::empty(device, {rows}, DType::f32);
  if (has_square) table.square = Tensor::zeros(device, {rows, columns}, compute_dtype(dtype));
  device.backend().class_rows().fill(table, {.key = {5}}, first_row * columns, initial);
  return table;
}

struct Loaded {
  Tensor rows;
  Tensor inverse_norm;
};

inline Loaded load(const ClassTable& table, const ClassSelection& selection) {
  Device& device = table.weight.device();
  const DType compute = compute_dtype(table.weight.dtype());
  Loaded loaded{Tensor::empty(device, {selection.size, columns}, compute),
                Tensor::empty(device, {selection.size}, compute)};
  device.backend().class_rows().load(table, selection, epsilon, loaded.rows, loaded.inverse_norm);
  return loaded;
}

/// Everything that is read from a table, including its momentum.
inline std::vector<double> state_of(const ClassTable& table) {
  std::vector<double> state = load(table, {.size = table.weight.shape()[0]}).rows.to_doubles();
  for (const Tensor& part : {table.momentum, table.square}) {
    if (!part.defined()) continue;
    const std::vector<double> values = part.to_doubles();
    state.insert(state.end(), values.begin(), values.end());
  }
  return state;
}

inline ClassStep sgd_step(std::uint32_t step = 3, std::int64_t first_row = 0) {
  return {.update = SgdStep{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
          .rounding = {.key = {7}, .purpose = Purpose::rounding, .step = step},
          .first_element = first_row * columns};
}

inline void step_rows(ClassTable& table, const ClassSelection& selection, const Tensor& products,
                      const ClassStep& step) {
  const Loaded loaded = load(table, selection);
  table.weight.device().backend().class_rows().step(table, selection, loaded.rows, loaded.inverse_norm, products, step);
}

inline Tensor products_of(Device& device, DType weight, std::int64_t begin, std::int64_t end) {
  return tensor(device, {classes, columns}, row_values(classes, 11, 0.1), compute_dtype(weight)).rows(begin, end);
}

}  // namespace heddle::test::class_tables
