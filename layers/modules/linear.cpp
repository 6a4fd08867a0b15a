#include "layers/modules/linear.h"

#include <cmath>

#include "framework/ops/linear_algebra.h"
#include "framework/ops/shape.h"

namespace heddle {

namespace {

std::string parameter_name(const std::string& layer, const LinearOptions& options, const char* parameter) {
  return layer + options.separator + parameter;
}

class LinearSpec final : public LayerSpec {
 public:
  explicit LinearSpec(const LinearOptions& options) : options_(options) {}

  std::string_view type() const override { return "linear"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() < 2 || inputs[0].rank() > 3 || inputs[0].back() != options_.in)
      fail<InputError>("linear: expected one input [n,{0}] or [n,tokens,{0}], got {1}", options_.in,
                       to_string(inputs[0]));
    if (options_.heads > 0 && options_.out % (3 * options_.heads) != 0)
      fail<InputError>("linear: {} outputs are not queries, keys and values of {} heads", options_.out, options_.heads);
    return inputs[0].with(inputs[0].rank() - 1, options_.out);
  }
  std::vector<Shape> parameters() const override {
    std::vector<Shape> shapes{{options_.out, options_.in}};
    if (options_.bias) shapes.push_back({options_.out});
    return shapes;
  }
  double flops(std::span<const Shape> inputs) const override {
    return 2.0 * static_cast<double>(inputs[0].numel()) * static_cast<double>(options_.out);
  }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    if (kind == Parallel::sequence) return sequence_option(use, inputs, options_.bias ? 2 : 1);
    return weighted_option({.kind = kind,
                            .use = use,
                            .channel_dimension = inputs[0].rank() - 1,
                            .weight_in_dimension = 1,
                            .in = options_.in,
                            .out = options_.out,
                            .bias = options_.bias});
  }
  bool follows() const override { return false; }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<Linear>(construction, name, options_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    const std::string weight = graph.tensor({.name = parameter_name(name, options_, "weight"),
                                             .shape = {options_.out, options_.in},
                                             .image = inputs.values[0].image,
                                             .heads = options_.heads});
    std::vector<std::string> operands{inputs.name(), weight};
    if (options_.bias)
      operands.push_back(graph.tensor(
          {.name = parameter_name(name, options_, "bias"), .shape = {options_.out}, .heads = options_.heads}));
    if (inputs.samples[0].rank() == 1) return {graph.node(name, "Gemm", operands, {{"transB", std::int64_t{1}}})};
    // Gemm takes matrices only.
    const std::string transposed =
        graph.node(name + ".transposed", "Transpose", {weight}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    const std::string product =
        graph.node(options_.bias ? name + ".product" : name, "MatMul", {inputs.name(), transposed});
    return {.name = options_.bias ? graph.node(name, "Add", {product, operands[2]}) : product, .heads = options_.heads};
  }

 private:
  LinearOptions options_;
};

class FlattenSpec final : public LayerSpec {
 public:
  std::string_view type() const override { return "flatten"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) fail<InputError>("flatten: expected one input, got {}", inputs.size());
    return {inputs[0][0], inputs[0].product(1, inputs[0].rank())};
  }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    // Afterwards the channels are contiguous only if there was one pixel.
    if (kind == Parallel::group && inputs[0].numel() == inputs[0][0] * inputs[0].back())
      return samples_or_channels(kind, use, inputs, output(inputs), 0);
    return samples_only(kind, 1, 0);
  }
  LayerPointer build(Construction& /*construction*/, const std::string& /*name*/,
                     const LayerLayout& /*layout*/) const override {
    return std::make_unique<Flatten>();
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    if (inputs.samples[0].rank() == 1) return inputs.values[0];
    if (!inputs.is_image()) return {graph.node(name, "Flatten", {inputs.name()})};
    const Shape& image = inputs.samples[0];
    return {graph.node(name, "Flatten", {inputs.name()}),
            ImageShape{.channels = image[2], .height = image[0], .width = image[1]}};
  }
};

}  // namespace

LayerSpecPointer Linear::spec(const LinearOptions& options) {
  return std::make_shared<LinearSpec>(options);
}

static Weights linear_weights(Construction& construction, const std::string& name, const LinearOptions& options,
                              const LayerLayout& layout) {
  const Initial uniform = Initial::uniform(options.bound.value_or(1.0 / std::sqrt(static_cast<double>(options.in))));
  const bool is_torch_default = !options.deviation && !options.bound;
  Parameter weight =
      make_parameter(construction, parameter_name(name, options, "weight"), layout.part(0, {options.out, options.in}),
                     options.deviation ? Initial::normal(*options.deviation) : uniform);
  std::optional<Parameter> bias;
  if (options.bias)
    bias = make_parameter(construction, parameter_name(name, options, "bias"), layout.part(1, {options.out}),
                          is_torch_default ? uniform : Initial::constant(0), {.is_norm_or_bias = true});
  return {std::move(weight), std::move(bias), layout};
}

Linear::Linear(Construction& construction, const std::string& name, const LinearOptions& options,
               const LayerLayout& layout)
    : weights_(linear_weights(construction, name, options, layout)) {}

Variable Linear::forward(std::span<const Variable> inputs, const Pass& pass) {
  return weights_.apply(inputs[0].dtype(), pass,
                        [&](const Variable& weight, const Variable& bias) { return linear(inputs[0], weight, bias); });
}

LayerSpecPointer Flatten::spec() {
  return std::make_shared<FlattenSpec>();
}

Variable Flatten::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  const Shape& shape = inputs[0].shape();
  return reshape(inputs[0], {shape[0], shape.product(1, shape.rank())});
}

}  // namespace heddle
