// Rows are worked on one at a time, in buffers of one row that stay in the first-level cache: widen, step, narrow.
#include "framework/kernels/class_rows.h"

#include <cmath>
#include <vector>

#include "framework/backends/cpu/class_rows/gradients.h"
#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/draws.h"
#include "framework/backends/cpu/loops/past_cache.h"
#include "framework/backends/cpu/loops/prefetch.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/kernels/class_rows_checks.h"
#include "framework/scalars/sgd_map.h"

namespace heddle::cpu {

namespace {

/// Calls f(T{}) with the C++ type of a table's weight.
template <class F>
void visit_weight(const Tensor& weight, F&& f) {
  if (weight.dtype() == DType::i8) return f(std::int8_t{});
  visit_floating(weight.dtype(), "class table", std::forward<F>(f));
}

/// Calls f(C{}) with the compute type of a table.
template <class F>
void visit_compute(const Tensor& weight, F&& f) {
  if (weight.dtype() == DType::f64) return f(double{});
  f(float{});
}

/// Which row of its table the i-th of a selection is.
class RowsOf {
 public:
  /// Rows that are written come once each, ascending: each has one writer.
  RowsOf(const ClassSelection& selection, const Tensor& weight, bool are_written)
      : begin_(selection.begin),
        index_(selection.index.defined() ? selection.index.as<const std::int64_t>() : nullptr) {
    const std::int64_t rows = weight.shape()[0];
    if (index_ == nullptr) {
      check(selection, weight);
      return;
    }
    std::int64_t least = 0;
    for (std::int64_t i = 0; i < selection.size; ++i) {
      if (index_[i] < least || index_[i] >= rows)
        fail("class rows: expected {}rows of {}, got {} in place {}", are_written ? "ascending " : "", rows, index_[i],
             i);
      if (are_written) least = index_[i] + 1;
    }
  }
  std::int64_t operator[](std::int64_t i) const { return index_ != nullptr ? index_[i] : begin_ + i; }

 private:
  std::int64_t begin_;
  const std::int64_t* index_;
};

/// Brings a row into the cache: by itself the processor follows a stream only to the end of its page.
void fetch_row(const Tensor& x, std::int64_t row) {
  if (!x.defined()) return;
  const std::int64_t bytes = x.shape().back() * static_cast<std::int64_t>(size_of(x.dtype()));
  prefetch(static_cast<const std::byte*>(x.data()) + row * bytes, bytes);
}

/// A row of x as values of C: where it is if it is of that type, else widened into `buffer`.
template <class C>
C* widened_row(const Tensor& x, const Tensor& scale, std::int64_t row, C* buffer) {
  const std::int64_t columns = x.shape().back();
  C* values = buffer;
  visit_weight(x, [&]<class T>(T) {
    T* const from = row_of<T>(x, row);
    if constexpr (std::is_same_v<T, C>) {
      values = from;
    } else if constexpr (std::is_same_v<T, std::int8_t>) {
      const auto unit = static_cast<C>(scale.as<const float>()[row]);
      for (std::int64_t i = 0; i < columns; ++i) buffer[i] = static_cast<C>(from[i]) * unit;
    } else {
      for (std::int64_t i = 0; i < columns; ++i) buffer[i] = static_cast<C>(static_cast<Compute<T>>(from[i]));
    }
  });
  return values;
}

/// The bits of the largest magnitude. Compared as integers: a NaN is the largest.
template <class C>
std::uint32_t max_bits(const C* values, std::int64_t columns) {
  std::uint32_t max = 0;
  for (std::int64_t i = 0; i < columns; ++i) max = std::max(max, bits_of(static_cast<float>(values[i])) & 0x7FFFFFFFU);
  return max;
}

/// The scale of a row of 8-bit integers that is to hold these values.
template <class C>
float row_scale(const C* values, std::int64_t columns) {
  return scale_of(float_of(max_bits(values, columns)));
}

/// Writes a row of x (and its scale); narrow types round to nearest.
template <class C>
void store_nearest(Tensor& x, Tensor& scale, std::int64_t row, const C* values) {
  const std::int64_t columns = x.shape().back();
  visit_weight(x, [&]<class T>(T) {
    T* const to = row_of<T>(x, row);
    if constexpr (std::is_same_v<T, std::int8_t>) {
      const float unit = row_scale(values, columns);
      scale.as<float>()[row] = unit;
      for (std::int64_t i = 0; i < columns; ++i) to[i] = nearest_i8(static_cast<float>(values[i]), unit);
    } else {
      for (std::int64_t i = 0; i < columns; ++i) to[i] = static_cast<T>(static_cast<Compute<T>>(values[i]));
    }
  });
}

template <class C>
void round_row(const C* values, std::int64_t columns, float unit, const std::uint16_t* draws, std::int8_t* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) to[i] = round_to_i8(static_cast<float>(values[i]), unit, draws[i]);
}
template <class C>
void round_row(const C* values, std::int64_t columns, float /*unit*/, const std::uint16_t* draws, BFloat16* to) {
  // What round_to_bf16 gives where no draw can carry a value past the largest finite one.
  if (max_bits(values, columns) < 0x7F7F0000U) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      to[i].bits = static_cast<std::uint16_t>((bits_of(static_cast<float>(values[i])) + draws[i]) >> 16);
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) to[i].bits = round_to_bf16(static_cast<float>(values[i]), draws[i]);
}
template <class C>
void round_row(const C* values, std::int64_t columns, float /*unit*/, const std::uint16_t* draws, Float16* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) to[i].bits = round_to_f16(static_cast<float>(values[i]), draws[i]);
}

/// Writes a row of a narrow x (and its scale), rounded stochastically.
template <class C>
void store_rounded(Tensor& x, Tensor& scale, std::int64_t row, const C* values, const std::uint16_t* draws) {
  const std::int64_t columns = x.shape().back();
  float unit = 1;
  if (x.dtype() == DType::i8) scale.as<float>()[row] = unit = row_scale(values, columns);
  visit_weight(x, [&]<class T>(T) {
    if constexpr (sizeof(T) < sizeof(float)) round_row(values, columns, unit, draws, row_of<T>(x, row));
  });
}

bool is_narrow(const Tensor& x) {
  return x.defined() && size_of(x.dtype()) < 4;
}

/// A row's weights and velocities become the map's.
template <class C>
void apply(const SgdMap& map, std::int64_t columns, C* weight, C* velocity) {
  if (velocity == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) weight[i] = static_cast<C>(map.ww * static_cast<double>(weight[i]));
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto w = static_cast<double>(weight[i]);
    const auto v = static_cast<double>(velocity[i]);
    weight[i] = static_cast<C>(map.ww * w + map.wv * v);
    velocity[i] = static_cast<C>(map.vw * w + map.vv * v);
  }
}

template <class C>
void update_row(const SgdUpdate<C>& update, std::int64_t columns, const RowGradient<C>& gradient, const C* weight,
                C* to, C* velocity, C* /*square*/) {
  if (velocity == nullptr) {
#pragma omp simd  // `to` may be `weight`
    for (std::int64_t i = 0; i < columns; ++i) to[i] = update.without_momentum(gradient(i, weight[i]), weight[i]);
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    C kept = velocity[i];
    to[i] = update(gradient(i, weight[i]), weight[i], kept);
    velocity[i] = kept;
  }
}

template <class C>
void update_row(const AdamWUpdate<C>& update, std::int64_t columns, const RowGradient<C>& gradient, const C* weight,
                C* to, C* mean, C* square) {
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    C first = mean[i];
    C second = square[i];
    to[i] = update(gradient(i, weight[i]), weight[i], first, second);
    mean[i] = first;
    square[i] = second;
  }
}

/// A row of x as values of C that may be changed: where it is, or in `buffer` if the changed row is written elsewhere.
template <class C>
C* row_to_change(const Tensor& x, bool is_in_place, std::int64_t row, C* buffer) {
  const Tensor no_scale;
  C* const values = widened_row(x, no_scale, row, buffer);
  if (is_in_place || values == buffer) return values;
  std::copy_n(values, x.shape().back(), buffer);
  return buffer;
}

template <class C, class Update>
void step_rows(ClassTable& table, const RowsOf& selected, const Tensor& rows, const Gradients<C>& gradients,
               const Update& update, const ClassStep& step) {
  ClassTable& target = step.target != nullptr ? *step.target : table;
  const bool is_in_place = step.target == nullptr;
  const std::int64_t columns = table.weight.shape().back();
  const std::int64_t stride = step.row_stride > 0 ? step.row_stride : columns;
  const DrawStream stream(step.rounding);
  Tensor no_scale;
  parallel_for(rows.shape()[0], rows_per_thread(columns), [&](std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::size_t>(columns);
    std::vector<C> weight(size);
    std::vector<C> before(size);
    std::vector<C> momentum(size);
    std::vector<C> square(size);
    std::vector<std::uint16_t> draws(size);
    const auto store = [&](Tensor& x, Tensor& scale, std::int64_t row, const C* values, RoundedState state) {
      if (is_narrow(x)) {
        stream.rounding(state, step.first_element + row * stride, columns, draws.data());
        store_rounded(x, scale, row, values, draws.data());
      } else if (values != nullptr && !is_in_place) {
        write_past_cache(row_of<C>(x, row), values, columns);
      }
    };
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = selected[i];
      if (i + 1 < end) {
        fetch_row(table.weight, selected[i + 1]);
        fetch_row(table.momentum, selected[i + 1]);
      }
      const C* const values = widened_row(rows, no_scale, i, before.data());
      const RowGradient<C> gradient = gradients.row(i, values);
      C* const to = is_narrow(table.weight) || !is_in_place ? weight.data() : row_of<C>(table.weight, row);
      C* const kept =
          table.momentum.defined() ? row_to_change(table.momentum, is_in_place, row, momentum.data()) : nullptr;
      C* const squares =
          table.square.defined() ? row_to_change(table.square, is_in_place, row, square.data()) : nullptr;
      update_row(update, columns, gradient, values, to, kept, squares);
      store(target.weight, target.scale, row, to, RoundedState::weight);
      store(target.momentum, no_scale, row, kept, RoundedState::momentum);
      store(target.square, no_scale, row, squares, RoundedState::momentum);
      if (table.taken.defined()) table.taken.as<std::int32_t>()[row] = static_cast<std::int32_t>(step.taken);
    }
    if (!is_in_place) finish_writes_past_cache();
  });
}

template <class C>
void draw_normal(const DrawStream& stream, std::int64_t element, double deviation, std::vector<double>& draws,
                 std::vector<C>& values) {
  stream.normals(element, static_cast<std::int64_t>(values.size()), draws.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<C>(deviation * draws[i]);
}

template <class C>
void draw_unit(const DrawStream& stream, std::int64_t element, std::vector<C>& values) {
  const auto columns = static_cast<std::int64_t>(values.size());
  std::vector<float> draws(values.size());
  stream.uniforms(element, columns, draws.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = C(2) * static_cast<C>(draws[i]) - C(1);
  const C factor = inverse_norm_of<C>(values.data(), columns, 0);
  for (C& value : values) value *= factor;
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void ClassRowKernelsOn<cpu::Context>::load(const ClassTable& table, const ClassSelection& selection, double epsilon,
                                           Tensor& rows, Tensor& inverse_norm) const {
  cpu::visit_compute(table.weight, [&]<class C>(C) {
    const std::int64_t columns = table.weight.shape().back();
    const cpu::RowsOf selected(selection, table.weight, false);
    cpu::parallel_for(selection.size, cpu::rows_per_thread(columns), [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> buffer(static_cast<std::size_t>(rows.defined() ? 0 : columns));
      for (std::int64_t i = begin; i < end; ++i) {
        if (selection.index.defined() && i + 1 < end) cpu::fetch_row(table.weight, selected[i + 1]);
        if (!rows.defined() && inverse_norm.defined() && table.weight.dtype() == DType::bf16) {  // without a copy
          inverse_norm.as<C>()[i] =
              cpu::inverse_norm_of<C>(cpu::row_of<const BFloat16>(table.weight, selected[i]), columns, epsilon);
          continue;
        }
        C* const to = rows.defined() ? cpu::row_of<C>(rows, i) : buffer.data();
        const C* const values = cpu::widened_row(table.weight, table.scale, selected[i], to);
        if (rows.defined() && values != to) std::copy_n(values, columns, to);
        if (inverse_norm.defined()) inverse_norm.as<C>()[i] = cpu::inverse_norm_of<C>(values, columns, epsilon);
      }
    });
  });
}

template <>
void ClassRowKernelsOn<cpu::Context>::step(ClassTable& table, const ClassSelection& selection, const Tensor& rows,
                                           const Tensor& inverse_norm, const Tensor& products,
                                           const ClassStep& step) const {
  check(table, selection, rows, products, step);
  cpu::visit_compute(table.weight, [&]<class C>(C) {
    const cpu::RowsOf selected(selection, table.weight, true);
    const cpu::Gradients<C> gradients(rows, inverse_norm, products, step.bound, step.factor);
    std::visit([&](const auto& kind) { cpu::step_rows<C>(table, selected, rows, gradients, update_in<C>(kind), step); },
               step.update);
  });
}

template <>
bool ClassRowKernelsOn<cpu::Context>::can_step_into_target() const {
  return true;
}

template <>
void ClassRowKernelsOn<cpu::Context>::catch_up(ClassTable& table, const ClassSelection& selection,
                                               const DeferredSteps& steps) const {
  check(table, steps);
  cpu::visit_compute(table.weight, [&]<class C>(C) {
    const std::int64_t columns = table.weight.shape().back();
    const cpu::RowsOf selected(selection, table.weight, true);
    const auto* const maps = static_cast<const SgdMap*>(steps.maps.data());
    auto* const taken = table.taken.as<std::int32_t>();
    cpu::parallel_for(selection.size, cpu::rows_per_thread(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = selected[i];
        if (taken[row] >= steps.count) continue;
        cpu::apply(product_of(maps, taken[row], steps.count), columns, cpu::row_of<C>(table.weight, row),
                   cpu::row_of<C>(table.momentum, row));
        taken[row] = static_cast<std::int32_t>(steps.count);
      }
    });
  });
}

template <>
void ClassRowKernelsOn<cpu::Context>::add_squared_gradient(const Tensor& rows, const Tensor& inverse_norm,
                                                           const Tensor& products, double bound, Tensor& result) const {
  cpu::visit_compute(rows, [&]<class C>(C) {
    const Tensor no_scale;
    const std::int64_t columns = rows.shape().back();
    const cpu::Gradients<C> gradients(rows, inverse_norm, products, bound, 1);
    std::vector<double> squares(static_cast<std::size_t>(rows.shape()[0]));
    cpu::parallel_for(rows.shape()[0], cpu::rows_per_thread(columns), [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> buffer(static_cast<std::size_t>(columns));
      for (std::int64_t i = begin; i < end; ++i) {
        const C* const weight = cpu::widened_row(rows, no_scale, i, buffer.data());
        const cpu::RowGradient<C> gradient = gradients.row(i, weight);
        squares[static_cast<std::size_t>(i)] = cpu::stretched_sum<double>(0, columns, [&](std::int64_t k) {
          const auto value = static_cast<double>(gradient(k, weight[k]));
          return value * value;
        });
      }
    });
    for (const double square : squares) *result.as<double>() += square;
  });
}

template <>
void ClassRowKernelsOn<cpu::Context>::fill(ClassTable& table, const DrawKey& key, std::int64_t first_element,
                                           const ClassInitial& initial) const {
  cpu::visit_compute(table.weight, [&]<class C>(C) {
    const std::int64_t columns = table.weight.shape().back();
    const cpu::DrawStream stream(key);
    cpu::parallel_for(table.weight.shape()[0], cpu::rows_per_thread(columns),
                      [&](std::int64_t begin, std::int64_t end) {
                        std::vector<C> values(static_cast<std::size_t>(columns));
                        std::vector<double> draws(static_cast<std::size_t>(columns));
                        for (std::int64_t row = begin; row < end; ++row) {
                          if (initial.kind == ClassInitial::Kind::normal)
                            cpu::draw_normal(stream, first_element + row * columns, initial.deviation, draws, values);
                          else
                            cpu::draw_unit(stream, first_element + row * columns, values);
                          cpu::store_nearest(table.weight, table.scale, row, values.data());
                        }
                      });
  });
}

}  // namespace heddle
