#include "layers/modules/convolution.h"

#include <cmath>

namespace heddle {

namespace {

class ConvolutionSpec final : public LayerSpec {
 public:
  explicit ConvolutionSpec(const ConvolutionLayerOptions& options) : o_(options) {
    if (o_.groups < 1 || o_.in % o_.groups != 0 || o_.out % o_.groups != 0)
      fail<InputError>("conv2d: expected channels that {} groups divide, got {} in and {} out", o_.groups, o_.in,
                       o_.out);
  }

  std::string_view type() const override { return "conv2d"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 4 || inputs[0][3] != o_.in)
      fail<InputError>("conv2d: expected one input [n,height,width,{}], got {}", o_.in, to_string(inputs[0]));
    const std::int64_t height = extent(inputs[0][1]);
    const std::int64_t width = extent(inputs[0][2]);
    if (height < 1 || width < 1)
      fail<InputError>("conv2d: a kernel of {} does not fit into {} with padding {}", o_.kernel, to_string(inputs[0]),
                       o_.padding);
    return {inputs[0][0], height, width, o_.out};
  }
  std::vector<Shape> parameters() const override {
    std::vector<Shape> shapes{{o_.out, o_.kernel, o_.kernel, o_.in / o_.groups}};
    if (o_.bias) shapes.push_back({o_.out});
    return shapes;
  }
  double flops(std::span<const Shape> inputs) const override {
    return 2.0 * static_cast<double>(output(inputs).numel()) *
           static_cast<double>(o_.kernel * o_.kernel * (o_.in / o_.groups));
  }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use,
                                            std::span<const Shape> /*inputs*/) const override {
    if (kind == Parallel::group) return group_option(use);
    if (o_.groups > 1 && (kind == Parallel::column || kind == Parallel::row))
      return Refusal{fmt::format("it has {} groups: only group cuts it by channels", o_.groups)};
    return weighted_option({.kind = kind,
                            .use = use,
                            .channel_dimension = 3,
                            .weight_in_dimension = 3,
                            .in = o_.in,
                            .out = o_.out,
                            .bias = o_.bias});
  }
  bool follows() const override { return false; }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<Convolution>(construction, name, o_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    const std::int64_t k = o_.kernel;
    const std::int64_t in = o_.in / o_.groups;
    std::vector<std::string> operands{inputs.name(),
                                      graph.tensor({name + ".weight", {o_.out, in, k, k}, ImageShape{in, k, k}})};
    if (o_.bias) operands.push_back(graph.tensor({name + ".bias", {o_.out}}));
    return {graph.node(name, "Conv", operands,
                       {{"kernel_shape", std::vector{k, k}},
                        {"strides", std::vector{o_.stride, o_.stride}},
                        {"pads", std::vector<std::int64_t>(4, o_.padding)},
                        {"dilations", std::vector{o_.dilation, o_.dilation}},
                        {"group", o_.groups}})};
  }

 private:
  std::int64_t extent(std::int64_t size) const {
    return convolved_size(size, o_.kernel, o_.stride, o_.padding, o_.dilation);
  }
  std::variant<LayerOption, Refusal> group_option(AxisUse use) const {
    if (o_.groups == 1) return Refusal{"it has one group only"};
    // A rank has the channels of whole groups; with one channel per group any cut leaves groups whole.
    const bool is_depthwise = o_.groups == o_.in && o_.groups == o_.out;
    if (o_.groups < use.ranks || (!is_depthwise && o_.groups % use.ranks != 0))
      return Refusal{fmt::format("its {} groups do not divide by the ranks", o_.groups)};
    LayerOption option{Parallel::group, {Placement::shard(3)}, Placement::shard(3), {Placement::shard(0)}};
    if (o_.bias) option.parameters.push_back(Placement::shard(0));
    return option;
  }

  ConvolutionLayerOptions o_;
};

}  // namespace

LayerSpecPointer Convolution::spec(const ConvolutionLayerOptions& options) {
  return std::make_shared<ConvolutionSpec>(options);
}

static Shape weight_shape(const ConvolutionLayerOptions& options) {
  return {options.out, options.kernel, options.kernel, options.in / options.groups};
}

static Weights convolution_weights(Construction& construction, const std::string& name,
                                   const ConvolutionLayerOptions& options, const LayerLayout& layout) {
  const auto fan_out = static_cast<double>(options.out * options.kernel * options.kernel / options.groups);
  Parameter weight = make_parameter(construction, name + ".weight", layout.part(0, weight_shape(options)),
                                    Initial::normal(options.deviation.value_or(std::sqrt(2.0 / fan_out))));
  std::optional<Parameter> bias;
  if (options.bias)
    bias = make_parameter(construction, name + ".bias", layout.part(1, {options.out}), Initial::constant(0),
                          {.is_norm_or_bias = true});
  return {std::move(weight), std::move(bias), layout};
}

Convolution::Convolution(Construction& construction, const std::string& name, const ConvolutionLayerOptions& options,
                         const LayerLayout& layout)
    : options_{.stride = {options.stride, options.stride},
               .padding = {options.padding, options.padding},
               .dilation = {options.dilation, options.dilation},
               .groups = options.groups},
      weights_(convolution_weights(construction, name, options, layout)) {
  // The groups whose channels this rank has.
  const std::int64_t outputs = layout.part(0, weight_shape(options)).box[0].size;
  if (options.groups > 1) options_.groups = options.groups * outputs / options.out;
}

Variable Convolution::forward(std::span<const Variable> inputs, const Pass& pass) {
  return weights_.apply(inputs[0].dtype(), pass, [&](const Variable& weight, const Variable& bias) {
    return conv2d(inputs[0], weight, bias, options_);
  });
}

}  // namespace heddle
