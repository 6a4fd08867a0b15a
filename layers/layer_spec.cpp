#include "layers/layer_spec.h"

namespace heddle {

namespace {

class ChannelwiseSpec final : public LayerSpec {
 public:
  explicit ChannelwiseSpec(ChannelwiseLayer layer) : layer_(std::move(layer)) {}

  std::string_view type() const override { return layer_.type; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != layer_.inputs)
      fail<InputError>("{}: expected {} inputs, got {}", layer_.type, layer_.inputs, inputs.size());
    for (const Shape& input : inputs)
      if (input != inputs[0])
        fail<InputError>("{}: expected inputs of one shape, got {} and {}", layer_.type, to_string(inputs[0]),
                         to_string(input));
    if (inputs[0].rank() < 2)
      fail<InputError>("{}: expected samples with channels, got {}", layer_.type, to_string(inputs[0]));
    for (const Shape& parameter : layer_.parameters)
      if (parameter[0] != inputs[0].back())
        fail<InputError>("{}: expected {} channels, got {}", layer_.type, parameter[0], to_string(inputs[0]));
    return layer_.output ? layer_.output(inputs[0]) : inputs[0];
  }
  std::vector<Shape> parameters() const override { return layer_.parameters; }
  std::uint32_t streams() const override { return LayerSpec::streams() + layer_.own_streams; }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    if (kind == Parallel::sequence && !layer_.output) return sequence_option(use, inputs, layer_.parameters.size());
    return samples_or_channels(kind, use, inputs, output(inputs), layer_.parameters.size());
  }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return layer_.build(construction, name, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    return layer_.write(graph, name, inputs);
  }

 private:
  ChannelwiseLayer layer_;
};

}  // namespace

std::int64_t LayerSpec::parameter_elements() const {
  std::int64_t elements = 0;
  for (const Shape& shape : parameters()) elements += shape.numel();
  return elements;
}

std::int64_t LayerSpec::trained_elements() const {
  const std::vector<Shape> shapes = parameters();
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (trains(i)) elements += shapes[i].numel();
  return elements;
}

LayerSpecPointer channelwise_spec(ChannelwiseLayer layer) {
  return std::make_shared<ChannelwiseSpec>(std::move(layer));
}

std::variant<LayerOption, Refusal> samples_only(Parallel kind, std::size_t inputs, std::size_t parameters) {
  const auto all = [&](const Placement& value, const Placement& parameter) {
    return LayerOption{kind, std::vector(inputs, value), value, std::vector(parameters, parameter)};
  };
  switch (kind) {
    case Parallel::replicate:
      return all(Placement::replicate(), Placement::replicate());
    case Parallel::data:
      return all(Placement::shard(0), Placement::replicate_partial());
    case Parallel::parameter:
      if (parameters == 0) return Refusal{"it has no parameters to shard"};
      return all(Placement::shard(0), Placement::replicate_partial());
    default:
      return Refusal{"it works on whole samples only"};
  }
}

std::variant<LayerOption, Refusal> samples_ungathered(Parallel kind, std::size_t inputs, std::size_t parameters) {
  if (kind == Parallel::parameter) return Refusal{"its parameters are too small to be gathered"};
  return samples_only(kind, inputs, parameters);
}

std::variant<LayerOption, Refusal> sequence_option(AxisUse use, std::span<const Shape> inputs, std::size_t parameters) {
  for (const Shape& input : inputs) {
    if (input.rank() != 3) return Refusal{"its input has no tokens"};
    if (input[1] < use.ranks) return Refusal{fmt::format("its {} tokens are fewer than the ranks", input[1])};
  }
  return LayerOption{Parallel::sequence, std::vector(inputs.size(), Placement::shard(1)), Placement::shard(1),
                     std::vector(parameters, Placement::replicate_partial())};
}

std::variant<LayerOption, Refusal> samples_or_channels(Parallel kind, AxisUse use, std::span<const Shape> inputs,
                                                       const Shape& output, std::size_t parameters) {
  if (kind == Parallel::column || kind == Parallel::row)
    return Refusal{"each of its outputs comes from one channel: only group cuts it by channels"};
  if (kind != Parallel::group) return samples_ungathered(kind, inputs.size(), parameters);
  LayerOption option{kind, {}, Placement::shard(output.rank() - 1), {}};
  for (const Shape& input : inputs) {
    if (input.back() < use.ranks) return Refusal{fmt::format("its {} channels are fewer than the ranks", input.back())};
    option.inputs.push_back(Placement::shard(input.rank() - 1));
  }
  option.parameters.assign(parameters, Placement::shard(0));
  return option;
}

}  // namespace heddle
