// Sums over many rows or columns, in f64 and in an order that depends on shapes only.
#pragma once

#include "framework/backends/cuda/device/block.cuh"

namespace heddle::cuda {

namespace reduction_detail {

/// Doubles that fit the scratch.
inline constexpr std::int64_t max_partials = Context::scratch_bytes / static_cast<std::int64_t>(sizeof(double));

/// The number of parts into which `length` elements are cut for each of `sums`: enough to keep a large GPU busy, but
/// none shorter than `min_length`.
inline std::int64_t parts_of(std::int64_t sums, std::int64_t length, std::int64_t min_length) {
  constexpr std::int64_t wanted = 1024;
  const std::int64_t most = std::min(max_partials / std::max<std::int64_t>(sums, 1), length / min_length);
  return std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(sums, 1), 1, std::max<std::int64_t>(most, 1));
}

/// out(s, sum) from partial[s * parts + p].
template <class Out>
void add_parts(const Context& context, std::int64_t sums, std::int64_t parts, const double* partial, Out out) {
  constexpr std::int64_t many = 16;
  if (parts > many)  // one thread would wait for one after the other
    for_each_row(context, sums, [=] __device__(std::int64_t s) {
      const double sum = row_sum(s * parts, (s + 1) * parts, [=](std::int64_t p) { return partial[p]; });
      if (threadIdx.x == 0) out(s, sum);
    });
  else
    for_each(context, sums, [=] __device__(std::int64_t s) {
      double sum = 0;
      for (std::int64_t p = 0; p < parts; ++p) sum += partial[s * parts + p];
      out(s, sum);
    });
}

}  // namespace reduction_detail

/// out(row, sum over columns of value(row, column)).
template <class Value, class Out>
void sum_rows(const Context& context, std::int64_t rows, std::int64_t columns, Value value, Out out) {
  const std::int64_t parts = reduction_detail::parts_of(rows, columns, std::int64_t{16} * block_threads);
  if (parts == 1) {
    for_each_row(context, rows, [=] __device__(std::int64_t row) {
      const double sum = row_sum(0, columns, [&](std::int64_t column) { return value(row, column); });
      if (threadIdx.x == 0) out(row, sum);
    });
    return;
  }
  double* const partial = context.scratch<double>(rows * parts);
  for_each_row(context, rows * parts, [=] __device__(std::int64_t unit) {
    const std::int64_t row = unit / parts;
    const std::int64_t part = unit % parts;
    const double sum = row_sum(columns * part / parts, columns * (part + 1) / parts,
                               [&](std::int64_t column) { return value(row, column); });
    if (threadIdx.x == 0) partial[unit] = sum;
  });
  reduction_detail::add_parts(context, rows, parts, partial, out);
}

/// out(column, sum over rows of value(row, column)), of `groups` such blocks one after the other: the functions get
/// group * rows + row, and group * columns + column.
template <class Value, class Out>
void sum_columns(const Context& context, std::int64_t groups, std::int64_t rows, std::int64_t columns, Value value,
                 Out out) {
  const std::int64_t sums = groups * columns;
  // Neighbouring threads take neighbouring columns; few columns leave threads idle, so that parts are many and short.
  const std::int64_t parts = reduction_detail::parts_of((sums + block_threads - 1) / block_threads, rows, 16);
  const std::int64_t fitting =
      std::clamp<std::int64_t>(reduction_detail::max_partials / std::max<std::int64_t>(sums, 1), 1, parts);
  const auto sum_of = [=] __device__(std::int64_t s, std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t row = begin; row < end; ++row)
      sum += static_cast<double>(value(s / columns * rows + row, s % columns));
    return sum;
  };
  if (fitting == 1) {
    for_each(context, sums, [=] __device__(std::int64_t s) { out(s, sum_of(s, 0, rows)); });
    return;
  }
  double* const partial = context.scratch<double>(sums * fitting);
  for_each(context, sums * fitting, [=] __device__(std::int64_t unit) {
    const std::int64_t s = unit % sums;
    const std::int64_t part = unit / sums;
    partial[s * fitting + part] = sum_of(s, rows * part / fitting, rows * (part + 1) / fitting);
  });
  reduction_detail::add_parts(context, sums, fitting, partial, out);
}

}  // namespace heddle::cuda
