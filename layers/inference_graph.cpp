#include "layers/inference_graph.h"

#include <algorithm>

#include "framework/error.h"
#include "layers/model_spec.h"

namespace heddle {

/// Rows in the order head, part, feature -> part, head, feature.
static void rows_by_part(std::int64_t heads, std::span<const float> ours, std::span<float> torch) {
  constexpr std::size_t parts = 3;
  const auto count = static_cast<std::size_t>(heads);
  const std::size_t length = ours.size() / (count * parts);  // of all rows of one head and part
  for (std::size_t head = 0; head < count; ++head)
    for (std::size_t part = 0; part < parts; ++part) {
      const auto from = ours.subspan((head * parts + part) * length, length);
      std::copy(from.begin(), from.end(), torch.begin() + static_cast<std::ptrdiff_t>((part * count + head) * length));
    }
}

void InferenceTensor::to_torch(std::span<const float> ours, std::span<float> torch) const {
  if (heads > 0) return rows_by_part(heads, ours, torch);
  const ImageShape size = image.value_or(ImageShape{.channels = 1, .height = 1, .width = 1});
  const auto channels = static_cast<std::size_t>(size.channels);
  const auto pixels = static_cast<std::size_t>(size.height * size.width);
  for (std::size_t row = 0; row < ours.size(); row += channels * pixels)
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        torch[row + channel * pixels + pixel] = ours[row + pixel * channels + channel];
}

InferenceGraph::InferenceGraph(const ModelSpec& model) {
  std::vector<InferenceValue> values{{"input"}};
  for (const ModelSpec::Application& application : model.applications()) {
    std::vector<InferenceValue> inputs;
    std::vector<Shape> samples;
    for (const int input : application.inputs) {
      inputs.push_back(values[static_cast<std::size_t>(input)]);
      samples.push_back(model.sample(input));
    }
    values.push_back(application.layer->write(*this, application.name, {inputs, samples}));
  }
  node("embedding", "Identity", {values.back().name});
}

std::string InferenceGraph::node(const std::string& output, const std::string& op, std::vector<std::string> inputs,
                                 std::map<std::string, InferenceAttribute> attributes) {
  nodes_.push_back({op, std::move(inputs), output, std::move(attributes)});
  return output;
}

std::string InferenceGraph::tensor(InferenceTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return tensors_.back().name;
}

std::string InferenceGraph::constant(const std::string& name, float value) {
  constants_[name] = value;
  return name;
}

InferenceTensor channel_tensor(const std::string& name, const InferenceInputs& inputs) {
  return {name, Shape{inputs.samples[0].back()}, inputs.values[0].image};
}

}  // namespace heddle
