#include "layers/frozen_layer.h"

#include <algorithm>

#include "framework/description/wildcard.h"

namespace heddle {

namespace {

class FrozenLayer final : public LayerSpec {
 public:
  FrozenLayer(LayerSpecPointer layer, const std::vector<std::string>& names, NamePatterns patterns)
      : layer_(std::move(layer)), patterns_(std::move(patterns)) {
    for (const std::string& name : names) is_frozen_.push_back(matches_any(*patterns_, name));
  }

  std::string_view type() const override { return layer_->type(); }
  Shape output(std::span<const Shape> inputs) const override { return layer_->output(inputs); }
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
  bool has_batch_statistics() const override { return layer_->has_batch_statistics(); }
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

LayerSpecPointer frozen_spec(LayerSpecPointer layer, const std::vector<std::string>& names, NamePatterns patterns) {
  return std::make_shared<FrozenLayer>(std::move(layer), names, std::move(patterns));
}

}  // namespace heddle
