// Rows of matrices, each the work of a team of threads: of a block, or of a warp where rows are short, so that a block
// works on eight of them at once.
#pragma once

#include <cstring>

#include "framework/backends/cuda/device/block.cuh"

namespace heddle::cuda {

inline constexpr int warp_threads = 32;
/// Columns that a warp takes alone.
inline constexpr std::int64_t max_columns_of_warp = 1024;
/// Columns of a stretch, for kernels that need not see a whole row at once: a multiple of every pack.
inline constexpr std::int64_t stretch_columns = 8192;

/// A matrix whose rows are cut into stretches.
struct Stretches {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stretch;

  __host__ __device__ std::int64_t of_row() const { return columns > stretch ? (columns + stretch - 1) / stretch : 1; }
  __host__ __device__ std::int64_t count() const { return rows * of_row(); }
};

namespace row_detail {

/// A value of the thread whose number within its warp differs by `difference` (one bit). All threads of a block call
/// it.
template <class T>
__device__ T of_other_lane(T value, int difference) {
  static_assert(sizeof(T) % sizeof(unsigned) == 0);
  unsigned words[sizeof(T) / sizeof(unsigned)];
  std::memcpy(words, &value, sizeof value);
  for (unsigned& word : words) word = __shfl_xor_sync(~0U, word, difference);
  std::memcpy(&value, words, sizeof value);
  return value;
}

/// Elements before the first that an access as wide as a pack may begin with.
template <int pack, class T>
__device__ int before_boundary(const T* x) {
  return static_cast<int>(-reinterpret_cast<std::uintptr_t>(x) / sizeof(T) % pack);
}

template <int pack, class T>
__device__ Pack<T, pack> copied(const T* x) {
  Pack<T, pack> values;
  for (int e = 0; e < pack; ++e) values.at[e] = x[e];
  return values;
}

}  // namespace row_detail

/// A row, or a stretch of one, as a thread of its team sees it. All threads of a block call `reduce` and `sum` equally
/// often: a team for which no row is left sees the last one, with no columns of it.
template <int threads>
class RowTeam {
 public:
  __device__ RowTeam(const Stretches& all, std::int64_t number) : all_columns_(all.columns) {
    const std::int64_t last = all.count() - 1;
    const std::int64_t of_row = all.of_row();
    has_work_ = number <= last;
    row_ = (has_work_ ? number : last) / of_row;
    begin_ = (has_work_ ? number : last) % of_row * all.stretch;
    columns_ = has_work_ ? std::min(all.stretch, all.columns - begin_) : 0;
  }

  __device__ std::int64_t row() const { return row_; }
  /// The first column, from which the functions below count.
  __device__ std::int64_t begin() const { return begin_; }
  /// The thread that writes what there is one of.
  __device__ bool is_first() const { return has_work_ && thread_ == 0; }
  /// Where the row, or its stretch, begins in a matrix.
  template <class T>
  __device__ T* of(T* x) const {
    return x + row_ * all_columns_ + begin_;
  }

  /// The same for the first columns only.
  __device__ RowTeam beginning() const {
    RowTeam part = *this;
    part.columns_ = columns_ < stretch_columns ? columns_ : stretch_columns;
    return part;
  }

  /// f(i, x[i]..), each x widened to its compute type, for the calling thread's columns, in ascending order. Which
  /// these are depends on the matrix's shape and type only.
  template <class F, class... Inputs>
  __device__ void for_each(F f, const Inputs*... x) const {
    constexpr int pack = 16 / static_cast<int>(std::max({sizeof(Inputs)...}));
    if (all_columns_ % pack != 0) {
      for (std::int64_t i = thread_; i < columns_; i += threads) f(i, static_cast<Compute<Inputs>>(x[i])...);
      return;
    }
    // By value: through a reference elements would be read one by one.
    const auto several = [&](std::int64_t i, const Pack<Inputs, pack>... values) {
      for (int e = 0; e < pack; ++e) f(i + e, static_cast<Compute<Inputs>>(values.at[e])...);
    };
    if (((row_detail::before_boundary<pack>(x) == 0) && ...))
      for (std::int64_t i = thread_ * pack; i < columns_; i += threads * pack)
        several(i, *reinterpret_cast<const Pack<Inputs, pack>*>(x + i)...);
    else
      for (std::int64_t i = thread_ * pack; i < columns_; i += threads * pack)
        several(i, row_detail::copied<pack>(x + i)...);
  }

  /// y[i] = f(i, x[i]..), rounded. y may be one of the inputs.
  template <class T, class F, class... Inputs>
  __device__ void map(T* y, F f, const Inputs*... x) const {
    constexpr int pack = 16 / static_cast<int>(std::max({sizeof(T), sizeof(Inputs)...}));
    const auto one = [&](std::int64_t i, const Inputs&... value) {
      return static_cast<T>(f(i, static_cast<Compute<Inputs>>(value)...));
    };
    const auto several = [&](std::int64_t i, const Pack<Inputs, pack>... values) {
      Pack<T, pack> out;
      for (int e = 0; e < pack; ++e) out.at[e] = one(i + e, values.at[e]...);
      return out;
    };
    // Packs between the elements before the first boundary and those after the last, where all have these in common.
    const int before = row_detail::before_boundary<pack>(y);
    const bool has_packs = ((row_detail::before_boundary<pack>(x) == before) && ...) && columns_ > before;
    const std::int64_t lead = has_packs ? before : 0;
    const std::int64_t in_packs = has_packs ? (columns_ - lead) / pack * pack : 0;
    for (std::int64_t i = lead + thread_ * pack; i < lead + in_packs; i += threads * pack)
      *reinterpret_cast<Pack<T, pack>*>(y + i) = several(i, *reinterpret_cast<const Pack<Inputs, pack>*>(x + i)...);
    for (std::int64_t rest = thread_; rest < columns_ - in_packs; rest += threads) {
      const std::int64_t i = rest < lead ? rest : rest + in_packs;
      y[i] = one(i, x[i]...);
    }
  }

  /// `op` over the threads' values, for all of them; op(a, b) is op(b, a).
  template <class T, class Op>
  __device__ T reduce(T value, Op op) const {
    if constexpr (threads == block_threads) {
      return block_reduce(value, op);
    } else {
      for (int difference = threads / 2; difference > 0; difference /= 2)
        value = op(value, row_detail::of_other_lane(value, difference));
      return value;
    }
  }

  /// The sum of f(i, x[i]..), in f64.
  template <class F, class... Inputs>
  __device__ double sum(F f, const Inputs*... x) const {
    double total = 0;
    for_each([&](std::int64_t i, Compute<Inputs>... values) { total += static_cast<double>(f(i, values...)); }, x...);
    return reduce(total, [](double a, double b) { return a + b; });
  }

 private:
  const int thread_ = static_cast<int>(threadIdx.x) % threads;
  std::int64_t all_columns_;
  std::int64_t row_;
  std::int64_t begin_;
  std::int64_t columns_;
  bool has_work_;
};

template <int threads, class F>
__global__ void for_each_team_kernel(Stretches all, F f) {
  constexpr int teams = block_threads / threads;
  const std::int64_t count = all.count();
  for (std::int64_t first = std::int64_t{blockIdx.x} * teams; first < count; first += std::int64_t{gridDim.x} * teams)
    f(RowTeam<threads>(all, first + threadIdx.x / threads));
}

/// f(team) for every stretch; f is generic in the team.
template <class F>
void for_each_team(const Context& context, const Stretches& all, F f) {
  constexpr int teams = block_threads / warp_threads;
  if (all.count() == 0) return;
  if (all.columns <= max_columns_of_warp)
    launch(context, (all.count() + teams - 1) / teams, for_each_team_kernel<warp_threads, F>, all, f);
  else
    launch(context, all.count(), for_each_team_kernel<block_threads, F>, all, f);
}

/// The last dimension's rows, whole.
inline Stretches rows_of(const Shape& shape) {
  const std::int64_t columns = shape.back();
  return {shape.product(0, shape.rank() - 1), columns, std::max<std::int64_t>(columns, 1)};
}

/// The last dimension's rows in stretches, so that few long ones are many blocks' work, too.
inline Stretches stretches_of(const Shape& shape) {
  const Stretches rows = rows_of(shape);
  return {rows.rows, rows.columns, stretch_columns};
}

}  // namespace heddle::cuda
