#include "layers/model.h"

#include <algorithm>

#include "parallel/redistribute.h"

namespace heddle {

namespace {

std::size_t at_index(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Model::Model(std::shared_ptr<const ModelDescription> description, PlacementPlan plan, Mesh::Coordinates at,
             Construction& construction)
    : description_(std::move(description)), plan_(std::move(plan)) {
  const auto& applications = description_->applications();
  for (int value = 0; value <= description_->last_value(); ++value) forms_.push_back({{plan_.made(value)}});
  const auto reads = [this](int value, const Placements& where) {
    std::vector<Form>& forms = forms_[at_index(value)];
    auto form = std::find_if(forms.begin(), forms.end(), [&](const Form& f) { return f.where == where; });
    if (form == forms.end()) {
      ++forms.front().readers;  // the redistribution
      form = forms.insert(forms.end(), {where});
    }
    ++form->readers;
  };
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const LayerLayout layout = plan_.layout(*description_, i, at);
    layers_.push_back(applications[i].layer->build(construction, applications[i].name, layout));
    for (std::size_t input = 0; input < applications[i].inputs.size(); ++input)
      reads(applications[i].inputs[input], layout.input(input));
  }
  reads(description_->last_value(), plan_.output);
}

Variable Model::forward(const Variable& x, const Pass& pass) {
  std::vector<std::vector<Form>> values = forms_;
  const auto read = [&](int index, const Placements& where) {
    std::vector<Form>& forms = values[at_index(index)];
    const auto take = [](Form& form) {
      Variable value = form.value;
      if (--form.readers == 0) form.value = Variable();
      return value;
    };
    const auto form = std::find_if(forms.begin(), forms.end(), [&](const Form& f) { return f.where == where; });
    if (!form->value.defined()) {
      const Placed made{take(forms.front()), description_->shape(index, pass.samples.size), forms.front().where};
      form->value = redistribute(made, where, pass.rank).value;
    }
    return take(*form);
  };
  values[0].front().value = x;
  const auto& applications = description_->applications();
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const LayerLayout layout = plan_.layout(*description_, i, pass.rank.coordinates);
    std::vector<Variable> inputs;
    for (std::size_t input = 0; input < applications[i].inputs.size(); ++input)
      inputs.push_back(read(applications[i].inputs[input], layout.input(input)));
    Form& made = values[i + 1].front();
    Variable output = layers_[i]->forward(inputs, pass);
    if (made.readers > 0) made.value = std::move(output);
  }
  return read(description_->last_value(), plan_.output);
}

std::vector<Parameter*> Model::parameters() {
  std::vector<Parameter*> all;
  for (const LayerPointer& layer : layers_)
    for (Parameter* parameter : layer->parameters()) all.push_back(parameter);
  return all;
}

std::vector<Buffer*> Model::buffers() {
  std::vector<Buffer*> all;
  for (const LayerPointer& layer : layers_)
    for (Buffer* buffer : layer->buffers()) all.push_back(buffer);
  return all;
}

void Model::end_step(Rank& rank) {
  for (const LayerPointer& layer : layers_) layer->end_step(rank);
}

}  // namespace heddle
