#include "layers/modules/class_token.h"

#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"

namespace heddle {

namespace {

class ClassTokenSpec final : public LayerSpec {
 public:
  explicit ClassTokenSpec(std::int64_t features) : features_(features) {}

  std::string_view type() const override { return "class_token"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 3 || inputs[0][2] != features_)
      fail<InputError>("class_token: expected one input [n,tokens,{}], got {}", features_, to_string(inputs[0]));
    return inputs[0].with(1, inputs[0][1] + 1);
  }
  std::vector<Shape> parameters() const override { return {{1, 1, features_}}; }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse /*use*/,
                                            std::span<const Shape> /*inputs*/) const override {
    return samples_ungathered(kind, 1, 1);
  }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<ClassToken>(construction, name, features_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    using Numbers = std::vector<std::int64_t>;
    const std::string token = graph.tensor({.name = name, .shape = {1, 1, features_}});
    // One copy for each sample, whatever their number is when the graph runs.
    const std::string samples = graph.node(name + ".samples", "Shape", {inputs.name()}, {{"end", std::int64_t{1}}});
    const std::string rest = graph.node(name + ".rest", "Constant", {}, {{"value_ints", Numbers{1, features_}}});
    const std::string shape = graph.node(name + ".shape", "Concat", {samples, rest}, {{"axis", std::int64_t{0}}});
    const std::string copies = graph.node(name + ".copies", "Expand", {token, shape});
    return {graph.node(name + ".tokens", "Concat", {copies, inputs.name()}, {{"axis", std::int64_t{1}}})};
  }

 private:
  std::int64_t features_;
};

}  // namespace

LayerSpecPointer ClassToken::spec(std::int64_t features) {
  return std::make_shared<ClassTokenSpec>(features);
}

ClassToken::ClassToken(Construction& construction, const std::string& name, std::int64_t features,
                       const LayerLayout& layout)
    : token_(make_parameter(construction, name, layout.part(0, {1, 1, features}), Initial::constant(0),
                            {.is_norm_or_bias = true})) {}

Variable ClassToken::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  const Variable& x = inputs[0];
  const Tensor zeros = Tensor::zeros(x.device(), x.shape().with(1, 1), x.dtype());
  const Variable copies = add(Variable(zeros), cast_weight(token_.variable, x.dtype()));
  return concat(std::vector{copies, x}, 1);
}

LayerSpecPointer FirstToken::spec() {
  return channelwise_spec(
      {.type = "first_token",
       .output =
           [](const Shape& x) {
             if (x.rank() != 3) fail<InputError>("first_token: expected tokens [n,t,d], got {}", to_string(x));
             return Shape{x[0], x[2]};
           },
       .build = [](Construction&, const std::string&, const LayerLayout&) { return std::make_unique<FirstToken>(); },
       .write = [](InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) -> InferenceValue {
         const std::string first = graph.node(name + ".index", "Constant", {}, {{"value_int", std::int64_t{0}}});
         return {graph.node(name, "Gather", {inputs.name(), first}, {{"axis", std::int64_t{1}}})};
       }});
}

Variable FirstToken::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  const Shape& shape = inputs[0].shape();
  return reshape(slice(inputs[0], 1, 0, 1), {shape[0], shape[2]});
}

}  // namespace heddle
