// The configuration of the large-class head.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/description/enum_table.h"
#include "framework/optimizers/optimizer.h"
#include "framework/scalars/margin.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/index_range.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class Describer;

/// Which ranks have which classes.
enum class HeadParallel {
  sharded,    // each rank of the head has some of the classes, and sees the embeddings of all ranks
  replicated  // each rank has all classes and its own embeddings; gradients are summed, as in plain data parallelism
};
template <>
inline constexpr auto enum_names<HeadParallel> = enum_table<HeadParallel>({
    {HeadParallel::sharded, "sharded"},
    {HeadParallel::replicated, "replicated"},
});

/// The ways to hold the logits. All give the same loss and gradients.
enum class Logits {
  gathered,    // rank 0 concatenates all ranks' logits and computes the loss: the naive way
  transposed,  // an all-to-all gives each rank the logits of all classes for its share of the rows
  sharded,     // they stay where they are; ranks exchange one maximum and two sums per row
  fused        // never held: class tiles are computed, reduced and dropped, and computed again for the weights
};
template <>
inline constexpr auto enum_names<Logits> = enum_table<Logits>({
    {Logits::gathered, "gathered"},
    {Logits::transposed, "transposed"},
    {Logits::sharded, "sharded"},
    {Logits::fused, "fused"},
});

/// Which ranks get the losses of which samples.
enum class LossReduction {
  all_reduce,     // each rank gets all losses
  reduce_scatter  // each rank gets those of its own samples, as in PLSC's distributed classifier
};
template <>
inline constexpr auto enum_names<LossReduction> = enum_table<LossReduction>({
    {LossReduction::all_reduce, "all_reduce"},
    {LossReduction::reduce_scatter, "reduce_scatter"},
});

/// How the initial weights are drawn.
enum class HeadInit { normal, unit };
template <>
inline constexpr auto enum_names<HeadInit> = enum_table<HeadInit>({
    {HeadInit::normal, "normal"},
    {HeadInit::unit, "unit"},
});

/// The type in which the classes' weights are kept between steps. Computation is in f32 (f64 with train.dtype f64).
enum class WeightState { f32, bf16, f16, int8 };
template <>
inline constexpr auto enum_names<WeightState> = enum_table<WeightState>({
    {WeightState::f32, "f32"},
    {WeightState::bf16, "bf16"},
    {WeightState::f16, "f16"},
    {WeightState::int8, "int8"},
});

enum class MomentumState { f32, bf16, f16, none };
template <>
inline constexpr auto enum_names<MomentumState> = enum_table<MomentumState>({
    {MomentumState::f32, "f32"},
    {MomentumState::bf16, "bf16"},
    {MomentumState::f16, "f16"},
    {MomentumState::none, "none"},
});

/// The type in which rows of embeddings and classes are multiplied. Sums are f32 (f64 with train.dtype f64).
enum class ProductType {
  automatic,  // bf16 if weights are kept in it and the machine multiplies it much faster than f32, else the
              // type of the computation
  f32,        // or f64 with train.dtype f64
  bf16
};
template <>
inline constexpr auto enum_names<ProductType> = enum_table<ProductType>({
    {ProductType::automatic, "auto"},
    {ProductType::f32, "f32"},
    {ProductType::bf16, "bf16"},
});

/// What a step does to the rows that are not in its sample.
enum class Unsampled {
  frozen,  // nothing: neither decay nor momentum (InsightFace's first PartialFC, PLSC 2.4)
  dense,   // a step with a gradient of zero: weights decay, and momentum moves them (PartialFC 2)
  lazy     // the same, but steps are deferred until the row is next needed and catches up; only sgd with f32 state
};
template <>
inline constexpr auto enum_names<Unsampled> = enum_table<Unsampled>({
    {Unsampled::frozen, "frozen"},
    {Unsampled::dense, "dense"},
    {Unsampled::lazy, "lazy"},
});

/// How a step holds the gradient of a sample. Both give the same weights.
enum class SampleGradient {
  rows,  // tile by tile, only of the rows that were drawn
  dense  // of all classes, between steps too: zero where a row was not drawn (PLSC without its sparse optimizer)
};
template <>
inline constexpr auto enum_names<SampleGradient> = enum_table<SampleGradient>({
    {SampleGradient::rows, "rows"},
    {SampleGradient::dense, "dense"},
});

/// PartialFC's sample of the classes (An et al. 2021): all classes of the batch, filled up with others.
struct SampleConfig {
  double rate = 1;
  Unsampled unsampled = Unsampled::frozen;
  bool correction = false;
  SampleGradient gradient = SampleGradient::rows;
  std::int64_t shards = 0;  // 0: as many as ranks share the classes

  std::int64_t shards_over(std::int64_t ranks) const { return shards > 0 ? shards : ranks; }
};

struct HeadConfig {
  std::int64_t classes = 0;
  HeadParallel parallel = HeadParallel::sharded;
  Logits logits = Logits::sharded;
  bool stash = false;
  std::int64_t tile = 0;      // number of classes; 0: chosen by the embedding's size, for a CPU
  AxisSet over = every_axis;  // ranks along these axes share the classes, those along the others hold copies of them
  std::vector<std::int64_t> split{};  // number of classes of each rank that shares them; empty: equal shards
  MarginConfig margin{};
  bool normalize = true;         // cosines; else plain products of embedding and weight
  bool bias = false;             // one trained bias per class; only with plain products
  std::int64_t sub_centres = 1;  // rows of weights per class; a sample is compared with the nearest
  LossReduction loss_reduction = LossReduction::all_reduce;
  HeadInit init = HeadInit::normal;
  double initial_deviation = 0.01;  // standard deviation of normal initial weights
  std::int64_t loss_every = 1;      // steps
  double loss_weight = 1;           // the factor of the loss; above 0
  SampleConfig sample{};
  WeightState weights = WeightState::f32;
  MomentumState momentum = MomentumState::f32;
  ProductType product_type = ProductType::automatic;

  bool samples() const { return sample.rate < 1; }
  /// The classes of one of the ranks that share them.
  IndexRange classes_of(std::int64_t ranks, std::int64_t rank) const;
  /// The largest number of classes that one of the ranks has.
  std::int64_t max_classes(std::int64_t ranks) const;
  /// The number of rows of weights for this many classes.
  std::int64_t rows_of(std::int64_t some) const { return some * sub_centres; }
  bool has_dense_gradient() const { return samples() && sample.gradient == SampleGradient::dense; }
  /// Whether rows that are not sampled defer their steps.
  bool defers_steps() const { return samples() && sample.unsampled == Unsampled::lazy; }
  bool has_loss(std::int64_t step) const { return step % loss_every == 0; }
  bool is_replicated() const { return parallel == HeadParallel::replicated; }
  /// Axes along which ranks have different classes.
  AxisSet class_axes() const { return is_replicated() ? AxisSet{} : over; }
  /// Whether the ranks of all pipeline stages take part in the head; else only those that have the embeddings do.
  bool is_everywhere() const { return class_axes().contains(Axis::pp); }
  /// Axes along which all ranks take part in the head for a micro-batch.
  AxisSet axes() const { return is_everywhere() ? every_axis : AxisSet{Axis::dp, Axis::tp}; }
  /// Axes along which ranks have the same classes and different samples of a micro-batch.
  AxisSet sample_axes() const { return axes().without(class_axes()); }
  /// Axes along which ranks have the same classes and different samples of a step: also those that have the copies of
  /// the last stage.
  AxisSet copy_axes() const {
    AxisSet copies = sample_axes();
    if (!is_everywhere()) copies.insert(Axis::copies);
    return copies;
  }
};

/// How phase 1 is divided into parts between which ranks compute something else (HeadPass), after Yeung et al. 2024,
/// "Balancing pipeline parallelism with vocabulary parallelism" (arXiv 2411.05288), algorithms 1 and 2.
enum class HeadWork {
  at_once,        // not at all
  two_exchanges,  // the sums are exchanged, and then the gradients
  one_exchange    // both together: the gradients without the factors that depend on the sums, in two terms
};
template <>
inline constexpr auto enum_names<HeadWork> = enum_table<HeadWork>({
    {HeadWork::at_once, "at_once"},
    {HeadWork::two_exchanges, "two_exchanges"},
    {HeadWork::one_exchange, "one_exchange"},
});

/// The types in which weights and momentum are kept if arithmetic is done in `computed`; empty if the head keeps no
/// momentum.
DType weight_type(const HeadConfig& config, DType computed);
std::optional<DType> momentum_type(const HeadConfig& config, const OptimizerConfig& optimizer, DType computed);
/// The type of the products on a machine whose bf16 products are fast, or are not.
DType product_type(const HeadConfig& config, DType computed, bool is_bf16_fast);

void describe(Describer& d, HeadConfig& config);
/// InputError if settings contradict each other.
void check(const HeadConfig& config, const OptimizerConfig& optimizer, DType dtype);
/// InputError if the split does not have one number for each of the ranks that share the classes.
void check_split(const HeadConfig& config, std::int64_t ranks);

}  // namespace heddle
