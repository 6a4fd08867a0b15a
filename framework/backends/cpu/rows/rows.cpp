#include "framework/kernels/rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <queue>
#include <vector>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/error.h"

namespace heddle::cpu {

namespace {

void check_indices(const char* what, const std::int64_t* index, std::int64_t count, std::int64_t rows) {
  for (std::int64_t i = 0; i < count; ++i)
    if (index[i] < 0 || index[i] >= rows)
      fail<InputError>("{}: index {} at position {} is outside the {} rows", what, index[i], i, rows);
}

/// Elements of one row of the leading dimension.
std::int64_t row_elements(const Tensor& x) {
  return x.shape().product(1, x.shape().rank());
}

template <class T>
void top_k_of_row(const T* x, std::int64_t columns, std::int64_t k, T* values, std::int64_t* index) {
  using C = Compute<T>;
  const auto before = [x](std::int64_t a, std::int64_t b) {
    return ranks_before(static_cast<C>(x[a]), a, static_cast<C>(x[b]), b);
  };
  std::int64_t* const end = index + k;
  for (std::int64_t i = 0; i < k; ++i) index[i] = i;
  std::make_heap(index, end, before);
  for (std::int64_t i = k; i < columns; ++i) {
    if (k == 0 || !before(i, index[0])) continue;
    std::pop_heap(index, end, before);
    index[k - 1] = i;
    std::push_heap(index, end, before);
  }
  std::sort_heap(index, end, before);
  for (std::int64_t i = 0; i < k; ++i) values[i] = x[index[i]];
}

template <class T>
std::vector<std::int64_t> ranked_columns(const T* x, std::int64_t columns) {
  using C = Compute<T>;
  std::vector<std::int64_t> ranked(static_cast<std::size_t>(columns));
  std::iota(ranked.begin(), ranked.end(), 0);
  std::sort(ranked.begin(), ranked.end(), [x](std::int64_t a, std::int64_t b) {
    return ranks_before(static_cast<C>(x[a]), a, static_cast<C>(x[b]), b);
  });
  return ranked;
}

/// dx = dy * exp(x - log_sums) along one row.
template <class T>
void shares(const Tensor& x, const Tensor& log_sums, const Tensor& dy, std::int64_t columns, std::int64_t row,
            Tensor& dx) {
  using C = Compute<T>;
  const T* const from = x.as<const T>() + row * columns;
  T* const to = dx.as<T>() + row * columns;
  const C log_sum = log_sums.as<const C>()[row];
  const C gradient = dy.as<const C>()[row];
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) assign(to[i], gradient * exponential(static_cast<C>(from[i]) - log_sum));
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void RowKernelsOn<cpu::Context>::gather(const Tensor& x, const Tensor& index, Tensor& y) const {
  const std::int64_t* const at = index.as<const std::int64_t>();
  cpu::check_indices("gather_rows", at, index.numel(), x.shape()[0]);
  const std::int64_t columns = cpu::row_elements(x);
  const auto bytes = columns * static_cast<std::int64_t>(size_of(x.dtype()));
  if (bytes == 0) return;
  const auto* const from = x.as<const std::byte>();
  auto* const to = y.as<std::byte>();
  cpu::parallel_for(index.numel(), cpu::rows_per_thread(columns), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(to + i * bytes, from + at[i] * bytes, static_cast<std::size_t>(bytes));
  });
}

template <>
void RowKernelsOn<cpu::Context>::scatter_add(const Tensor& x, const Tensor& index, Tensor& y) const {
  const std::int64_t* const at = index.as<const std::int64_t>();
  cpu::check_indices("scatter_rows", at, index.numel(), y.shape()[0]);
  visit_floating(x.dtype(), "scatter_rows", [&]<class T>(T) {
    using C = Compute<T>;
    const std::int64_t columns = cpu::row_elements(x);
    const T* const from = x.as<const T>();
    T* const to = y.as<T>();
    // Threads share the columns, so that every sum keeps the order of i.
    cpu::parallel_for(columns, cpu::rows_per_thread(index.numel()), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < index.numel(); ++i) {
        const T* const row = from + i * columns;
        T* const sum = to + at[i] * columns;
        for (std::int64_t c = begin; c < end; ++c)
          sum[c] = static_cast<T>(static_cast<C>(sum[c]) + static_cast<C>(row[c]));
      }
    });
  });
}

template <>
void RowKernelsOn<cpu::Context>::top_k(const Tensor& x, Tensor& values, Tensor& index) const {
  visit_floating(x.dtype(), "top_k", [&]<class T>(T) {
    const cpu::RowView view(x.shape());
    const std::int64_t k = values.shape().back();
    cpu::for_each_row(view, [&](std::int64_t row) {
      cpu::top_k_of_row(x.as<const T>() + row * view.columns, view.columns, k, values.as<T>() + row * k,
                        index.as<std::int64_t>() + row * k);
    });
  });
}

template <>
void RowKernelsOn<cpu::Context>::rank_columns(const Tensor& x, Tensor& first, Tensor& rest) const {
  visit_floating(x.dtype(), "rank_columns", [&]<class T>(T) {
    const cpu::RowView view(x.shape());
    const std::int64_t k = first.shape().back();
    cpu::for_each_row(view, [&](std::int64_t row) {
      const std::vector<std::int64_t> ranked = cpu::ranked_columns(x.as<const T>() + row * view.columns, view.columns);
      const auto element_of = [&](std::int64_t column) { return row * view.columns + column; };
      std::transform(ranked.begin(), ranked.begin() + k, first.as<std::int64_t>() + row * k, element_of);
      std::transform(ranked.begin() + k, ranked.end(), rest.as<std::int64_t>() + row * (view.columns - k), element_of);
    });
  });
}

template <>
void RowKernelsOn<cpu::Context>::softmax(const Tensor& x, Tensor& y) const {
  visit_floating(x.dtype(), "softmax", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const from = x.as<const T>() + row * view.columns;
      T* const to = y.as<T>() + row * view.columns;
      const auto value = [from](std::int64_t i) { return static_cast<C>(from[i]); };
      const C maximum = cpu::row_maximum<C>(view.columns, value);
      const double sum = cpu::sum_of_exponentials<C>(view.columns, value, maximum);
      const C factor = static_cast<C>(1 / sum);
#pragma omp simd
      for (std::int64_t i = 0; i < view.columns; ++i)
        cpu::assign(to[i], exponential(static_cast<C>(from[i]) - maximum) * factor);
    });
  });
}

template <>
void RowKernelsOn<cpu::Context>::softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const {
  visit_floating(y.dtype(), "softmax", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(y.shape());
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const share = y.as<const T>() + row * view.columns;
      const T* const gradient = dy.as<const T>() + row * view.columns;
      T* const to = dx.as<T>() + row * view.columns;
      const C mean = static_cast<C>(cpu::stretched_sum<C>(
          0, view.columns, [=](std::int64_t i) { return static_cast<C>(share[i]) * static_cast<C>(gradient[i]); }));
#pragma omp simd
      for (std::int64_t i = 0; i < view.columns; ++i)
        cpu::assign(to[i], static_cast<C>(share[i]) * (static_cast<C>(gradient[i]) - mean));
    });
  });
}

template <>
void RowKernelsOn<cpu::Context>::log_sum_exp(const Tensor& x, Tensor& y) const {
  visit_floating(x.dtype(), "log_sum_exp", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const from = x.as<const T>() + row * view.columns;
      const auto value = [from](std::int64_t i) { return static_cast<C>(from[i]); };
      const C maximum = cpu::row_maximum<C>(view.columns, value);
      const bool is_finite = maximum > -std::numeric_limits<C>::infinity() || maximum != maximum;
      y.as<C>()[row] =
          is_finite ? static_cast<C>(maximum + std::log(cpu::sum_of_exponentials<C>(view.columns, value, maximum)))
                    : maximum;
    });
  });
}

template <>
void RowKernelsOn<cpu::Context>::log_sum_exp_backward(const Tensor& x, const Tensor& y, const Tensor& dy,
                                                      Tensor& dx) const {
  visit_floating(x.dtype(), "log_sum_exp", [&]<class T>(T) {
    const cpu::RowView view(x.shape());
    cpu::for_each_row(view, [&](std::int64_t row) { cpu::shares<T>(x, y, dy, view.columns, row, dx); });
  });
}

template <>
void RowKernelsOn<cpu::Context>::cross_entropy(const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                                               Tensor& loss) const {
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    const std::int64_t* const label = labels.as<const std::int64_t>();
    for (std::int64_t row = 0; row < view.rows; ++row) {
      if (label[row] < 0 || label[row] >= view.columns)
        fail<InputError>("cross_entropy: the label {} of sample {} is outside [0, {})", label[row], row, view.columns);
      loss.as<C>()[row] =
          log_sums.as<const C>()[row] - static_cast<C>(x.as<const T>()[row * view.columns + label[row]]);
    }
  });
}

template <>
void RowKernelsOn<cpu::Context>::cross_entropy_backward(const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                                                        const Tensor& dloss, Tensor& dx) const {
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(T) {
    using C = Compute<T>;
    const cpu::RowView view(x.shape());
    cpu::for_each_row(view, [&](std::int64_t row) {
      const std::int64_t target = row * view.columns + labels.as<const std::int64_t>()[row];
      const C value = static_cast<C>(x.as<const T>()[target]);
      cpu::shares<T>(x, log_sums, dloss, view.columns, row, dx);
      // expm1 keeps the digits of a probability near one.
      dx.as<T>()[target] = static_cast<T>(dloss.as<const C>()[row] * std::expm1(value - log_sums.as<const C>()[row]));
    });
  });
}

}  // namespace heddle
