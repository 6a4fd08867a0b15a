// What the kernels of the head share: rows in parts, the logits of a row, and how a row is changed in its place.
#pragma once

#include "framework/backends/cuda/device/row_groups.cuh"
#include "framework/backends/dispatch.h"
#include "framework/kernels/head.h"

namespace heddle::cuda {

/// Rows of logits, each cut into enough parts that even a few rows keep a GPU busy.
struct RowParts {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t parts;

  explicit RowParts(const Tensor& logits) : rows(logits.shape()[0]), columns(logits.shape()[1]) {
    constexpr std::int64_t wanted = 1024;
    constexpr std::int64_t min_length = std::int64_t{8} * block_threads;
    const std::int64_t most = std::max<std::int64_t>(columns / min_length, 1);
    parts = std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(rows, 1), 1, most);
  }
};

/// f(unit, row, begin, end) for the parts begin .. end - 1 of each row, called by all threads of a block together; unit
/// = row * parts + the number of the part.
template <class F>
void for_each_part(const Context& context, const RowParts& rows, F f) {
  for_each_row(context, rows.rows * rows.parts, [=] __device__(std::int64_t unit) {
    const std::int64_t row = unit / rows.parts;
    const std::int64_t part = unit % rows.parts;
    f(unit, row, rows.columns * part / rows.parts, rows.columns * (part + 1) / rows.parts);
  });
}

struct Largest {
  /// Not a NaN, unless the first is one.
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};
struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// out(row, op over the row's parts of part(row, begin, end)), where `part` is called by all threads of a block, each
/// of which has a value of its own.
template <class T, class Op, class Part, class Out>
void reduce_parts(const Context& context, const RowParts& rows, Op op, Part part, Out out) {
  const std::int64_t parts = rows.parts;
  T* const partial = context.scratch<T>(parts == 1 ? 0 : rows.rows * parts);
  for_each_part(context, rows,
                [=] __device__(std::int64_t unit, std::int64_t row, std::int64_t begin, std::int64_t end) {
                  const T value = block_reduce(static_cast<T>(part(row, begin, end)), op);
                  if (threadIdx.x != 0) return;
                  if (parts == 1)
                    out(row, value);
                  else
                    partial[unit] = value;
                });
  if (parts == 1) return;
  for_each(context, rows.rows, [=] __device__(std::int64_t row) {
    T value = partial[row * parts];
    for (std::int64_t p = 1; p < parts; ++p) value = op(value, partial[row * parts + p]);
    out(row, value);
  });
}

/// All threads of a block.
__device__ inline RowGroup whole_block() {
  return {block_threads, static_cast<int>(threadIdx.x)};
}

/// Elements before the first of x that 16 bytes may be read from at once.
template <class T>
__device__ std::int64_t before_pack(const T* x) {
  constexpr std::uintptr_t pack = 16 / sizeof(T);
  return static_cast<std::int64_t>((pack - reinterpret_cast<std::uintptr_t>(x) / sizeof(T) % pack) % pack);
}

/// For begin <= i < end, by the threads of a group: several(i, read(i)) for the packs of elements from `first` on,
/// one(i) for the elements before and behind them.
template <int pack, class Read, class Several, class One>
__device__ void for_packs(const RowGroup& group, std::int64_t begin, std::int64_t end, std::int64_t first, Read read,
                          Several several, One one) {
  first = first < end ? first : end;
  const std::int64_t rest = first + (end - first) / pack * pack;
  for_each_ahead<4>(first + group.member * pack, rest, std::int64_t{group.threads} * pack, read, several);
  for (std::int64_t i = begin + group.member; i < first; i += group.threads) one(i);
  for (std::int64_t i = rest + group.member; i < end; i += group.threads) one(i);
}

/// to[i] = f(i, from[i]) for begin <= i < end, by the threads of a group. `to` may be `from`.
template <class T, class F>
__device__ void transform_row(const RowGroup& group, const T* from, T* to, std::int64_t begin, std::int64_t end, F f) {
  constexpr int pack = 16 / sizeof(T);
  const std::int64_t before = before_pack(to + begin);
  for_packs<pack>(
      group, begin, end, before == before_pack(from + begin) ? begin + before : end,
      [&](std::int64_t i) { return load<pack>(from + i); },
      [&](std::int64_t i, Pack<T, pack> several) {
        for (int e = 0; e < pack; ++e) several.at[e] = f(i + e, several.at[e]);
        store(to + i, several);
      },
      [&](std::int64_t i) { to[i] = f(i, from[i]); });
}

/// Calls f(i, x[i]) in the same way, for elements that are only read.
template <class T, class F>
__device__ void read_row(const RowGroup& group, const T* x, std::int64_t begin, std::int64_t end, F f) {
  constexpr int pack = 16 / sizeof(T);
  for_packs<pack>(
      group, begin, end, begin + before_pack(x + begin), [&](std::int64_t i) { return load<pack>(x + i); },
      // By value: through a reference elements would be read one by one.
      [&](std::int64_t i, const Pack<T, pack> several) {
        for (int e = 0; e < pack; ++e) f(i + e, several.at[e]);
      },
      [&](std::int64_t i) { f(i, x[i]); });
}

/// A margin and columns as kernels take them.
template <class T>
struct HeadView {
  MarginConfig margin;
  bool maps;
  const double* running;
  const T* parameter;
  const std::int64_t* labels;
  std::int64_t begin;
  const T* scale;
  const T* bias;

  HeadView(const StepMargin& step, const HeadColumns& columns)
      : margin(step.config),
        maps(has_negative_map(step.config)),
        running(data_or_null<const double>(step.running)),
        parameter(data_or_null<const T>(step.parameter)),
        labels(columns.labels.as<const std::int64_t>()),
        begin(columns.begin),
        scale(data_or_null<const T>(columns.scale)),
        bias(data_or_null<const T>(columns.bias)) {}

  /// The column of a row's own class; outside the columns if it is none of them.
  __device__ std::int64_t target(std::int64_t row) const { return labels[row] - begin; }
  __device__ T scale_at(std::int64_t i) const { return scale != nullptr ? scale[i] : T(1); }
  __device__ T bias_at(std::int64_t i) const { return bias != nullptr ? bias[i] : T(0); }
  __device__ T parameter_of(std::int64_t row) const { return parameter != nullptr ? parameter[row] : T(0); }

  /// phi of the product of a row and its own class, and its slope.
  __device__ TargetValue<T> target_value(std::int64_t row, T product) const {
    return margin_target(margin, product * scale_at(target(row)), parameter_of(row));
  }
  /// The logit of the row's own class, from phi.
  __device__ T target_logit(std::int64_t row, T phi) const {
    return static_cast<T>(margin.scale) * phi + bias_at(target(row));
  }
};

/// The factor of each row's gradient: `scale`, the mean's factor and the row's weight.
template <class T>
struct RowFactors {
  T scale;
  const T* weights;

  RowFactors(const LossFactors& factors, double by_logits)
      : scale(static_cast<T>(by_logits * factors.mean_factor)), weights(data_or_null<const T>(factors.row_weights)) {}
  __device__ T at(std::int64_t row) const { return weights != nullptr ? scale * weights[row] : scale; }
};

/// What the buffer of a row's logits stands for: with a negative map it has cosines, but at the row's own class the
/// logit.
template <class T>
struct RowLogits {
  std::int64_t target;
  bool maps;
  T scale;
  const T* bias;
  NegativeMap<T> map;

  __device__ RowLogits(const HeadView<T>& view, std::int64_t row)
      : target(view.target(row)), maps(view.maps), scale(static_cast<T>(view.margin.scale)), bias(view.bias) {
    if (maps) map = negative_map(view.margin, view.running, view.parameter_of(row));
  }

  __device__ T logit(std::int64_t i, T value) const {
    if (!maps || i == target) return value;
    const T z = scale * map.value(value);
    return bias != nullptr ? z + bias[i] : z;
  }
  __device__ T slope(T value) const { return maps ? map.slope(value) : T(1); }
};

}  // namespace heddle::cuda
