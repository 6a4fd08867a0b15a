#include "layers/inference_graph.h"

#include <fmt/format.h>

#include "framework/error.h"
#include "layers/model_spec.h"

namespace heddle {

void InferenceTensor::to_torch(std::span<const float> ours, std::span<float> torch) const {
  for_each_element(ours.size(), [&](std::size_t i, std::size_t in_torch) { torch[in_torch] = ours[i]; });
}

InferenceGraph::InferenceGraph(const ModelSpec& model) {
  std::vector<InferenceValue> values{{"input"}};
  for (const ModelSpec::Application& application : model.applications()) {
    std::vector<InferenceValue> inputs;
    std::vector<Shape> samples;
    for (const int input : application.inputs) {
      inputs.push_back(values[static_cast<std::size_t>(input)]);
      samples.push_back(model.evaluation_sample(input));
    }
    const std::size_t first = tensors_.size();
    values.push_back(application.layer->write(*this, application.name, {inputs, samples}));
    for (std::size_t i = first; i < tensors_.size(); ++i) tensors_[i].application = values.size() - 2;
  }
  embedding_image_ = values.back().image;
  append("embedding", "Identity", {in_our_order(values.back())}, {});
}

std::string InferenceGraph::node(const std::string& output, const std::string& op, std::vector<std::string> inputs,
                                 std::map<std::string, InferenceAttribute> attributes) {
  std::string name = output;
  for (int copy = 2; !values_.insert(name).second; ++copy) name = fmt::format("{}:{}", output, copy);
  append(name, op, std::move(inputs), std::move(attributes));
  return name;
}

void InferenceGraph::append(const std::string& output, const std::string& op, std::vector<std::string> inputs,
                            std::map<std::string, InferenceAttribute> attributes) {
  read_.insert(inputs.begin(), inputs.end());
  nodes_.push_back({op, std::move(inputs), output, std::move(attributes)});
}

InferenceValue InferenceGraph::sum(const std::string& output, const InferenceValue& a, const InferenceValue& b) {
  if (a.image == b.image) return {node(output, "Add", {a.name, b.name}), a.image};
  return {node(output, "Add", {in_our_order(a), in_our_order(b)})};
}

std::string InferenceGraph::in_our_order(const InferenceValue& value) {
  if (!value.image || value.image->channels == 1 || value.image->height * value.image->width == 1) return value.name;
  const InferenceTensor elements{"", {value.image->size()}, value.image};
  const auto size = static_cast<std::size_t>(value.image->size());
  std::vector<std::int64_t> indices(size);
  elements.for_each_element(
      size, [&](std::size_t ours, std::size_t torch) { indices[ours] = static_cast<std::int64_t>(torch); });
  const std::string list =
      fmt::format("order:{}x{}x{}", value.image->height, value.image->width, value.image->channels);
  index_lists_[list] = std::move(indices);
  return node(value.name + ".ordered", "Gather", {value.name, list}, {{"axis", std::int64_t{1}}});
}

std::string InferenceGraph::tensor(InferenceTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return tensors_.back().name;
}

std::string InferenceGraph::constant(const std::string& name, float value) {
  const std::string own = "constant:" + name;
  constants_[own] = value;
  return own;
}

InferenceTensor channel_tensor(const std::string& name, const InferenceInputs& inputs) {
  return {name, Shape{inputs.samples[0].back()}, inputs.values[0].image};
}

}  // namespace heddle
