#include "framework/backends/cuda/class_rows/elements.cuh"
#include "framework/backends/cuda/context.h"
#include "framework/kernels/class_rows.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

/// Fills new rows of T. The values are drawn anew wherever they are needed.
template <class C, class T>
struct RowFill {
  T* weight;
  float* scale;
  std::int64_t columns;
  DrawKey key;
  PhiloxBlock words;
  std::int64_t first_element;
  ClassInitial initial;

  __device__ void operator()(std::int64_t row) const {
    const std::int64_t begin = row * columns;
    C factor = C(1);
    if (initial.kind == ClassInitial::Kind::unit) {
      const double square = row_sum(begin, begin + columns, [&](std::int64_t i) {
        const C value = drawn(i);
        return value * value;
      });
      factor = static_cast<C>(1 / std::sqrt(square));
    }
    float unit = 1;
    if constexpr (std::is_same_v<T, std::int8_t>) {
      unit = scale_of(row_max<float>(begin, begin + columns, [&](std::int64_t i) {
        const C value = drawn(i) * factor;
        return static_cast<float>(value < C(0) ? -value : value);
      }));
      if (threadIdx.x == 0) scale[row] = unit;
    }
    for_row(begin, begin + columns, [&](std::int64_t i) { weight[i] = stored(drawn(i) * factor, unit); });
  }

 private:
  __device__ C drawn(std::int64_t i) const {
    const auto element = static_cast<std::uint64_t>(first_element + i);
    if (initial.kind == ClassInitial::Kind::normal)
      return static_cast<C>(initial.deviation * normal_draw(draw_block(words, key, element / 2), element));
    return C(2) * static_cast<C>(uniform_draw(draw_block(words, key, element / 4), element)) - C(1);
  }

  __device__ static T stored(C value, float unit) {
    if constexpr (std::is_same_v<T, std::int8_t>)
      return nearest_i8(value, unit);
    else
      return static_cast<T>(value);
  }
};

template <class T>
void fill_as(const Context& context, ClassTable& table, const DrawKey& key, std::int64_t first_element,
             const ClassInitial& initial) {
  const RowFill<Compute<T>, T> fill{.weight = table.weight.as<T>(),
                                    .scale = data_or_null<float>(table.scale),
                                    .columns = table.weight.shape().back(),
                                    .key = key,
                                    .words = purpose_key(key.key, key.purpose),
                                    .first_element = first_element,
                                    .initial = initial};
  for_each_row(context, table.weight.shape()[0], fill);
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ClassRowKernelsOn<cuda::Context>::fill(ClassTable& table, const DrawKey& key, std::int64_t first_element,
                                            const ClassInitial& initial) const {
  if (table.weight.dtype() == DType::i8)
    return cuda::fill_as<std::int8_t>(context_, table, key, first_element, initial);
  visit_floating(table.weight.dtype(), "class table",
                 [&]<class T>(T) { cuda::fill_as<T>(context_, table, key, first_element, initial); });
}

}  // namespace heddle
