#include "layers/model_spec.h"

#include <algorithm>

#include "framework/description/nearest.h"
#include "framework/description/printable.h"
#include "framework/description/wildcard.h"
#include "framework/error.h"

namespace heddle {

namespace {

Shape with_samples(const Shape& sample, std::int64_t samples) {
  std::vector<std::int64_t> dimensions{samples};
  for (int d = 0; d < sample.rank(); ++d) dimensions.push_back(sample[d]);
  return Shape(dimensions);
}

Shape without_samples(const Shape& shape) {
  const auto dimensions = shape.dimensions();
  return Shape(dimensions.subspan(1));
}

/// Names, in which `*` stands for any text.
using NamePatterns = std::shared_ptr<const std::vector<std::string>>;

/// A layer some of whose parameters are not trained: they get no gradient. `names` are those of its parameters.
class FrozenLayer final : public LayerSpec {
 public:
  FrozenLayer(LayerSpecPointer layer, const std::vector<std::string>& names, NamePatterns patterns)
      : layer_(std::move(layer)), patterns_(std::move(patterns)) {
    for (const std::string& name : names) is_frozen_.push_back(matches_any(*patterns_, name));
  }

  std::string_view type() const override { return layer_->type(); }
  Shape output(std::span<const Shape> inputs) const override { return layer_->output(inputs); }
  Shape evaluation_output(std::span<const Shape> inputs) const override { return layer_->evaluation_output(inputs); }
  std::vector<Shape> parameters() const override { return layer_->parameters(); }
  bool trains(std::size_t parameter) const override { return !is_frozen_[parameter] && layer_->trains(parameter); }
  std::uint32_t streams() const override { return layer_->streams(); }
  double flops(std::span<const Shape> inputs) const override { return layer_->flops(inputs); }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    auto option = layer_->option(kind, use, inputs);
    auto* const possible = std::get_if<LayerOption>(&option);
    // A parameter that is not trained has no gradient to sum.
    for (std::size_t i = 0; possible != nullptr && i < is_frozen_.size(); ++i)
      if (is_frozen_[i] && possible->parameters[i].gradient() == Spread::partial)
        possible->parameters[i] = Placement::replicate();
    return option;
  }
  std::vector<LayerCollective> collectives(const LayerLayout& layout, DType dtype,
                                           std::int64_t micro_batches) const override {
    return layer_->collectives(layout, dtype, micro_batches);
  }
  std::int64_t norm_groups(std::int64_t dp, std::int64_t micro_batches) const override {
    return layer_->norm_groups(dp, micro_batches);
  }
  bool follows() const override { return layer_->follows(); }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    Construction own = construction;
    own.frozen = patterns_.get();
    LayerPointer layer = layer_->build(own, name, layout);
    construction.next_stream = own.next_stream;
    return layer;
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    return layer_->write(graph, name, inputs);
  }

 private:
  LayerSpecPointer layer_;
  NamePatterns patterns_;
  std::vector<bool> is_frozen_;
};

}  // namespace

void check_pattern(const std::string& pattern, std::span<const std::string> names) {
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); })) return;
  const std::optional<std::string> near = nearest(pattern, names);
  std::string similar;
  if (near)
    similar = fmt::format(": did you mean {}?", in_quotes(*near));
  else if (!names.empty())
    similar = fmt::format(": the first one is {}", in_quotes(names.front()));
  fail<InputError>("no parameter's name matches {}{}", in_quotes(pattern), similar);
}

ModelSpec::ModelSpec(const Shape& sample) : samples_{sample}, evaluation_samples_{sample}, has_gradient_{false} {}

int ModelSpec::apply(std::string name, LayerSpecPointer layer, std::vector<int> inputs) {
  for (const int input : inputs)
    if (input < 0 || input > last_value()) fail("model: {} reads value {}, which comes later", name, input);
  Application application{std::move(name), std::move(layer), std::move(inputs)};
  application.depth = depth_;
  application.parameters = application.layer->parameters().size();
  application.streams = application.layer->streams();
  try {
    samples_.push_back(without_samples(application.layer->output(input_shapes(application, 1))));
  } catch (const InputError& error) {
    fail<InputError>("model: {}: {}", application.name, error.what());
  }
  evaluation_samples_.push_back(evaluation_output_of(application));
  has_gradient_.push_back(has_output_gradient(application));
  applications_.push_back(std::move(application));
  return last_value();
}

Shape ModelSpec::evaluation_output_of(const Application& application) const {
  std::vector<Shape> inputs;
  for (const int input : application.inputs) inputs.push_back(shape(input, 1, false));
  try {
    return without_samples(application.layer->evaluation_output(inputs));
  } catch (const InputError& error) {
    fail<InputError>("model: {}: in evaluation: {}", application.name, error.what());
  }
}

std::int64_t ModelSpec::norm_groups(std::int64_t dp, std::int64_t micro_batches) const {
  std::int64_t groups = 0;
  for (const Application& application : applications_)
    groups = std::max(groups, application.layer->norm_groups(dp, micro_batches));
  return groups;
}

bool ModelSpec::trains_parameters(const Application& application) {
  for (std::size_t i = 0; i < application.parameters; ++i)
    if (application.layer->trains(i)) return true;
  return false;
}

bool ModelSpec::has_output_gradient(const Application& application) const {
  return trains_parameters(application) || gives_gradient(application);
}

bool ModelSpec::gives_gradient(const Application& application) const {
  return std::any_of(application.inputs.begin(), application.inputs.end(),
                     [this](int input) { return has_gradient(input); });
}

std::vector<std::string> ModelSpec::parameter_names() const {
  std::vector<std::string> names;
  const InferenceGraph graph(*this);
  for (const InferenceTensor& tensor : graph.tensors())
    if (tensor.is_parameter()) names.push_back(tensor.name);
  return names;
}

void ModelSpec::freeze(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  const std::vector<std::string> all = parameter_names();
  for (const std::string& pattern : patterns) check_pattern(pattern, all);
  const auto shared = std::make_shared<const std::vector<std::string>>(patterns);
  std::vector<std::vector<std::string>> names(applications_.size());
  const InferenceGraph graph(*this);
  for (const InferenceTensor& tensor : graph.tensors())
    if (tensor.is_parameter()) names[tensor.application].push_back(tensor.name);
  for (std::size_t i = 0; i < applications_.size(); ++i) {
    LayerSpecPointer& layer = applications_[i].layer;
    if (names[i].size() != applications_[i].parameters)
      fail("model: {} has {} parameters and {} names", applications_[i].name, applications_[i].parameters,
           names[i].size());
    if (!names[i].empty()) layer = std::make_shared<FrozenLayer>(layer, names[i], shared);
    has_gradient_[i + 1] = has_output_gradient(applications_[i]);
  }
}

int ModelSpec::then(std::string name, LayerSpecPointer layer) {
  return apply(std::move(name), std::move(layer), {last_value()});
}

void ModelSpec::place(std::string_view pattern, const PlacementRequest& request) {
  for (Application* application : matching(pattern)) application->request = request;
}

void ModelSpec::recompute(std::string_view pattern) {
  for (Application* application : matching(pattern)) application->recomputed = true;
}

std::vector<ModelSpec::Application*> ModelSpec::matching(std::string_view pattern) {
  std::vector<Application*> found;
  for (Application& application : applications_)
    if (matches(pattern, application.name)) found.push_back(&application);
  if (found.empty()) fail<InputError>("model: no layer's name matches \"{}\"", pattern);
  return found;
}

void ModelSpec::clear_requests() {
  for (Application& application : applications_) application.request.reset();
}

std::uint32_t ModelSpec::streams() const {
  std::uint32_t sum = 0;
  for (const Application& application : applications_) sum += application.streams;
  return sum;
}

Shape ModelSpec::shape(int index, std::int64_t samples, bool in_training) const {
  return with_samples(in_training ? sample(index) : evaluation_sample(index), samples);
}

std::vector<Shape> ModelSpec::input_shapes(const Application& application, std::int64_t samples) const {
  std::vector<Shape> shapes;
  for (const int input : application.inputs) shapes.push_back(shape(input, samples));
  return shapes;
}

}  // namespace heddle
