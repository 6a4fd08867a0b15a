#include "framework/backends/cuda/class_rows/elements.cuh"
#include "framework/backends/cuda/context.h"
#include "framework/kernels/class_rows.h"
#include "framework/kernels/class_rows_checks.h"
#include "framework/scalars/sgd_map.h"

namespace heddle::cuda {

namespace {

/// The rows of a table as they are read.
template <class C, class Kept>
struct RowLoad {
  Selected selected;
  Kept weight;
  const float* scale;
  C* rows;
  C* inverse_norm;
  double epsilon;
  int columns;
  bool are_packed;

  __device__ void operator()(std::int64_t i, RowGroup group) const {
    const std::int64_t row = selected[i];
    const int length = row >= 0 ? columns : 0;
    const C unit = scale != nullptr && row >= 0 ? static_cast<C>(scale[row]) : C(1);
    const bool is_block = !Kept::are_known && group.is_block();
    const int turns = Kept::are_known ? 1 : rows == nullptr && is_block ? 0 : group.turns(length);
    double square = 0;
    for (int turn = 0; turn < turns; ++turn) {
      const Place place = Place::of(group, turn, 0, length, Kept::are_known || are_packed);
      C values[held];
      weight.load(row, place, values);
      for (C& value : values) {
        value *= unit;
        square += static_cast<double>(value * value);
      }
      if (rows != nullptr) place.store(rows + i * length, [&](int e) { return values[e]; });
    }
    if (inverse_norm == nullptr) return;
    if (is_block)
      weight.template visit<C>([&](const auto* x) {
        square = sum_of_block<C>(
            length,
            [unit](C element) {
              const C value = element * unit;
              return value * value;
            },
            x + row * length);
      });
    else
      square = group.sum(square);
    if (group.member != 0 || row < 0) return;
    const double norm = std::sqrt(square);
    inverse_norm[i] = static_cast<C>(1 / (norm < epsilon ? epsilon : norm));
  }
};

/// The steps that rows lack.
template <class C>
struct CatchUp {
  Selected selected;
  C* weight;
  C* velocity;
  const std::int32_t* taken;
  const SgdMap* maps;
  std::int64_t count;
  int columns;
  bool are_packed;

  __device__ void operator()(std::int64_t i, RowGroup group) const {
    const std::int64_t row = selected[i];
    if (row < 0 || taken[row] >= count) return;
    const SgdMap map = product_of(maps, taken[row], count);
    for (int turn = 0; turn * group.threads * held < columns; ++turn) {
      const Place place = Place::of(group, turn, 0, columns, are_packed);
      C w[held];
      C v[held] = {};
      place.load(weight + row * columns, w);
      if (velocity != nullptr) place.load(velocity + row * columns, v);
      place.store(weight + row * columns, [&](int e) {
        const double kept = map.ww * static_cast<double>(w[e]);
        return static_cast<C>(velocity != nullptr ? kept + map.wv * static_cast<double>(v[e]) : kept);
      });
      if (velocity != nullptr)
        place.store(velocity + row * columns, [&](int e) {
          return static_cast<C>(map.vw * static_cast<double>(w[e]) + map.vv * static_cast<double>(v[e]));
        });
    }
  }
};

void mark_taken(const Context& context, const Selected& selected, std::int64_t size, std::int32_t* taken,
                std::int32_t count) {
  for_each(context, size, [=] __device__(std::int64_t i) {
    const std::int64_t row = selected[i];
    if (row >= 0 && taken[row] < count) taken[row] = count;
  });
}

/// The first place of an index, among those of begin .. end - 1, that is not a row; all threads of a block call it.
__device__ std::int64_t first_fault(const Selected& selected, bool are_written, std::int64_t begin, std::int64_t end) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for_row(begin, end, [&](std::int64_t i) {
    const bool is_after = !are_written || i == 0 || selected.index[i] > selected.index[i - 1];
    if ((selected[i] < 0 || !is_after) && i < first) first = i;
  });
  return block_reduce(first, [](std::int64_t a, std::int64_t b) { return b < a ? b : a; });
}

void check_index(const Context& context, const Selected& selected, std::int64_t size, bool are_written) {
  constexpr std::int64_t min_length = 16384;
  const std::int64_t parts = std::clamp<std::int64_t>(size / min_length, 1, block_threads);
  auto* const faults = context.scratch<std::int64_t>(parts);
  for_each_row(context, parts, [=] __device__(std::int64_t part) {
    const std::int64_t first = first_fault(selected, are_written, size * part / parts, size * (part + 1) / parts);
    if (threadIdx.x == 0) faults[part] = first;
  });
  Fault* const fault = context.fault();
  for_each(context, 1, [=] __device__(std::int64_t) {
    std::int64_t part = 0;
    while (part + 1 < parts && faults[part] >= size) ++part;
    const std::int64_t i = faults[part];
    if (i >= size || fault->of != Fault::Of::nothing) return;
    *fault = {are_written ? Fault::Of::ascending_class_rows : Fault::Of::class_rows, i, selected.index[i],
              selected.rows};
  });
}

}  // namespace

Selected selected_rows(const Context& context, const ClassSelection& selection, const Tensor& weight,
                       bool are_written) {
  const Selected selected{selection.begin, weight.shape()[0], data_or_null<std::int64_t>(selection.index)};
  if (selected.index == nullptr)
    check(selection, weight);
  else if (selection.size > 0)
    check_index(context, selected, selection.size, are_written);
  return selected;
}

}  // namespace heddle::cuda

namespace heddle {

template <>
void ClassRowKernelsOn<cuda::Context>::load(const ClassTable& table, const ClassSelection& selection, double epsilon,
                                            Tensor& rows, Tensor& inverse_norm) const {
  cuda::visit_compute(table.weight, [&]<class C>(C) {
    const auto columns = static_cast<int>(table.weight.shape().back());
    const int threads = cuda::group_threads<C>(columns);
    const bool are_packed = cuda::are_pairs_aligned(columns, table.weight, rows);
    const auto load = [&](const auto& weight) {
      const cuda::RowLoad<C, std::decay_t<decltype(weight)>> row_load{
          .selected = cuda::selected_rows(context_, selection, table.weight, false),
          .weight = weight,
          .scale = cuda::data_or_null<float>(table.scale),
          .rows = cuda::data_or_null<C>(rows),
          .inverse_norm = cuda::data_or_null<C>(inverse_norm),
          .epsilon = epsilon,
          .columns = columns,
          .are_packed = are_packed};
      cuda::for_each_row_group(context_, selection.size, threads, row_load);
    };
    if constexpr (std::is_same_v<C, float>)
      if (table.weight.dtype() == DType::bf16 && are_packed && threads < cuda::block_threads)
        return load(cuda::KnownElements<BFloat16>(table.weight));
    load(cuda::Elements(table.weight));
  });
}

template <>
bool ClassRowKernelsOn<cuda::Context>::can_step_into_target() const {
  return false;
}

template <>
void ClassRowKernelsOn<cuda::Context>::catch_up(ClassTable& table, const ClassSelection& selection,
                                                const DeferredSteps& steps) const {
  check(table, steps);
  cuda::visit_compute(table.weight, [&]<class C>(C) {
    const auto columns = static_cast<int>(table.weight.shape().back());
    auto* const taken = table.taken.as<std::int32_t>();
    const cuda::CatchUp<C> catch_up{.selected = cuda::selected_rows(context_, selection, table.weight, true),
                                    .weight = table.weight.as<C>(),
                                    .velocity = cuda::data_or_null<C>(table.momentum),
                                    .taken = taken,
                                    .maps = static_cast<const SgdMap*>(steps.maps.data()),
                                    .count = steps.count,
                                    .columns = columns,
                                    .are_packed = cuda::are_pairs_aligned(columns, table.weight, table.momentum)};
    cuda::for_each_row_group(context_, selection.size, cuda::group_threads<C>(columns), catch_up);
    // Only when every thread of a row has read how many it lacked.
    cuda::mark_taken(context_, catch_up.selected, selection.size, taken, static_cast<std::int32_t>(steps.count));
  });
}

}  // namespace heddle
