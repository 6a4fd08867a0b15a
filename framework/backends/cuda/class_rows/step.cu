// A step reads each row's weights, products and state once and writes weights and state once; what lies between stays
// in registers.
#include <variant>

#include "framework/backends/cuda/class_rows/gradient.cuh"
#include "framework/backends/cuda/context.h"
#include "framework/kernels/class_rows.h"
#include "framework/kernels/class_rows_checks.h"
#include "framework/scalars/scalar.h"

namespace heddle::cuda {

namespace {

template <class C>
__device__ C stepped(const SgdUpdate<C>& update, bool has_momentum, C gradient, C weight, C& velocity, C& /*square*/) {
  return has_momentum ? update(gradient, weight, velocity) : update.without_momentum(gradient, weight);
}
template <class C>
__device__ C stepped(const AdamWUpdate<C>& update, bool /*has_momentum*/, C gradient, C weight, C& mean, C& square) {
  return update(gradient, weight, mean, square);
}

/// A value of C in T: the draw decides where it is narrower.
template <class T, class C>
__device__ T rounded(C value, float unit, std::uint32_t draw) {
  if constexpr (std::is_same_v<T, std::int8_t>) {
    return round_to_i8(value, unit, draw);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 result;
    result.bits = round_to_bf16(value, draw);
    return result;
  } else if constexpr (std::is_same_v<T, Float16>) {
    Float16 result;
    result.bits = round_to_f16(value, draw);
    return result;
  } else {
    return value;
  }
}

/// The draws that steps are rounded with.
struct RoundingDraws {
  DrawKey key;
  PhiloxBlock words;
  std::int64_t first_element;
  std::int64_t row_stride;

  __device__ std::int64_t first_of(std::int64_t row) const { return first_element + row * row_stride; }
  /// The draws of eight elements of a thread, the first of which is this one of the whole table.
  __device__ PhiloxBlock eight(RoundedState state, std::int64_t element) const {
    return draw_block(words, key, rounding_draw(state, static_cast<std::uint64_t>(element)).block);
  }
};

/// For weights with one scale per row, or without.
template <class C, class Update, bool has_scale, class Kept>
struct RowStep {
  RowGradient<C, Kept> gradient;
  Update update;
  Selected selected;
  Kept weight;
  float* scale;
  Kept momentum;
  C* square;
  std::int32_t* taken;
  std::int32_t taken_now;
  RoundingDraws draws;
  bool are_packed;

  __device__ void operator()(std::int64_t i, RowGroup group) const {
    const std::int64_t row = selected[i];
    const int columns = row >= 0 ? gradient.columns : 0;
    const int lead = row >= 0 && is_rounded() ? static_cast<int>(draws.first_of(row) % RoundingDraw::group) : 0;
    const int turns = Kept::are_known ? 1 : group.turns(lead + columns);
    const auto place_of = [&](int turn) {
      return Place::of(group, turn, lead, columns, Kept::are_known || are_packed);
    };

    HeldRow<C> kept;
    HeldState next;
    gradient.load(i, place_of(0), kept);
    load(row, place_of(0), next);
    bool is_loaded = turns == 1;
    const auto by = gradient.normalisation(row >= 0 ? i : -1, group, kept);
    const auto take = [&](int turn) {
      if (turns > 1) gradient.load(i, place_of(turn), kept);
      if (!is_loaded) load(row, place_of(turn), next);
      is_loaded = false;
      for (int e = 0; e < held; ++e)
        next.weight[e] = stepped(update, momentum.are_defined(), gradient.of(kept, e, by), kept.weight[e],
                                 next.momentum[e], next.square[e]);
    };

    float unit = 1;
    if constexpr (has_scale) {
      std::uint32_t largest = 0;  // compared as integers: a NaN is the largest
      for (int turn = 0; turn < turns; ++turn) {
        take(turn);
        const Place place = place_of(turn);
        for (int e = 0; e < held; ++e) {
          const std::uint32_t bits = bits_of(static_cast<float>(next.weight[e])) & 0x7FFFFFFFU;
          if (place.contains(place.at(e)) && bits > largest) largest = bits;
        }
      }
      unit = scale_of(float_of(group.reduce(largest, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; })));
    }
    for (int turn = 0; turn < turns; ++turn) {
      take(turn);
      store(row, place_of(turn), next, unit);
    }
    if (group.member != 0 || row < 0) return;
    if constexpr (has_scale) scale[row] = unit;
    if (taken != nullptr) taken[row] = taken_now;
  }

 private:
  static constexpr bool has_square = std::is_same_v<Update, AdamWUpdate<C>>;
  struct HeldState {
    C weight[held];
    C momentum[held] = {};
    C square[held] = {};
  };

  __device__ bool is_rounded() const { return weight.are_narrow() || momentum.are_narrow(); }

  __device__ void load(std::int64_t row, const Place& place, HeldState& state) const {
    if (momentum.are_defined()) momentum.load(row, place, state.momentum);
    if constexpr (has_square) place.load(square + row * place.columns, state.square);
  }

  __device__ void store(std::int64_t row, const Place& place, const HeldState& state, float unit) const {
    store_rounded(weight, RoundedState::weight, row, place, state.weight, unit);
    if (momentum.are_defined()) store_rounded(momentum, RoundedState::momentum, row, place, state.momentum, unit);
    if constexpr (has_square) place.store(square + row * place.columns, [&](int e) { return state.square[e]; });
  }

  __device__ void store_rounded(const Kept& x, RoundedState state, std::int64_t row, const Place& place,
                                const C (&values)[held], float unit) const {
    const std::int64_t begin = row * place.columns;
    PhiloxBlock random[held / 8] = {};
    if (x.are_narrow())
      for (int block = 0; block < held / 8; ++block)
        random[block] = draws.eight(state, draws.first_of(row) + place.first + block * RoundingDraw::group);
    x.template visit<C>([&]<class T>(T* to) {
      place.store(to + begin, [&](int e) {
        return rounded<T>(values[e], unit, random[e / 8].word[e % 8 / 2] >> (16 * (e % 2)) & 0xFFFFU);
      });
    });
  }
};

std::int64_t row_stride(const ClassStep& step, int columns) {
  return step.row_stride > 0 ? step.row_stride : columns;
}

template <class C, class Kept>
bool are_pairs_packed(const ClassTable& table, const RowGradient<C, Kept>& gradient, const ClassStep& step) {
  return gradient.are_packed && step.first_element % 2 == 0 && row_stride(step, gradient.columns) % 2 == 0 &&
         are_pairs_aligned(gradient.columns, table.weight, table.momentum, table.square);
}

/// Rows that begin within 128 elements of draws need threads for what is before them.
template <class C>
int step_threads(const ClassStep& step, int columns) {
  const bool is_whole =
      row_stride(step, columns) % RoundingDraw::group == 0 && step.first_element % RoundingDraw::group == 0;
  return group_threads<C>(columns + (is_whole ? 0 : static_cast<int>(RoundingDraw::group) - 1));
}

template <bool has_scale, class C, class Kept, class Update>
void step_as(const Context& context, ClassTable& table, const ClassSelection& selection,
             const RowGradient<C, Kept>& gradient, const Update& update, const ClassStep& step, int threads) {
  const int columns = gradient.columns;
  const std::int64_t stride = row_stride(step, columns);
  const RowStep<C, Update, has_scale, Kept> row_step{
      .gradient = gradient,
      .update = update,
      .selected = selected_rows(context, selection, table.weight, true),
      .weight = Kept(table.weight),
      .scale = data_or_null<float>(table.scale),
      .momentum = Kept(table.momentum),
      .square = data_or_null<C>(table.square),
      .taken = data_or_null<std::int32_t>(table.taken),
      .taken_now = static_cast<std::int32_t>(step.taken),
      .draws = {step.rounding, purpose_key(step.rounding.key, step.rounding.purpose), step.first_element, stride},
      .are_packed = are_pairs_packed(table, gradient, step)};
  for_each_row_group(context, selection.size, threads, row_step);
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ClassRowKernelsOn<cuda::Context>::step(ClassTable& table, const ClassSelection& selection, const Tensor& rows,
                                            const Tensor& inverse_norm, const Tensor& products,
                                            const ClassStep& step) const {
  check(table, selection, rows, products, step);
  if (step.target != nullptr) fail("class rows: cuda steps rows in their place");
  const int columns = static_cast<int>(rows.shape().back());
  cuda::visit_compute(table.weight, [&]<class C>(C) {
    const int threads = cuda::step_threads<C>(step, columns);
    const auto with = [&](auto has_scale, const auto& gradient) {
      std::visit(
          [&](const auto& kind) {
            cuda::step_as<has_scale.value>(context_, table, selection, gradient, update_in<C>(kind), step, threads);
          },
          step.update);
    };
    const cuda::RowGradient<C> gradient(rows, inverse_norm, products, step.bound, step.factor);
    if constexpr (std::is_same_v<C, float>) {
      const auto is_known = [](const Tensor& x) { return x.defined() && x.dtype() == DType::bf16; };
      if (table.weight.dtype() == DType::i8) return with(std::true_type{}, gradient);
      if (is_known(rows) && is_known(table.weight) && is_known(table.momentum) && products.defined() &&
          threads < cuda::block_threads && cuda::are_pairs_packed(table, gradient, step))
        return with(std::false_type{}, cuda::RowGradient<C, cuda::KnownElements<BFloat16>>(rows, inverse_norm, products,
                                                                                           step.bound, step.factor));
    }
    with(std::false_type{}, gradient);
  });
}

}  // namespace heddle
