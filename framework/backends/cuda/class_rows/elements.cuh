// What the kernels of class rows share: elements of any type, widened as they are read, and the selected rows.
#pragma once

#include "framework/backends/cuda/device/row_groups.cuh"
#include "framework/kernels/class_rows.h"
#include "framework/scalars/rounding.h"

namespace heddle::cuda {

/// Calls f(C{}) with the compute type of a table.
template <class F>
void visit_compute(const Tensor& weight, F&& f) {
  if (weight.dtype() == DType::f64) return f(double{});
  f(float{});
}

/// Elements whose type the kernel finds out itself: there are too many combinations for one kernel each.
struct Elements {
  static constexpr bool are_known = false;
  void* data = nullptr;
  DType dtype = DType::f32;

  Elements() = default;
  explicit Elements(const Tensor& x)
      : data(x.defined() ? x.data() : nullptr), dtype(x.defined() ? x.dtype() : DType::f32) {}

  Elements from(std::int64_t element) const {
    Elements rest = *this;
    rest.data = static_cast<std::byte*>(data) + element * static_cast<std::int64_t>(size_of(dtype));
    return rest;
  }

  __device__ bool are_defined() const { return data != nullptr; }
  __device__ bool are_narrow() const { return data != nullptr && dtype != DType::f32 && dtype != DType::f64; }

  /// Calls f with a pointer to them; those of a table of f64 are f64.
  template <class C, class F>
  __device__ void visit(F f) const {
    if constexpr (std::is_same_v<C, double>) {
      f(static_cast<double*>(data));
    } else if (dtype == DType::bf16) {
      f(static_cast<BFloat16*>(data));
    } else if (dtype == DType::f16) {
      f(static_cast<Float16*>(data));
    } else if (dtype == DType::i8) {
      f(static_cast<std::int8_t*>(data));
    } else {
      f(static_cast<float*>(data));
    }
  }

  template <class C>
  __device__ void load(std::int64_t row, const Place& place, C (&values)[held]) const {
    visit<C>([&](const auto* x) { place.load(x + row * place.columns, values); });
  }
};

/// Elements that are there, of a type that is known when the kernel is compiled. There is no branch between the loads
/// of a row, so that all of them are under way at once. Each row has a group smaller than a block, and pairs are
/// aligned.
template <class T>
struct KnownElements {
  static constexpr bool are_known = true;
  T* data;

  explicit KnownElements(const Tensor& x) : data(x.as<T>()) {}

  KnownElements from(std::int64_t element) const {
    KnownElements rest = *this;
    rest.data += element;
    return rest;
  }
  __device__ static constexpr bool are_defined() { return true; }
  __device__ static constexpr bool are_narrow() { return !std::is_floating_point_v<T>; }
  template <class C, class F>
  __device__ void visit(F f) const {
    f(data);
  }
  template <class C>
  __device__ void load(std::int64_t row, const Place& place, C (&values)[held]) const {
    place.load(data + row * place.columns, values);
  }
};

/// Whether pairs of elements can be read and written at once, in rows with this many columns.
template <class... Tensors>
bool are_pairs_aligned(std::int64_t columns, const Tensors&... tensors) {
  const auto is_aligned = [](const Tensor& x) {
    return !x.defined() || reinterpret_cast<std::uintptr_t>(x.data()) % (2 * size_of(x.dtype())) == 0;
  };
  return columns % 2 == 0 && (is_aligned(tensors) && ...);
}

/// Which row of its table the i-th of a selection is.
struct Selected {
  std::int64_t begin;
  std::int64_t rows;  // of the table
  const std::int64_t* index;

  /// -1 for i < 0 and for an index outside the table, which check_index has reported.
  __device__ std::int64_t operator[](std::int64_t i) const {
    if (i < 0 || index == nullptr) return i < 0 ? -1 : begin + i;
    return index[i] >= 0 && index[i] < rows ? index[i] : -1;
  }
};

/// Reports to the host the first row that is not in the table or, if rows are written, does not follow the one before.
Selected selected_rows(const Context& context, const ClassSelection& selection, const Tensor& weight, bool are_written);

}  // namespace heddle::cuda
