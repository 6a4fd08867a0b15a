#include "layers/modules/activation.h"

#include <array>
#include <numbers>

#include "framework/ops/elementwise.h"
#include "framework/ops/training.h"

namespace heddle {

namespace {

/// x * Phi(x) = x * 0.5 * (1 + erf(x * sqrt(0.5))): an operator of its own only since operator set 20.
std::string write_gelu(InferenceGraph& graph, const std::string& name, const std::string& x) {
  const std::string half = graph.constant("half", 0.5F);
  const std::string root = graph.constant("sqrt_half", std::numbers::sqrt2_v<float> / 2);
  const std::string scaled = graph.node(name + ".scaled", "Mul", {x, root});
  const std::string erf = graph.node(name + ".erf", "Erf", {scaled});
  const std::string sum = graph.node(name + ".sum", "Add", {erf, graph.constant("one", 1)});
  const std::string phi = graph.node(name + ".phi", "Mul", {sum, half});
  return graph.node(name, "Mul", {x, phi});
}

/// `op`: the operator of one input that it is, if any.
std::string write(InferenceGraph& graph, const std::string& name, const char* op, const std::string& x) {
  if (op == nullptr) return write_gelu(graph, name, x);
  if (std::string_view(op) != "Clip") return graph.node(name, op, {x});
  return graph.node(name, op, {x, graph.constant("zero", 0), graph.constant("six", 6)});
}

}  // namespace

LayerSpecPointer Activation::spec(ActivationKind kind) {
  struct Row {
    std::string_view type;
    const char* op;
  };
  static constexpr std::array<Row, 5> rows{
      {{"relu", "Relu"}, {"relu6", "Clip"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}, {"gelu", nullptr}}};
  const Row& row = rows[static_cast<std::size_t>(kind)];
  return channelwise_spec({.type = row.type,
                           .build = [kind](Construction&, const std::string&,
                                           const LayerLayout&) { return std::make_unique<Activation>(kind); },
                           .write = [&row](InferenceGraph& graph, const std::string& name,
                                           const InferenceInputs& inputs) -> InferenceValue {
                             return {write(graph, name, row.op, inputs.name()), inputs.values[0].image};
                           }});
}

Variable Activation::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  switch (kind_) {
    case ActivationKind::relu:
      return relu(inputs[0]);
    case ActivationKind::relu6:
      return relu6(inputs[0]);
    case ActivationKind::sigmoid:
      return sigmoid(inputs[0]);
    case ActivationKind::tanh:
      return heddle::tanh(inputs[0]);
    case ActivationKind::gelu:
      return gelu(inputs[0]);
  }
  fail("activation: unknown kind {}", static_cast<int>(kind_));
}

LayerSpecPointer PRelu::spec(std::int64_t channels) {
  return channelwise_spec(
      {.type = "prelu",
       .parameters = {{channels}},
       .build =
           [channels](Construction& construction, const std::string& name, const LayerLayout& layout) {
             return std::make_unique<PRelu>(construction, name, channels, layout);
           },
       .write = [](InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) -> InferenceValue {
         return PRelu::write(graph, name, inputs);
       }});
}

InferenceValue PRelu::write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) {
  InferenceTensor slope = channel_tensor(name + ".weight", inputs);
  if (inputs.is_image()) slope.operand = Shape{slope.shape[0], 1, 1};
  return {graph.node(name, "PRelu", {inputs.name(), graph.tensor(std::move(slope))}), inputs.values[0].image};
}

PRelu::PRelu(Construction& construction, const std::string& name, std::int64_t channels, const LayerLayout& layout)
    : slope_(make_parameter(construction, name + ".weight", layout.part(0, {channels}), Initial::constant(0.25),
                            {.is_norm_or_bias = true})) {}

Variable PRelu::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return prelu(inputs[0], slope_.variable);
}

LayerSpecPointer Dropout::spec(double probability) {
  return channelwise_spec(
      {.type = "dropout",
       .own_streams = 1,
       .build = [probability](
                    Construction& construction, const std::string&,
                    const LayerLayout& layout) { return std::make_unique<Dropout>(construction, probability, layout); },
       .write = [](InferenceGraph&, const std::string&, const InferenceInputs& inputs) { return inputs.values[0]; }});
}

Dropout::Dropout(Construction& construction, double probability, LayerLayout layout)
    : draws_(LayerDraws::of_dropout(construction, std::move(layout))), probability_(probability) {}

Variable Dropout::forward(std::span<const Variable> inputs, const Pass& pass) {
  const Variable& x = inputs[0];
  if (!pass.training || probability_ == 0) return x;
  const Shape& whole = draws_.layout().inputs[0];
  const std::vector<IndexRange> box = draws_.box(pass);
  // This rank has some samples of the whole tensor, and of each a range of its tokens, or of each pixel's channels.
  const bool has_some_tokens = !draws_.layout().axes(Parallel::sequence).empty();
  const int cut = has_some_tokens ? 1 : whole.rank() - 1;
  const std::int64_t rows_per_sample = whole.product(1, cut);
  const std::int64_t row = whole.product(cut, whole.rank());
  const std::int64_t element = whole.product(cut + 1, whole.rank());
  const IndexRange range = box[static_cast<std::size_t>(cut)];
  const std::int64_t first_row = box[0].begin * rows_per_sample;
  return dropout(x, probability_, draws_.key(pass),
                 {first_row * row + range.begin * element, range.size * element, row});
}

LayerSpecPointer Add::spec() {
  return channelwise_spec(
      {.type = "add",
       .inputs = 2,
       .build = [](Construction&, const std::string&, const LayerLayout&) { return std::make_unique<Add>(); },
       .write = [](InferenceGraph& graph, const std::string& name,
                   const InferenceInputs& inputs) { return graph.sum(name, inputs.values[0], inputs.values[1]); }});
}

Variable Add::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return add(inputs[0], inputs[1]);
}

}  // namespace heddle
