#include "layers/model.h"

#include "framework/error.h"

namespace heddle {

int Model::apply(std::string name, LayerPointer layer, std::vector<int> inputs) {
  const int index = static_cast<int>(applications_.size());
  for (const int input : inputs) {
    if (input < 0 || input > index) fail("model: {} reads value {}, which comes later", name, input);
    last_reader_[static_cast<std::size_t>(input)] = index;
  }
  applications_.push_back({std::move(name), std::move(layer), std::move(inputs)});
  last_reader_.push_back(-1);
  return last_value();
}

int Model::then(std::string name, LayerPointer layer) {
  return apply(std::move(name), std::move(layer), {last_value()});
}

Variable Model::forward(const Variable& x, const Pass& pass) {
  std::vector<Variable> values(applications_.size() + 1);
  values[0] = x;
  for (std::size_t i = 0; i < applications_.size(); ++i) {
    const Application& application = applications_[i];
    std::vector<Variable> inputs;
    inputs.reserve(application.inputs.size());
    for (const int input : application.inputs) {
      Variable& value = values[static_cast<std::size_t>(input)];
      inputs.push_back(value);
      if (last_reader_[static_cast<std::size_t>(input)] == static_cast<int>(i)) value = Variable();
    }
    values[i + 1] = application.layer->forward(inputs, pass);
  }
  return values.back();
}

std::vector<Parameter*> Model::parameters() {
  std::vector<Parameter*> all;
  for (const Application& application : applications_)
    for (Parameter* parameter : application.layer->parameters()) all.push_back(parameter);
  return all;
}

std::vector<Buffer*> Model::buffers() {
  std::vector<Buffer*> all;
  for (const Application& application : applications_)
    for (Buffer* buffer : application.layer->buffers()) all.push_back(buffer);
  return all;
}

void Model::end_step(Rank& rank) {
  for (const Application& application : applications_) application.layer->end_step(rank);
}

}  // namespace heddle
