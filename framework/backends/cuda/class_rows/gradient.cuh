// The gradients of rows, as the optimizer step and the gradient norm use them.
#pragma once

#include "framework/backends/cuda/class_rows/elements.cuh"

namespace heddle::cuda {

/// Not contracted with the sum that it is part of: the cpu's gradients are rounded, too.
__device__ inline float rounded_product(float x, float y) {
  return __fmul_rn(x, y);
}
__device__ inline double rounded_product(double x, double y) {
  return __dmul_rn(x, y);
}

/// A row's weights and the gradient by its normalised form, as far as a thread holds them.
template <class C>
struct HeldRow {
  C weight[held];
  C product[held];
};

template <class C, class Rows = Elements>
struct RowGradient {
  Rows rows;
  const C* inverse_norm;
  const C* products;
  int columns;
  C limit;
  C factor;
  bool are_packed;

  RowGradient(const Tensor& row_tensor, const Tensor& inverse, const Tensor& product_tensor, double bound, double times)
      : rows(row_tensor),
        inverse_norm(product_tensor.defined() ? data_or_null<const C>(inverse) : nullptr),
        products(data_or_null<const C>(product_tensor)),
        columns(static_cast<int>(row_tensor.shape().back())),
        limit(bound > 0 ? static_cast<C>(bound) : std::numeric_limits<C>::infinity()),
        factor(static_cast<C>(times)),
        are_packed(are_pairs_aligned(columns, row_tensor, product_tensor)) {}

  /// The gradients of the rows from this one on.
  RowGradient from(std::int64_t row) const {
    RowGradient rest = *this;
    rest.rows = rows.from(row * columns);
    if (inverse_norm != nullptr) rest.inverse_norm += row;
    if (products != nullptr) rest.products += row * columns;
    return rest;
  }

  __device__ void load(std::int64_t i, const Place& place, HeldRow<C>& row) const {
    rows.load(i, place, row.weight);
    if (Rows::are_known || products != nullptr) place.load(products + i * place.columns, row.product);
  }

  /// What makes a gradient by a normalised row one by the row.
  struct Normalisation {
    C inverse = C(1);
    C along = C(0);
  };
  /// A row i < 0 has none. Called by all threads of a block.
  __device__ Normalisation normalisation(std::int64_t i, const RowGroup& group, const HeldRow<C>& row) const {
    if (inverse_norm == nullptr) return {};
    double dot = 0;
    if (!Rows::are_known && group.is_block()) {
      const std::int64_t begin = i >= 0 ? i * columns : 0;
      rows.template visit<C>([&](const auto* weight) {
        dot = sum_of_block<C>(
            i >= 0 ? columns : 0, [](C value, C product) { return value * product; }, weight + begin, products + begin);
      });
    } else {
      for (int e = 0; e < held; ++e) dot += static_cast<double>(row.weight[e] * row.product[e]);
      dot = group.sum(dot);
    }
    if (i < 0) return {};
    const C inverse = inverse_norm[i];
    return {inverse, static_cast<C>(dot) * inverse * inverse};
  }

  __device__ C of(const HeldRow<C>& row, int e, const Normalisation& by) const {
    if (products == nullptr) return C(0);
    const C product = row.product[e];
    const C gradient = inverse_norm != nullptr ? (product - row.weight[e] * by.along) * by.inverse : product;
    const C bounded = gradient > limit ? limit : gradient < -limit ? -limit : gradient;
    return factor == C(1) ? bounded : rounded_product(factor, bounded);
  }
};

}  // namespace heddle::cuda
