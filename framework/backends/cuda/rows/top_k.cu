#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/row_teams.cuh"
#include "framework/kernels/rows.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

/// An element of a row.
template <class C>
struct Candidate {
  C value;
  std::int64_t index;

  __device__ bool is_before(const Candidate& other) const {
    return ranks_before(value, index, other.value, other.index);
  }
};

/// The first of the elements that a thread has seen, in order, and behind them ones that no element is after.
template <class C, int slots>
class Best {
 public:
  __device__ Best() {
    for (Candidate<C>& each : at_) each = none();
  }
  __device__ const Candidate<C>& first() const { return at_[0]; }
  __device__ const Candidate<C>& last() const { return at_[slots - 1]; }

  /// `added` is before `last`.
  __device__ void add(Candidate<C> added) {
    // Each of those behind makes way; places are constants, so that registers hold them.
    for (int s = slots - 1; s > 0; --s) {
      const bool makes_way = added.is_before(at_[s - 1]);
      at_[s] = makes_way ? at_[s - 1] : added.is_before(at_[s]) ? added : at_[s];
    }
    if (added.is_before(at_[0])) at_[0] = added;
  }
  __device__ void remove_first() {
    for (int s = 0; s + 1 < slots; ++s) at_[s] = at_[s + 1];
    at_[slots - 1] = none();
  }

 private:
  static __device__ Candidate<C> none() {
    return {-std::numeric_limits<C>::infinity(), std::numeric_limits<std::int64_t>::max()};
  }
  Candidate<C> at_[slots];
};

/// Reads a row once for every `slots` of the k values.
template <int slots, class T>
void top_k_as(const Context& context, const Tensor& x, Tensor& values, Tensor& index) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  const std::int64_t k = values.shape().back();
  T* const to = values.as<T>();
  std::int64_t* const places = index.as<std::int64_t>();
  for_each_team(context, rows_of(x.shape()), [=] __device__(const auto& team) {
    const T* const row = team.of(from);
    Candidate<C> taken{std::numeric_limits<C>::quiet_NaN(), -1};  // the last one; first this, that is before all
    for (std::int64_t begin = 0; begin < k; begin += slots) {
      Best<C, slots> best;
      team.for_each(
          [&](std::int64_t i, C value) {
            const Candidate<C> found{value, i};
            if (found.is_before(best.last()) && taken.is_before(found)) best.add(found);
          },
          row);
      for (std::int64_t i = begin; i < std::min(begin + slots, k); ++i) {
        taken = team.reduce(best.first(),
                            [](const Candidate<C>& a, const Candidate<C>& b) { return b.is_before(a) ? b : a; });
        if (best.first().index == taken.index) best.remove_first();
        if (team.is_first()) {
          to[team.row() * k + i] = row[taken.index];
          places[team.row() * k + i] = taken.index;
        }
      }
    }
  });
}

/// Each thread finds the place of one column, among the few hundred that a row of tokens has.
template <class T>
void rank_columns_as(const Context& context, const Tensor& x, Tensor& first, Tensor& rest) {
  using C = Compute<T>;
  const T* const from = x.as<const T>();
  const std::int64_t columns = x.shape().back();
  const std::int64_t k = first.shape().back();
  std::int64_t* const in_first = first.as<std::int64_t>();
  std::int64_t* const in_rest = rest.as<std::int64_t>();
  for_each(context, x.numel(), [=] __device__(std::int64_t element) {
    const std::int64_t row = element / columns;
    const std::int64_t column = element - row * columns;
    const T* const values = from + row * columns;
    const C value = static_cast<C>(values[column]);
    std::int64_t place = 0;
    for (std::int64_t other = 0; other < columns; ++other)
      if (ranks_before(static_cast<C>(values[other]), other, value, column)) ++place;
    if (place < k)
      in_first[row * k + place] = element;
    else
      in_rest[row * (columns - k) + place - k] = element;
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void RowKernelsOn<cuda::Context>::top_k(const Tensor& x, Tensor& values, Tensor& index) const {
  visit_floating(x.dtype(), "top_k", [&]<class T>(T) {
    if (values.shape().back() == 1)
      cuda::top_k_as<1, T>(context_, x, values, index);
    else
      cuda::top_k_as<8, T>(context_, x, values, index);
  });
}

template <>
void RowKernelsOn<cuda::Context>::rank_columns(const Tensor& x, Tensor& first, Tensor& rest) const {
  visit_floating(x.dtype(), "rank_columns", [&]<class T>(T) { cuda::rank_columns_as<T>(context_, x, first, rest); });
}

}  // namespace heddle
