#include "layers/model.h"

#include <functional>
#include <map>

#include "framework/autograd/recompute.h"
#include "layers/stages/segments.h"
#include "parallel/placement/redistribute.h"

namespace heddle {

/// The values that exist while a section runs, and the number of readers that are still to come.
struct Model::Values {
  struct Value {
    int readers = 0;
    Variable variable{};
  };

  Values(const Model& of, const Section& section, std::vector<Variable> inputs, const Pass& in) : model(of), pass(in) {
    if (inputs.size() != section.inputs.size())
      fail("model: expected {} inputs, got {}", section.inputs.size(), inputs.size());
    for (const int readers : section.readers) all.push_back({readers});
    for (std::size_t i = 0; i < inputs.size(); ++i) all[section.inputs[i]].variable = std::move(inputs[i]);
  }

  Variable take(std::size_t form) {
    Value& value = all[form];
    Variable variable = value.variable;
    if (--value.readers == 0) value.variable = Variable();
    return variable;
  }
  /// The first reader makes the form.
  Variable read(std::size_t index) {
    const ValueForm& form = model.forms_[index];
    if (!all[index].variable.defined()) {
      const Placed made{take(form.origin), model.spec_->shape(form.value, pass.samples.size, pass.training),
                        model.forms_[form.origin].where};
      all[index].variable = redistribute(made, form.where, pass.rank.groups).value;
    }
    return take(index);
  }
  void put(std::size_t form, Variable variable) {
    if (all[form].readers > 0) all[form].variable = std::move(variable);
  }

  const Model& model;
  const Pass& pass;
  std::vector<Value> all;  // one for each form
};

Model::Model(const std::shared_ptr<const ModelSpec>& spec, const std::shared_ptr<const ModelPlacement>& placement,
             Mesh::Coordinates at, const Construction& construction, const std::optional<IndexRange>& range)
    : Model(spec, placement, at, construction, range.value_or(IndexRange{0, spec->last_value()}),
            ValueForms(*spec, *placement)) {}

Model::Model(std::shared_ptr<const ModelSpec> spec, std::shared_ptr<const ModelPlacement> placement,
             Mesh::Coordinates at, const Construction& construction, const IndexRange& range, const ValueForms& forms)
    : spec_(std::move(spec)), placement_(std::move(placement)), range_(range) {
  const auto& applications = spec_->applications();
  const auto begin = static_cast<std::size_t>(range_.begin);
  Construction own = construction;
  for (std::size_t i = 0; i < begin; ++i) own.next_stream += applications[i].streams;
  for (std::size_t i = begin; i < static_cast<std::size_t>(range_.end()); ++i)
    layers_.push_back(applications[i].layer->build(own, applications[i].name, placement_->layout(*spec_, i, at)));
  take_forms(forms);
  set_segments(marked_segments(*spec_, range_));
}

void Model::take_forms(const ValueForms& all) {
  std::map<std::size_t, std::size_t> known;  // maps indices in `all` to indices in forms_
  const auto place_of = [&](std::size_t form) {
    const auto [place, is_new] = known.try_emplace(form, forms_.size());
    if (is_new) forms_.push_back(all.all()[form]);
    return place->second;
  };
  const int end = static_cast<int>(range_.end());
  for (const std::size_t form : all.crossing(static_cast<int>(range_.begin))) all_.inputs.push_back(place_of(form));
  for (int i = static_cast<int>(range_.begin); i < end; ++i) {
    std::vector<std::size_t>& reads = reads_.emplace_back();
    for (const std::size_t form : all.inputs(i)) reads.push_back(place_of(form));
    made_.push_back(place_of(all.output(i)));
  }
  for (const std::size_t form : all.crossing(end)) all_.outputs.push_back(place_of(form));
  // An origin before the range is never needed.
  for (ValueForm& form : forms_) {
    const auto origin = known.find(form.origin);
    if (origin != known.end()) form.origin = origin->second;
  }
}

Model::Section Model::section_of(const IndexRange& applications, std::vector<std::size_t> inputs,
                                 std::vector<std::size_t> outputs, std::span<const Section> segments) const {
  std::vector<bool> exists(forms_.size());
  for (const std::size_t form : inputs) exists[form] = true;
  Section section{applications, std::move(inputs), std::move(outputs), std::vector<int>(forms_.size())};
  const std::function<void(std::size_t)> read = [&](std::size_t form) {
    ++section.readers[form];
    if (exists[form]) return;
    exists[form] = true;
    if (forms_[form].from < applications.begin)
      section.inputs.push_back(form);
    else
      read(forms_[form].origin);
  };
  auto segment = segments.begin();
  for (std::int64_t i = applications.begin; i < applications.end();) {
    const bool is_segment = segment != segments.end() && segment->applications.begin == i;
    const auto layer = static_cast<std::size_t>(i - range_.begin);
    for (const std::size_t form : is_segment ? segment->inputs : reads_[layer]) read(form);
    for (const std::size_t form : is_segment ? segment->outputs : std::vector{made_[layer]}) exists[form] = true;
    i = is_segment ? (segment++)->applications.end() : i + 1;
  }
  for (const std::size_t form : section.outputs) read(form);
  return section;
}

void Model::set_segments(const std::vector<IndexRange>& segments) {
  segments_.clear();
  for (const IndexRange& segment : segments) {
    std::vector<std::size_t> outputs;
    for (std::size_t form = 0; form < forms_.size(); ++form)
      if (forms_[form].from >= segment.begin && forms_[form].from < segment.end() &&
          forms_[form].until >= segment.end())
        outputs.push_back(form);
    segments_.push_back(section_of(segment, {}, std::move(outputs), {}));
  }
  all_ = section_of(range_, std::move(all_.inputs), std::move(all_.outputs), segments_);
}

std::vector<Variable> Model::run(const Section& section, std::span<const Section> segments,
                                 std::vector<Variable> inputs, const Pass& pass) {
  Values values(*this, section, std::move(inputs), pass);
  auto segment = segments.begin();
  for (std::int64_t i = section.applications.begin; i < section.applications.end();) {
    if (segment != segments.end() && segment->applications.begin == i) {
      run_segment(*segment, values);
      i = (segment++)->applications.end();
    } else {
      run_layer(i++, values);
    }
  }
  std::vector<Variable> outputs;
  for (const std::size_t form : section.outputs) outputs.push_back(values.read(form));
  return outputs;
}

void Model::run_layer(std::int64_t application, Values& values) {
  const auto layer = static_cast<std::size_t>(application - range_.begin);
  std::vector<Variable> inputs;
  for (const std::size_t form : reads_[layer]) inputs.push_back(values.read(form));
  values.put(made_[layer], layers_[layer]->forward(inputs, values.pass));
}

void Model::run_segment(const Section& segment, Values& values) {
  std::vector<Variable> inputs;
  for (const std::size_t form : segment.inputs) inputs.push_back(values.read(form));
  std::vector<Variable> outputs = values.pass.rank.device.recorder().records()
                                      ? recompute_later(segment, inputs, values.pass)
                                      : run(segment, {}, std::move(inputs), values.pass);
  for (std::size_t i = 0; i < outputs.size(); ++i) values.put(segment.outputs[i], std::move(outputs[i]));
}

std::vector<Variable> Model::recompute_later(const Section& segment, std::span<const Variable> inputs, const Pass& in) {
  return recompute_segment(inputs, [this, &segment, pass = in](std::span<const Variable> given, bool recomputing) {
    Pass own = pass;
    own.recomputing |= recomputing;
    return run(segment, {}, {given.begin(), given.end()}, own);
  });
}

std::vector<Variable> Model::forward(std::vector<Variable> inputs, const Pass& pass) {
  return run(all_, segments_, std::move(inputs), pass);
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

void Model::drop_step() {
  for (const LayerPointer& layer : layers_) layer->drop_step();
}

}  // namespace heddle
