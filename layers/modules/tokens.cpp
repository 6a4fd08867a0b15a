#include "layers/modules/tokens.h"

#include <cmath>

#include <fmt/ranges.h>

#include "framework/ops/attention.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/ops/training.h"

namespace heddle {

namespace {

using Numbers = std::vector<std::int64_t>;

/// A reshape of x; 0 keeps a dimension, and -1 stands for what is left.
std::string write_reshape(InferenceGraph& graph, const std::string& name, const std::string& x, Numbers shape) {
  const std::string sizes = graph.node(name + ".shape", "Constant", {}, {{"value_ints", std::move(shape)}});
  return graph.node(name, "Reshape", {x, sizes});
}

class PositionEmbeddingSpec final : public LayerSpec {
 public:
  PositionEmbeddingSpec(std::int64_t tokens, std::int64_t features) : tokens_(tokens), features_(features) {}

  std::string_view type() const override { return "position_embedding"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 3 || inputs[0][1] != tokens_ || inputs[0][2] != features_)
      fail<InputError>("position_embedding: expected one input [n,{},{}], got {}", tokens_, features_,
                       to_string(inputs[0]));
    return inputs[0];
  }
  std::vector<Shape> parameters() const override { return {{1, tokens_, features_}}; }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    if (kind != Parallel::sequence) return samples_ungathered(kind, 1, 1);
    auto option = sequence_option(use, inputs, 1);
    if (auto* possible = std::get_if<LayerOption>(&option)) possible->parameters[0] = Placement::shard(1);
    return option;
  }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<PositionEmbedding>(construction, name, tokens_, features_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    const std::string positions = graph.tensor({.name = name, .shape = {1, tokens_, features_}});
    return {graph.node(name + ".sum", "Add", {inputs.name(), positions})};
  }

 private:
  std::int64_t tokens_;
  std::int64_t features_;
};

class AttentionSpec final : public LayerSpec {
 public:
  explicit AttentionSpec(const AttentionOptions& options) : options_(options) {}

  std::string_view type() const override { return "attention"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 3)
      fail<InputError>("attention: expected one input [n,tokens,3*features], got {}", to_string(inputs[0]));
    if (inputs[0][2] % (3 * options_.heads) != 0)
      fail<InputError>("attention: expected queries, keys and values of {} heads, got {}: {} is no multiple of {}",
                       options_.heads, to_string(inputs[0]), inputs[0][2], 3 * options_.heads);
    return inputs[0].with(2, inputs[0][2] / 3);
  }
  double flops(std::span<const Shape> inputs) const override {
    // Two products of 2 T T D multiplications and additions for each sample and head.
    return 4.0 / 3 * static_cast<double>(inputs[0].numel()) * static_cast<double>(inputs[0][1]);
  }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    if (kind == Parallel::group && options_.heads % use.ranks != 0) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t ranks = 2; ranks <= options_.heads; ++ranks)
        if (options_.heads % ranks == 0) divisors.push_back(ranks);
      return Refusal{fmt::format("its {} heads cannot be shared evenly by {} ranks: {} could", options_.heads,
                                 use.ranks, divisors.empty() ? "1" : fmt::format("{}", fmt::join(divisors, ", ")))};
    }
    if (kind == Parallel::sequence) return Refusal{"its tokens see each other: group gives each rank some heads"};
    if (kind == Parallel::parameter) return Refusal{"it has no parameters to shard"};
    return samples_or_channels(kind, use, inputs, output(inputs), 0);
  }
  std::uint32_t streams() const override { return LayerSpec::streams() + (options_.dropout > 0 ? 1 : 0); }
  LayerPointer build(Construction& construction, const std::string& /*name*/,
                     const LayerLayout& layout) const override {
    return std::make_unique<Attention>(construction, options_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    const std::int64_t features = inputs.samples[0][1] / (3 * options_.heads);
    const std::int64_t published = inputs.values[0].heads;
    if (published != 0 && published != options_.heads)
      fail<InputError>("{}: the layer before it gives queries, keys and values of {} heads, not of {}", name, published,
                       options_.heads);
    const std::int64_t part_axis = published != 0 ? 2 : 3;
    const Numbers sizes =
        published != 0 ? Numbers{0, 0, 3, options_.heads, features} : Numbers{0, 0, options_.heads, 3, features};
    const std::string parts = write_reshape(graph, name + ".parts", inputs.name(), sizes);
    const auto part = [&](const char* which, std::int64_t index, Numbers order) {
      const std::string number =
          graph.node(name + which + std::string(".index"), "Constant", {}, {{"value_int", index}});
      const std::string one =
          graph.node(name + which + std::string(".part"), "Gather", {parts, number}, {{"axis", part_axis}});
      return graph.node(name + which, "Transpose", {one}, {{"perm", std::move(order)}});
    };
    const std::string q = part(".q", 0, {0, 2, 1, 3});
    const std::string k = part(".k", 1, {0, 2, 3, 1});
    const std::string v = part(".v", 2, {0, 2, 1, 3});
    const double scale = options_.scale > 0 ? options_.scale : 1 / std::sqrt(static_cast<double>(features));
    const std::string products = graph.node(name + ".products", "MatMul", {q, k});
    const std::string factor = graph.constant(name + ".scale", static_cast<float>(scale));
    const std::string scores = graph.node(name + ".scores", "Mul", {products, factor});
    const std::string shares = graph.node(name + ".shares", "Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string sums = graph.node(name + ".sums", "MatMul", {shares, v});
    const std::string by_token = graph.node(name + ".tokens", "Transpose", {sums}, {{"perm", Numbers{0, 2, 1, 3}}});
    return {write_reshape(graph, name, by_token, {0, 0, options_.heads * features})};
  }

 private:
  AttentionOptions options_;
};

}  // namespace

LayerSpecPointer ImageTokens::spec() {
  return channelwise_spec(
      {.type = "tokens",
       .output =
           [](const Shape& x) {
             if (x.rank() != 4) fail<InputError>("tokens: expected images [n,h,w,c], got {}", to_string(x));
             return Shape{x[0], x[1] * x[2], x[3]};
           },
       .build = [](Construction&, const std::string&, const LayerLayout&) { return std::make_unique<ImageTokens>(); },
       .write = [](InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) -> InferenceValue {
         const Shape& image = inputs.samples[0];
         const std::string pixels = write_reshape(graph, name + ".pixels", inputs.name(), {0, image[2], -1});
         return {graph.node(name, "Transpose", {pixels}, {{"perm", Numbers{0, 2, 1}}})};
       }});
}

Variable ImageTokens::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  const Shape& shape = inputs[0].shape();
  return reshape(inputs[0], {shape[0], shape[1] * shape[2], shape[3]});
}

LayerSpecPointer PositionEmbedding::spec(std::int64_t tokens, std::int64_t features) {
  return std::make_shared<PositionEmbeddingSpec>(tokens, features);
}

PositionEmbedding::PositionEmbedding(Construction& construction, const std::string& name, std::int64_t tokens,
                                     std::int64_t features, const LayerLayout& layout)
    : positions_(make_parameter(construction, name, layout.part(0, {1, tokens, features}), Initial::normal(0.02),
                                {.is_norm_or_bias = true})) {}

Variable PositionEmbedding::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return add(inputs[0], cast_weight(positions_.variable, inputs[0].dtype()));
}

LayerSpecPointer Attention::spec(const AttentionOptions& options) {
  return std::make_shared<AttentionSpec>(options);
}

Attention::Attention(Construction& construction, const AttentionOptions& options, LayerLayout layout)
    : options_(options), size_of_head_(layout.inputs[0][2] / options.heads) {
  if (options.dropout > 0) draws_ = LayerDraws::of_dropout(construction, std::move(layout));
}

Variable Attention::forward(std::span<const Variable> inputs, const Pass& pass) {
  AttentionDropout dropout;
  if (pass.training && draws_) {
    // This rank has some samples of the whole batch, and some heads of each.
    const std::vector<IndexRange> box = draws_->box(pass);
    dropout = {options_.dropout, draws_->key(pass), box[0].begin, box[2].begin / size_of_head_, options_.heads};
  }
  return attention(inputs[0], inputs[0].shape()[2] / size_of_head_,
                   options_.scale > 0 ? std::optional(options_.scale) : std::nullopt, dropout);
}

LayerSpecPointer DropPath::spec(double probability) {
  return channelwise_spec(
      {.type = "drop_path",
       .own_streams = 1,
       .build =
           [probability](Construction& construction, const std::string&, const LayerLayout& layout) {
             return std::make_unique<DropPath>(construction, probability, layout);
           },
       .write = [](InferenceGraph&, const std::string&, const InferenceInputs& inputs) { return inputs.values[0]; }});
}

DropPath::DropPath(Construction& construction, double probability, LayerLayout layout)
    : draws_(LayerDraws::of_dropout(construction, std::move(layout))), probability_(probability) {}

Variable DropPath::forward(std::span<const Variable> inputs, const Pass& pass) {
  const Variable& x = inputs[0];
  if (!pass.training || probability_ == 0) return x;
  std::vector<std::int64_t> one_per_sample(static_cast<std::size_t>(x.shape().rank()), 1);
  one_per_sample[0] = x.shape()[0];
  const Tensor ones = Tensor::full(x.device(), Shape(one_per_sample), x.dtype(), 1);
  return multiply(x, dropout(ones, probability_, draws_.key(pass), draws_.box(pass)[0].begin));
}

}  // namespace heddle
