#include "layers/head/head_config.h"

#include <algorithm>
#include <numeric>

#include "framework/description/describe.h"
#include "framework/error.h"
#include "parallel/communicator/shard.h"

namespace heddle {

namespace {

void describe_sample(Describer& d, SampleConfig& c) {
  d.field("rate", c.rate, between(0, 1),
          "share of the classes that take part in a step, as in PartialFC: those of the batch, and others at random; "
          "0: only those of the batch; 1: all");
  choice(
      d, "unsampled", c.unsampled,
      "what a step does to the other classes: nothing (frozen), decay and momentum with a gradient of zero (dense), "
      "or the same but deferred: a class catches up when it is next needed (lazy: dense's weights at frozen's cost)");
  d.field("correction", c.correction,
          "whether to add -ln of the probability of being drawn to the logits of the others, which makes the softmax's "
          "sum unbiased");
  choice(d, "gradient", c.gradient,
         "rows: the gradient of the drawn classes, tile by tile; dense: the gradient of all classes, held as in PLSC "
         "without its sparse optimizer, for comparison; the weights are the same");
  d.field("shards", c.shards, between(0, 1e6),
          "number of shards of the classes that are sampled separately; 0: as many as ranks share the classes, or in a "
          "resumed run as many as before. The sample depends on this number, not on the ranks");
}

void describe_state(Describer& d, HeadConfig& c) {
  choice(d, "weights", c.weights, "type in which the weights are kept; int8 has one scale per row");
  choice(d, "momentum", c.momentum, "type in which sgd's velocity is kept; none: the head's sgd has no momentum");
}

}  // namespace

void describe(Describer& d, HeadConfig& c) {
  d.field(required("classes"), c.classes, between(2, 1e10),
          "number of classes; may exceed the number of people in the data");
  choice(d, "parallel", c.parallel,
         "sharded: each rank has a part of the classes; replicated: each has all, and gradients are summed");
  choice(d, "logits", c.logits,
         "where the logits are: gathered on rank 0, transposed (each rank has all classes for its share of the batch), "
         "sharded by class, or nowhere (fused: class tiles are computed twice and never kept)");
  d.field("stash", c.stash, "whether fused logits keep their exponentials, which saves one of four products");
  d.field("tile", c.tile, between(0, 1e6),
          "number of classes that are computed at once; 0: chosen by the embedding's size, on a GPU 65,536");
  unsigned over = c.over.index();
  d.subset("over", over, enum_names<Axis>.rows().first(all_axes.size()), "all", 1,
           "mesh axes along which ranks share the classes; ranks along the other axes hold copies, see different "
           "samples and sum the gradients. With pp the ranks of all pipeline stages have classes and take part in each "
           "micro-batch; without pp, only the ranks of the last stage do. (On plan the tiles of copies are visited one "
           "by one: 10^8 classes take seconds)");
  c.over = AxisSet::of_index(over);
  d.field("split", c.split, between(0, 1e10), between(0, 65536),
          "number of classes of each rank that shares them, in rank order; their sum is head.classes. Left out: shards "
          "that are as equal as possible");
  object(d, "margin", c.margin, "the margin softmax");
  d.field("normalize", c.normalize,
          "whether logits are cosines of embeddings and weights; else they are plain products");
  d.field("bias", c.bias, "whether to add a trained bias to the logit of each class; needs normalize = false");
  d.field("sub_centres", c.sub_centres, between(1, 64),
          "rows of weights per class, whose largest cosine is that of the class (Sub-center ArcFace)");
  choice(d, "loss_reduction", c.loss_reduction,
         "whether each rank gets the losses of all samples or of its own; the loss is the same");
  choice(d, "init", c.init, "initial weights: normal draws, or unit rows of uniform draws");
  d.field("initial_deviation", c.initial_deviation, above(0), "standard deviation of normal initial weights");
  d.field("loss_every", c.loss_every, at_least(1),
          "n: the loss is computed in every n-th step only; gradients do not need it");
  d.field("loss_weight", c.loss_weight, above(0),
          "factor of this head's loss in the loss of the training, which is the sum over all heads");
  d.object(
      "sample", [&c](Describer& inner) { describe_sample(inner, c.sample); }, "class sampling");
  choice(d, "product_type", c.product_type,
         "type in which embeddings and classes are multiplied, and then summed in f32: f32 (state of 16 or 8 bits is "
         "widened), bf16 (only cosines, with weights kept in bf16), or auto: bf16 if weights are kept in it and the "
         "processor multiplies it much faster (AMX, or avx512_bf16 on AMD)");
  d.object(
      "state", [&c](Describer& inner) { describe_state(inner, c); }, "what is kept between steps");
}

IndexRange HeadConfig::classes_of(std::int64_t ranks, std::int64_t rank) const {
  if (split.empty()) return shard(classes, ranks, rank);
  const auto own = split.begin() + rank;
  return {std::accumulate(split.begin(), own, std::int64_t{0}), *own};
}

std::int64_t HeadConfig::max_classes(std::int64_t ranks) const {
  return split.empty() ? shard(classes, ranks, 0).size : *std::max_element(split.begin(), split.end());
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
  if (c.is_replicated() && !c.split.empty())
    fail<InputError>("head.split: ranks of a replicated head share no classes: expected none");
  const std::int64_t sum = std::accumulate(c.split.begin(), c.split.end(), std::int64_t{0});
  if (!c.split.empty() && sum != c.classes)
    fail<InputError>("head.split: expected numbers whose sum is head.classes = {}, got {}", c.classes, sum);
  if (c.bias && c.normalize) fail<InputError>("head.bias: cosine logits take no bias: expected normalize = false");
  if (c.bias && c.margin.type == MarginType::l_softmax)
    fail<InputError>("head.bias: L-Softmax has no biases: expected false");
  if (c.product_type == ProductType::bf16 && (c.weights != WeightState::bf16 || !c.normalize))
    fail<InputError>(
        "head.product_type: bf16 needs cosines, and weights that are kept in bf16: expected head.state.weights = bf16 "
        "and normalize = true");
  if (c.sub_centres > 1 && (!c.normalize || c.stash))
    fail<InputError>("head.sub_centres: expected cosines (normalize = true) and no stash");
  if (c.loss_reduction == LossReduction::reduce_scatter && c.is_replicated())
    fail<InputError>("head.loss_reduction: ranks of a replicated head see their own samples only: expected all_reduce");
  if (c.stash && c.logits != Logits::fused) fail<InputError>("head.stash: only fused logits have something to keep");
  if (c.samples() && c.logits != Logits::sharded && c.logits != Logits::fused)
    fail<InputError>("head.sample: sampled logits are not gathered or transposed: expected sharded or fused");
  if (c.sample.gradient == SampleGradient::dense && !c.samples())
    fail<InputError>("head.sample.gradient: only a sample has a dense gradient: expected head.sample.rate < 1");
  if (c.sample.gradient == SampleGradient::dense && c.sample.unsampled != Unsampled::dense)
    fail<InputError>(
        "head.sample.gradient: a dense gradient steps all classes: expected head.sample.unsampled = dense");
  if (optimizer.type == OptimizerType::adamw && c.momentum != MomentumState::f32)
    fail<InputError>("head.state.momentum: adamw keeps its mean and its square in f32: expected f32");
  const bool is_wide =
      c.weights == WeightState::f32 && (c.momentum == MomentumState::f32 || c.momentum == MomentumState::none);
  if (dtype == DType::f64 && !is_wide)
    fail<InputError>(
        "head.state: 16-bit and 8-bit state needs computing in f32: expected f32 state with train.dtype = f64");
  if (c.sample.unsampled == Unsampled::lazy && (optimizer.type != OptimizerType::sgd || !is_wide))
    fail<InputError>(
        "head.sample.unsampled: lazy defers steps of sgd in f32: expected sgd, f32 weights, and f32 momentum or none");
  if (c.parallel != HeadParallel::replicated) return;
  if (c.logits == Logits::gathered || c.logits == Logits::transposed)
    fail<InputError>("head.logits: a replicated head has all classes' logits: expected sharded or fused");
  if (c.samples()) fail<InputError>("head.sample: a replicated head has no shards to sample");
  const DType weights = weight_type(c, dtype);
  const bool is_rounded = size_of(weights) == 2 && optimizer.type == OptimizerType::sgd;
  if ((weights != dtype && !is_rounded) || momentum_type(c, {}, dtype) != weights)
    fail<InputError>(
        "head.state: a replicated head is stepped with the other parameters: expected f32 weights and momentum, or "
        "with sgd both in bf16 or both in f16");
}

void check_split(const HeadConfig& c, std::int64_t ranks) {
  if (!c.split.empty() && static_cast<std::int64_t>(c.split.size()) != ranks)
    fail<InputError>("head.split: expected one number of classes per rank that shares them, {} in all, got {}", ranks,
                     c.split.size());
}

}  // namespace heddle
