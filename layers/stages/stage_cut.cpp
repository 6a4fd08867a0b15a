#include "layers/stages/stage_cut.h"

#include <algorithm>

namespace heddle {

IndexRange StageCut::stage(int index) const {
  const auto at = static_cast<std::size_t>(index);
  return {begins[at], (at + 1 < begins.size() ? begins[at + 1] : end) - begins[at]};
}

int StageCut::stage_of(int application) const {
  return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), application) - begins.begin()) - 1;
}

ValueForms::ValueForms(const ModelSpec& model, const ModelPlacement& placement) {
  const auto make = [&](int value, std::optional<int> maker) {
    made_.push_back(forms_.size());
    forms_.push_back({.value = value, .where = placement.made(value), .origin = forms_.size(), .from = maker});
  };
  make(0, {});
  const auto& applications = model.applications();
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const int reader = static_cast<int>(i);
    const LayerLayout layout = placement.layout(model, i, {});
    std::vector<std::size_t>& inputs = inputs_.emplace_back();
    for (std::size_t input = 0; input < applications[i].inputs.size(); ++input)
      inputs.push_back(read(applications[i].inputs[input], layout.input(input), reader));
    make(reader + 1, reader);
  }
  result_ = read(model.last_value(), placement.output, model.last_value());
}

std::size_t ValueForms::read(int value, const Placements& where, int reader) {
  const std::size_t made = made_[static_cast<std::size_t>(value)];
  const auto same = [&](const ValueForm& form) { return form.value == value && form.where == where; };
  auto form = std::find_if(forms_.begin() + static_cast<std::ptrdiff_t>(made), forms_.end(), same);
  if (form == forms_.end()) {
    forms_[made].until = reader;
    form = forms_.insert(form, {.value = value, .where = where, .origin = made, .from = reader});
  }
  form->until = reader;
  return static_cast<std::size_t>(form - forms_.begin());
}

std::vector<std::size_t> ValueForms::crossing(int position) const {
  if (position == static_cast<int>(inputs_.size())) return {result_};
  std::vector<std::size_t> crossing;
  for (std::size_t i = 0; i < forms_.size(); ++i)
    if (forms_[i].from < position && forms_[i].until >= position) crossing.push_back(i);
  return crossing;
}

CrossingBytes crossing_bytes(const ModelSpec& model, const ModelPlacement& placement, const ValueForms& forms,
                             int position, std::int64_t samples, DType dtype, bool in_training,
                             const Mesh::Coordinates& at) {
  CrossingBytes bytes;
  for (const std::size_t index : forms.crossing(position)) {
    const ValueForm& form = forms.all()[index];
    const Shape part = local_shape(model.shape(form.value, samples, in_training), form.where, placement.mesh, at);
    const std::int64_t size = part.numel() * static_cast<std::int64_t>(size_of(dtype));
    bytes.forward += size;
    if (model.has_gradient(form.value)) bytes.backward += size;
  }
  return bytes;
}

}  // namespace heddle
