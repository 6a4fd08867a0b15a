#include "tests/support/random_model.h"

#include "layers/modules/activation.h"
#include "layers/modules/class_token.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/pooling.h"
#include "layers/modules/token_masks.h"
#include "layers/modules/tokens.h"
#include "layers/planner/planner.h"

namespace heddle::test {

namespace {

class Builder {
 public:
  Builder(RandomStream& draws, const RandomModelOptions& options, const Mesh& mesh)
      : draws_(draws), options_(options), mesh_(mesh), model_({8, 8, 3}) {}

  ModelPointer build() {
    const std::int64_t blocks = 1 + below(3);
    for (std::int64_t block = 0; block < blocks; ++block) append_block(fmt::format("block{}", block));
    if (below(3) == 0)
      append_attention();
    else if (size() > 1 && draw())
      model_.then("avgpool", GlobalAveragePool::spec());
    if (model_.sample(model_.last_value()).rank() > 1) model_.then("flatten", Flatten::spec());
    if (draw()) model_.then("dropout", Dropout::spec(0.3));
    if (below(3) == 0) {
      model_.then("hidden", Linear::spec({.in = channels(), .out = 7}));
      model_.then("hidden.relu", Activation::spec(ActivationKind::relu));
    }
    model_.then("fc", Linear::spec({.in = channels(), .out = options_.embedding}));
    if (below(3) == 0) model_.then("norm", LayerNorm::spec(options_.embedding));
    place_at_random();
    return std::make_shared<ModelSpec>(std::move(model_));
  }

 private:
  std::int64_t below(std::uint64_t end) { return static_cast<std::int64_t>(draws_.below(end)); }
  bool draw() { return below(2) == 0; }
  std::int64_t channels() const { return model_.sample(model_.last_value()).back(); }
  std::int64_t size() const { return model_.sample(model_.last_value())[0]; }

  void append_block(const std::string& name) {
    const std::int64_t in = channels();
    std::int64_t out = 2 * (2 + below(3));
    std::int64_t groups = 1;
    if (in % 2 == 0 && draw()) groups = 2;
    if (in > 3 && below(4) == 0 && options_.with_depthwise) groups = out = in;
    const std::int64_t stride = size() > 2 ? 1 + below(2) : 1;
    model_.then(
        name + ".conv",
        Convolution::spec(
            {.in = in, .out = out, .stride = stride, .groups = groups, .bias = draw() && !options_.with_norms}));
    append_norm_or_activation(name, out);
    if (draw()) append_branch(name, out);
    if (size() > 2 && draw()) {
      const PoolOp op = draw() ? PoolOp::max : PoolOp::average;
      model_.then(name + ".pool", Pool::spec(op, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
    }
  }
  void append_branch(const std::string& name, std::int64_t width) {
    const int input = model_.last_value();
    model_.then(name + ".branch", Convolution::spec({.in = width, .out = width}));
    const BatchNormOptions norm{
        .channels = width, .activation = NormActivation::relu, .synchronized = options_.synchronized};
    model_.apply(name + ".sum", options_.with_norms ? BatchNorm::spec(norm, true) : Add::spec(),
                 {model_.last_value(), input});
  }
  void append_attention() {
    model_.then("tokens", ImageTokens::spec());
    const std::int64_t in = channels();
    const bool has_class_token = below(3) == 0;
    if (has_class_token) model_.then("class_token", ClassToken::spec(in));
    if (has_class_token || draw()) model_.then("positions", PositionEmbedding::spec(size(), in));
    const TokenMasking masking{.tokens = size(), .ratio = 0.3};
    const bool has_mask = size() > 1 && draw();
    if (has_mask) model_.then("mask", MaskTokens::spec(masking));
    const int start = model_.last_value();
    if (draw()) model_.then("attention.norm", LayerNorm::spec(in));
    const std::int64_t heads = 2 * (1 + below(2));
    const std::int64_t features = heads * (1 + below(3));
    // Without a bias: the gradient of that of the keys is zero but for rounding, which AdamW would make into whole
    // steps.
    model_.then("attention.qkv", Linear::spec({.in = in, .out = 3 * features, .bias = false, .heads = heads}));
    model_.then("attention", Attention::spec({.heads = heads, .dropout = draw() ? 0.3 : 0}));
    model_.then("attention.proj", Linear::spec({.in = features, .out = in}));
    if (draw()) model_.then("attention.dropout", Dropout::spec(0.2));
    if (draw()) model_.then("attention.drop_path", DropPath::spec(0.3));
    model_.apply("attention.sum", Add::spec(), {start, model_.last_value()});
    if (has_mask) model_.then("mask_token", RestoreTokens::spec(masking, in));
    if (has_class_token) model_.then("first_token", FirstToken::spec());
  }
  void append_norm_or_activation(const std::string& name, std::int64_t width) {
    const std::int64_t kind = below(3);
    if (options_.with_norms)
      model_.then(name + ".bn", BatchNorm::spec({.channels = width,
                                                 .activation = static_cast<NormActivation>(kind),
                                                 .slope_name = name + ".slope",
                                                 .synchronized = options_.synchronized}));
    else if (kind == 0)
      model_.then(name + ".prelu", PRelu::spec(width));
    else
      model_.then(name + ".act", Activation::spec(kind == 1 ? ActivationKind::relu : ActivationKind::gelu));
  }
  void place_at_random() {
    for (const ModelSpec::Application& application : model_.applications()) {
      const Axis axis = draw() ? Axis::dp : Axis::tp;
      const Axis other = axis == Axis::dp ? Axis::tp : Axis::dp;
      PlacementRequest request{static_cast<Parallel>(below(7)), axis};
      const auto other_kind = static_cast<Parallel>(below(7));
      if (application.layer->follows() || !offers(application, request.kind, axis)) continue;
      if (may_combine(request.kind, other_kind) && offers(application, other_kind, other)) request.other = other_kind;
      model_.place(application.name, request);
    }
  }
  bool offers(const ModelSpec::Application& application, Parallel kind, Axis axis) const {
    if (mesh_.size(axis) == 1) return false;
    const std::vector<Shape> inputs = model_.input_shapes(application, 1);
    return std::holds_alternative<LayerOption>(application.layer->option(kind, {axis, mesh_.size(axis)}, inputs));
  }

  RandomStream& draws_;
  RandomModelOptions options_;
  Mesh mesh_;
  ModelSpec model_;
};

}  // namespace

ModelPointer random_model(RandomStream& draws, const RandomModelOptions& options, const Mesh& mesh) {
  return Builder(draws, options, mesh).build();
}

}  // namespace heddle::test
