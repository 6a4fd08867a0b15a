#include "layers/inference_graph.h"

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
  node("embedding", "Identity", {values.back().name});
}

std::string InferenceGraph::node(const std::string& output, const std::string& op, std::vector<std::string> inputs,
                                 std::map<std::string, InferenceAttribute> attributes) {
  read_.insert(inputs.begin(), inputs.end());
  nodes_.push_back({op, std::move(inputs), output, std::move(attributes)});
  return output;
}

std::string InferenceGraph::tensor(InferenceTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return tensors_.back().name;
}

std::string InferenceGraph::constant(const std::string& name, float value) {
  const std::string own = "constant:" + name;  // layers have other names
  constants_[own] = value;
  return own;
}

InferenceTensor channel_tensor(const std::string& name, const InferenceInputs& inputs) {
  return {name, Shape{inputs.samples[0].back()}, inputs.values[0].image};
}

}  // namespace heddle
