#include "layers/model.h"

#include <map>

#include "parallel/redistribute.h"

namespace heddle {

Model::Model(std::shared_ptr<const ModelDescription> description, std::shared_ptr<const PlacementPlan> plan,
             Mesh::Coordinates at, const Construction& construction, const std::optional<ShardRange>& range)
    : description_(std::move(description)), plan_(std::move(plan)) {
  const auto& applications = description_->applications();
  const ShardRange all{0, description_->last_value()};
  const auto begin = static_cast<std::size_t>(range.value_or(all).begin);
  const auto end = static_cast<std::size_t>(range.value_or(all).end());
  Construction own = construction;
  for (std::size_t i = 0; i < begin; ++i) own.next_stream += applications[i].layer->streams();
  for (std::size_t i = begin; i < end; ++i)
    layers_.push_back(applications[i].layer->build(own, applications[i].name, plan_->layout(*description_, i, at)));
  take_forms(ValueForms(*description_, *plan_), static_cast<int>(begin), static_cast<int>(end));
}

void Model::take_forms(const ValueForms& all, int begin, int end) {
  std::map<std::size_t, std::size_t> known;  // from places in `all` to those in forms_
  const auto place_of = [&](std::size_t form) {
    const auto [place, is_new] = known.try_emplace(form, forms_.size());
    if (is_new) forms_.push_back({.value = all.all()[form].value, .where = all.all()[form].where});
    return place->second;
  };
  for (const std::size_t form : all.crossing(begin)) inputs_.push_back(place_of(form));
  const auto read = [&](std::size_t form) {
    const bool is_new = known.count(form) == 0;
    const std::size_t place = place_of(form);
    ++forms_[place].readers;
    if (is_new) {
      forms_[place].origin = place_of(all.all()[form].origin);
      ++forms_[forms_[place].origin].readers;
    }
    return place;
  };
  for (int i = begin; i < end; ++i) {
    std::vector<std::size_t>& reads = reads_.emplace_back();
    for (const std::size_t form : all.inputs(i)) reads.push_back(read(form));
    made_.push_back(place_of(all.output(i)));
  }
  for (const std::size_t form : all.crossing(end)) outputs_.push_back(read(form));
}

std::vector<Variable> Model::forward(std::vector<Variable> inputs, const Pass& pass) {
  if (inputs.size() != inputs_.size()) fail("model: expected {} inputs, got {}", inputs_.size(), inputs.size());
  struct Value {
    int readers = 0;
    Variable variable{};
  };
  std::vector<Value> values;
  for (const Form& form : forms_) values.push_back({form.readers});
  for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]].variable = std::move(inputs[i]);
  const auto take = [&](std::size_t index) {
    Value& value = values[index];
    Variable variable = value.variable;
    if (--value.readers == 0) value.variable = Variable();
    return variable;
  };
  const auto read = [&](std::size_t index) {
    const Form& form = forms_[index];
    if (!values[index].variable.defined()) {
      const Placed made{take(form.origin), description_->shape(form.value, pass.samples.size),
                        forms_[form.origin].where};
      values[index].variable = redistribute(made, form.where, pass.rank).value;
    }
    return take(index);
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::vector<Variable> read_by_layer;
    for (const std::size_t form : reads_[i]) read_by_layer.push_back(read(form));
    Variable output = layers_[i]->forward(read_by_layer, pass);
    if (values[made_[i]].readers > 0) values[made_[i]].variable = std::move(output);
  }
  std::vector<Variable> outputs;
  for (const std::size_t form : outputs_) outputs.push_back(read(form));
  return outputs;
}

Variable Model::forward(const Variable& x, const Pass& pass) {
  return forward(std::vector<Variable>{x}, pass).front();
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
