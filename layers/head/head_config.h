// What an experiment says about the large-class head.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/description/enum_table.h"
#include "framework/optimizers/optimizer.h"
#include "framework/scalars/margin.h"
#include "framework/tensors/dtype.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class Describer;

/// Who has the classes.
enum class HeadParallel {
  sharded,    // each of the head's ranks has a part of them, and sees the embeddings of all
  replicated  // each rank has all of them and its own embeddings; gradients are summed, as plain data parallelism does
};
template <>
inline constexpr auto enum_names<HeadParallel> = enum_table<HeadParallel>({
    {HeadParallel::sharded, "sharded"},
    {HeadParallel::replicated, "replicated"},
});

/// Where the logits live. All give the same loss and gradients.
enum class Logits {
  gathered,    // each rank's logits are concatenated on rank 0, which computes the loss: the naive way
  transposed,  // an all-to-all gives each rank all classes' logits of its share of the rows
  sharded,     // they stay where they are; ranks exchange a maximum and two sums a row
  fused        // nowhere: class tiles are computed, summed up and forgotten, and computed again for the weights
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
  all_reduce,     // each all of them
  reduce_scatter  // each its own samples', as PLSC's distributed classifier
};
template <>
inline constexpr auto enum_names<LossReduction> = enum_table<LossReduction>({
    {LossReduction::all_reduce, "all_reduce"},
    {LossReduction::reduce_scatter, "reduce_scatter"},
});

/// How the weights are drawn.
enum class HeadInit { normal, unit };
template <>
inline constexpr auto enum_names<HeadInit> = enum_table<HeadInit>({
    {HeadInit::normal, "normal"},
    {HeadInit::unit, "unit"},
});

/// In which type the classes' weights are kept between steps. They are computed with in f32 (f64 with train.dtype f64).
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

/// In which type rows of embeddings and classes are multiplied. Sums are f32 (f64 with train.dtype f64).
enum class ProductType {
  automatic,  // bf16 where weights are kept so and the machine multiplies it much faster than f32, else what is
              // computed in
  f32,        // or f64 with train.dtype f64
  bf16
};
template <>
inline constexpr auto enum_names<ProductType> = enum_table<ProductType>({
    {ProductType::automatic, "auto"},
    {ProductType::f32, "f32"},
    {ProductType::bf16, "bf16"},
});

/// What happens in a step to the rows that are not in its sample.
enum class Unsampled {
  frozen,  // nothing: neither decay nor momentum (InsightFace's first PartialFC, PLSC 2.4)
  dense,   // a step with a gradient of zero: weights decay and move on by their momentum (PartialFC 2)
  lazy     // the same, but taken when the row is next needed, all missed steps in one; sgd with f32 state only
};
template <>
inline constexpr auto enum_names<Unsampled> = enum_table<Unsampled>({
    {Unsampled::frozen, "frozen"},
    {Unsampled::dense, "dense"},
    {Unsampled::lazy, "lazy"},
});

/// PartialFC's sample of the classes (An et al. 2021): all that the batch has, filled up with others.
struct SampleConfig {
  double rate = 1;
  Unsampled unsampled = Unsampled::frozen;
  bool correction = false;
  std::int64_t shards = 0;  // 0: as many as ranks share the classes

  std::int64_t shards_over(std::int64_t ranks) const { return shards > 0 ? shards : ranks; }
};

struct HeadConfig {
  std::int64_t classes = 0;
  HeadParallel parallel = HeadParallel::sharded;
  Logits logits = Logits::sharded;
  bool stash = false;
  std::int64_t tile = 0;      // classes; 0: by the embedding's size
  AxisSet over = every_axis;  // of the mesh: ranks along these share the classes, along the others hold copies of them
  MarginConfig margin{};
  bool normalize = true;         // cosines; else plain products of embedding and weight
  bool bias = false;             // of a class, trained; of plain products only
  std::int64_t sub_centres = 1;  // rows of weights a class, of which a sample meets the nearest
  LossReduction loss_reduction = LossReduction::all_reduce;
  HeadInit init = HeadInit::normal;
  double initial_deviation = 0.01;  // of normal initial weights
  std::int64_t loss_every = 1;      // steps
  SampleConfig sample{};
  WeightState weights = WeightState::f32;
  MomentumState momentum = MomentumState::f32;
  ProductType product_type = ProductType::automatic;

  bool samples() const { return sample.rate < 1; }
  /// Of weights, of so many classes.
  std::int64_t rows_of(std::int64_t some) const { return some * sub_centres; }
  /// Whether rows may lag behind the steps that were done.
  bool lags() const { return samples() && sample.unsampled == Unsampled::lazy; }
  bool has_loss(std::int64_t step) const { return step % loss_every == 0; }
  bool is_replicated() const { return parallel == HeadParallel::replicated; }
  /// Axes along which ranks have other classes.
  AxisSet class_axes() const { return is_replicated() ? AxisSet{} : over; }
  /// Whether the ranks of all pipeline stages have a part in the head; else those that have the embeddings.
  bool is_everywhere() const { return class_axes().contains(Axis::pp); }
  /// Axes along which all ranks have a part in it.
  AxisSet axes() const { return is_everywhere() ? every_axis : AxisSet{Axis::dp, Axis::tp}; }
  /// Axes along which ranks have the same classes and other samples.
  AxisSet copy_axes() const { return axes().without(class_axes()); }
};

/// The types that weights and momentum are kept in where `computed` is the one of the arithmetic; none: the head keeps
/// no momentum.
DType weight_type(const HeadConfig& config, DType computed);
std::optional<DType> momentum_type(const HeadConfig& config, const OptimizerConfig& optimizer, DType computed);
/// The type that is multiplied in on a machine where bf16 is fast, or is not.
DType product_type(const HeadConfig& config, DType computed, bool is_bf16_fast);

void describe(Describer& d, HeadConfig& config);
/// InputError where settings do not go together.
void check(const HeadConfig& config, const OptimizerConfig& optimizer, DType dtype);

}  // namespace heddle
