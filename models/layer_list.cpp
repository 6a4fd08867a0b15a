#include "models/layer_list.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "framework/description/nearest.h"
#include "framework/error.h"
#include "models/layer_types.h"

namespace heddle {

namespace {

/// The values that layers may name as inputs.
class Names {
 public:
  void add(const std::string& name, int value) {
    names_.push_back(name);
    values_.push_back(value);
  }
  const int* find(const std::string& name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return found == names_.end() ? nullptr : &values_[static_cast<std::size_t>(found - names_.begin())];
  }
  std::string suggestion(const std::string& name) const {
    const std::optional<std::string> near = nearest(name, names_);
    return near ? fmt::format("; did you mean \"{}\"?", *near) : "";
  }

 private:
  std::vector<std::string> names_;
  std::vector<int> values_;
};

void check_name(const std::string& name, std::size_t index, const Names& names) {
  if (name.find('*') != std::string::npos)
    fail<InputError>("model: layer {}: the name \"{}\" has a *, which stands for any text in model.placements", index,
                     name);
  const int* const first = names.find(name);
  if (first == nullptr) return;
  if (*first == 0) fail<InputError>("model: layer {} is called \"input\", which is the image's name", index);
  fail<InputError>("model: layers {} and {} are both called \"{}\"", *first - 1, index, name);
}

std::vector<int> inputs_of(const LayerConfig& layer, const std::string& name, const Names& names, int before) {
  if (layer.inputs.empty()) return {before};
  std::vector<int> inputs;
  for (const std::string& input : layer.inputs) {
    const int* const value = names.find(input);
    if (value == nullptr)
      fail<InputError>("model: {}: no layer before it is called \"{}\"{}", name, input, names.suggestion(input));
    inputs.push_back(*value);
  }
  return inputs;
}

/// Checks that every value but the last is read: otherwise the weights of its layer would only decay.
void check_read(const ModelSpec& model) {
  std::vector<bool> read(static_cast<std::size_t>(model.last_value()) + 1);
  for (const ModelSpec::Application& application : model.applications())
    for (const int input : application.inputs) read[static_cast<std::size_t>(input)] = true;
  for (std::size_t i = 0; i + 1 < model.applications().size(); ++i)
    if (!read[i + 1])
      fail<InputError>("model: {}: nothing reads its output; only the last layer's goes to the head",
                       model.applications()[i].name);
}

}  // namespace

ModelSpec make_layers(const std::vector<LayerConfig>& layers, const ImageShape& image) {
  ModelSpec model(shape_of(image));
  Names names;
  names.add("input", 0);
  std::vector<NamedMask> masks;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerConfig& layer = layers[i];
    const std::string name = layer.name.empty() ? fmt::format("{}_{}", type_of(layer), i) : layer.name;
    check_name(name, i, names);
    const std::vector<int> inputs = inputs_of(layer, name, names, model.last_value());
    LayerSpecPointer spec;
    try {
      spec = make_layer({layer, name, model.sample(inputs[0]), inputs.size(), masks});
    } catch (const InputError& error) {
      fail<InputError>("model: {}: {}", name, error.what());
    }
    names.add(name, model.apply(name, std::move(spec), inputs));
    if (layer.stage) model.name_stage(model.last_value(), static_cast<int>(*layer.stage));
    if (layer.recompute) model.recompute(name);
    if (layer.parallel) model.place(name, {.kind = *layer.parallel, .over = layer.over});
  }
  check_read(model);
  return model;
}

}  // namespace heddle
