// The gradients by the rows of classes, from their products with the embeddings' gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "framework/backends/cpu/loops/row_math.h"
#include "framework/tensors/tensor.h"

namespace heddle::cpu {

/// Null if x is undefined.
template <class T>
T* row_of(const Tensor& x, std::int64_t row) {
  return x.defined() ? x.as<T>() + row * x.shape().back() : nullptr;
}

/// The gradient by an element of a row, from its product with the embeddings' gradients.
template <class C>
struct RowGradient {
  const C* product;
  bool is_normalised;
  C along, inverse;  // of a normalised row: as in normalized_gradient
  C most, factor;

  C operator()(std::int64_t i, C weight) const {
    const C gradient = is_normalised ? (product[i] - weight * along) * inverse : product[i];
    return factor * (gradient > most ? most : gradient < -most ? -most : gradient);
  }
};

/// The gradients of rows, as a step and a norm take them.
template <class C>
class Gradients {
 public:
  Gradients(const Tensor& rows, const Tensor& inverse_norm, const Tensor& products, double bound, double factor)
      : columns_(rows.shape().back()),
        inverse_(inverse_norm.defined() ? inverse_norm.as<const C>() : nullptr),
        products_(products),
        most_(bound > 0 ? static_cast<C>(bound) : std::numeric_limits<C>::infinity()),
        factor_(static_cast<C>(factor)) {
    if (!products.defined()) zeros_.resize(static_cast<std::size_t>(columns_));
  }

  /// Row i, which has these weights.
  RowGradient<C> row(std::int64_t i, const C* weight) const {
    const C* const product = products_.defined() ? row_of<const C>(products_, i) : zeros_.data();
    const bool is_normalised = products_.defined() && inverse_ != nullptr;
    const C inverse = is_normalised ? inverse_[i] : C(1);
    return {.product = product,
            .is_normalised = is_normalised,
            .along = is_normalised ? projection_on_row(weight, product, columns_, inverse) : C(0),
            .inverse = inverse,
            .most = most_,
            .factor = factor_};
  }

 private:
  std::int64_t columns_;
  const C* inverse_;
  const Tensor& products_;
  std::vector<C> zeros_;
  C most_;
  C factor_;
};

}  // namespace heddle::cpu
