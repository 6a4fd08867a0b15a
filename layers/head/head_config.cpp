#include "layers/head/head_config.h"

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

namespace {

void describe_sample(Describer& d, SampleConfig& c) {
  d.field("rate", c.rate, between(0, 1),
          "share of the classes that takes part in a step, PartialFC's way: those of the batch, and others at random; "
          "0: those of the batch alone; 1: all");
  choice(d, "unsampled", c.unsampled,
         "what a step does to the other classes: nothing (frozen), decay and momentum with a gradient of zero (dense), "
         "or the same later, all at once, when a class is next needed (lazy: dense's weights at frozen's cost)");
  d.field("correction", c.correction,
          "raises the others' logits by -ln of the probability that they are drawn, which makes the softmax's sum "
          "unbiased");
  d.field("shards", c.shards, between(0, 1e6),
          "how many stretches of the classes are sampled each by itself; 0: as many as ranks share the classes, or in "
          "a run that goes on as many as before. The sample depends on it, not on the ranks");
}

void describe_state(Describer& d, HeadConfig& c) {
  choice(d, "weights", c.weights, "type that the weights are kept in; int8 has a scale a row");
  choice(d, "momentum", c.momentum, "type that sgd's velocity is kept in; none: the head's sgd has no momentum");
}

}  // namespace

void describe(Describer& d, HeadConfig& c) {
  d.field(required("classes"), c.classes, between(2, 1e10), "number of identities; may exceed the data's");
  choice(d, "parallel", c.parallel,
         "sharded: each rank has a part of the classes; replicated: each has all, and gradients are summed");
  choice(
      d, "logits", c.logits,
      "where the logits live: all on rank 0, transposed to all classes of a share of the batch, sharded by class, or "
      "nowhere (fused: class tiles are computed twice and never kept)");
  d.field("stash", c.stash, "fused keeps the exponentials and saves one of its four products");
  d.field("tile", c.tile, between(0, 1e6),
          "classes that are computed with at once; 0: by the embedding's size, on a GPU 32,768");
  unsigned over = c.over.index();
  d.subset(
      "over", over, enum_names<Axis>.rows(), "all",
      "mesh axes along whose ranks the classes are shared; ranks along the others hold copies of them, see samples "
      "of their own, and add up the gradients. With pp the ranks of all pipeline stages have classes and meet for "
      "each micro-batch, without it those of the last stage. (On plan the tiles of copies are walked one by one: 10^8 "
      "classes take seconds)");
  c.over = AxisSet::of_index(over);
  object(d, "margin", c.margin, "the margin softmax");
  d.field("normalize", c.normalize, "cosines of unit embeddings and weights; else plain products");
  d.field("bias", c.bias, "a trained number a class is added to its logit; with normalize false");
  d.field("sub_centres", c.sub_centres, between(1, 64),
          "rows of weights a class: its cosine is the largest of theirs (Sub-center ArcFace)");
  choice(d, "loss_reduction", c.loss_reduction,
         "whether each rank gets the losses of all samples or of its own; the loss is the same");
  choice(d, "init", c.init, "initial weights: normal draws, or unit rows of uniform draws");
  d.field("initial_deviation", c.initial_deviation, above(0), "standard deviation of normal initial weights");
  d.field("loss_every", c.loss_every, at_least(1),
          "the loss is computed at every so manieth step; gradients need none");
  d.object(
      "sample", [&c](Describer& inner) { describe_sample(inner, c.sample); }, "class sampling");
  choice(
      d, "product_type", c.product_type,
      "type that embeddings and classes are multiplied in, and summed up in f32: f32 (what is kept in 16 or 8 bits is "
      "widened), bf16 (of cosines, weights kept in bf16), or auto: bf16 where weights are kept so and the processor "
      "multiplies it much faster (AMX)");
  d.object(
      "state", [&c](Describer& inner) { describe_state(inner, c); }, "what is kept between steps");
}

DType weight_type(const HeadConfig& config, DType computed) {
  switch (config.weights) {
    case WeightState::bf16:
      return DType::bf16;
    case WeightState::f16:
      return DType::f16;
    case WeightState::int8:
      return DType::i8;
    case WeightState::f32:
      break;
  }
  return computed;
}

std::optional<DType> momentum_type(const HeadConfig& config, const OptimizerConfig& optimizer, DType computed) {
  if (config.momentum == MomentumState::none) return {};
  if (optimizer.type == OptimizerType::sgd && optimizer.momentum == 0) return {};
  if (config.momentum == MomentumState::bf16) return DType::bf16;
  if (config.momentum == MomentumState::f16) return DType::f16;
  return computed;
}

DType product_type(const HeadConfig& config, DType computed, bool is_bf16_fast) {
  const bool is_possible = config.weights == WeightState::bf16 && config.normalize;
  const bool is_wanted = config.product_type == ProductType::bf16 ||
                         (config.product_type == ProductType::automatic && is_bf16_fast && is_possible);
  return is_wanted ? DType::bf16 : computed;
}

void check(const HeadConfig& c, const OptimizerConfig& optimizer, DType dtype) {
  check(c.margin, c.normalize);
  if (c.over.empty())
    fail<InputError>(
        "head.over: expected at least one axis: a head whose classes no ranks share is one with head.parallel = "
        "replicated");
  if (c.is_replicated() && c.over != every_axis)
    fail<InputError>("head.over: ranks of a replicated head share no classes: expected all, got {}", to_string(c.over));
  if (c.bias && c.normalize) fail<InputError>("head.bias: cosines have none: expected normalize = false");
  if (c.bias && (c.samples() || c.is_replicated()))
    fail<InputError>("head.bias: expected a sharded head that does not sample");
  if (c.product_type == ProductType::bf16 && (c.weights != WeightState::bf16 || !c.normalize))
    fail<InputError>(
        "head.product_type: bf16 multiplies cosines of weights that are kept so: expected head.state.weights = bf16 "
        "and "
        "normalize = true");
  if (c.sub_centres > 1 && (!c.normalize || c.stash))
    fail<InputError>("head.sub_centres: expected cosines (normalize = true) and no stash");
  if (c.loss_reduction == LossReduction::reduce_scatter && c.is_replicated())
    fail<InputError>("head.loss_reduction: ranks of a replicated head see their own samples only: expected all_reduce");
  if (c.stash && c.logits != Logits::fused) fail<InputError>("head.stash: only fused logits have something to keep");
  if (c.samples() && c.logits != Logits::sharded && c.logits != Logits::fused)
    fail<InputError>("head.sample: expected sharded or fused logits: sampled ones are not put together");
  if (optimizer.type == OptimizerType::adamw && c.momentum != MomentumState::f32)
    fail<InputError>("head.state.momentum: adamw keeps its mean and its square in f32: expected f32");
  const bool is_wide =
      c.weights == WeightState::f32 && (c.momentum == MomentumState::f32 || c.momentum == MomentumState::none);
  if (dtype == DType::f64 && !is_wide)
    fail<InputError>("head.state: narrow state is computed with in f32: expected f32 state beside train.dtype = f64");
  if (c.sample.unsampled == Unsampled::lazy && (optimizer.type != OptimizerType::sgd || !is_wide))
    fail<InputError>(
        "head.sample.unsampled: lazy puts off steps of sgd, in f32: expected sgd, f32 weights, and f32 momentum or "
        "none");
  if (c.parallel != HeadParallel::replicated) return;
  if (c.logits == Logits::gathered || c.logits == Logits::transposed)
    fail<InputError>("head.logits: a replicated head has all classes' logits: expected sharded or fused");
  if (c.samples()) fail<InputError>("head.sample: a replicated head has no shards to sample");
  if (c.weights != WeightState::f32 || c.momentum != MomentumState::f32)
    fail<InputError>("head.state: a replicated head is stepped with the other parameters: expected f32");
}

}  // namespace heddle
