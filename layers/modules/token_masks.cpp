#include "layers/modules/token_masks.h"

#include "framework/ops/elementwise.h"

namespace heddle {

namespace {

void check_masking(const TokenMasking& masking) {
  if (!(masking.ratio >= 0 && masking.ratio < 1))
    fail<InputError>("mask_tokens: expected a ratio in [0, 1), got {}", masking.ratio);
  const std::int64_t kept = masking.kept();
  if (kept < 1 || kept == masking.tokens)
    fail<InputError>("mask_tokens: a ratio of {} masks {} of {} tokens", masking.ratio, kept < 1 ? "all" : "none",
                     masking.tokens);
}

class MaskTokensSpec final : public LayerSpec {
 public:
  explicit MaskTokensSpec(const TokenMasking& masking) : masking_(masking) {}

  std::string_view type() const override { return "mask_tokens"; }
  Shape output(std::span<const Shape> inputs) const override {
    return evaluation_output(inputs).with(1, masking_.kept());
  }
  Shape evaluation_output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 3 || inputs[0][1] != masking_.tokens)
      fail<InputError>("mask_tokens: expected one input [n,{},features], got {}", masking_.tokens,
                       to_string(inputs[0]));
    return inputs[0];
  }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    if (kind == Parallel::parameter) return Refusal{"it has no parameters to shard"};
    return samples_or_channels(kind, use, inputs, output(inputs), 0);
  }
  LayerPointer build(Construction& construction, const std::string& /*name*/,
                     const LayerLayout& layout) const override {
    return std::make_unique<MaskTokens>(construction, masking_, layout);
  }
  InferenceValue write(InferenceGraph& /*graph*/, const std::string& /*name*/,
                       const InferenceInputs& inputs) const override {
    return inputs.values[0];
  }

 private:
  TokenMasking masking_;
};

class RestoreTokensSpec final : public LayerSpec {
 public:
  RestoreTokensSpec(const TokenMasking& masking, std::int64_t features) : masking_(masking), features_(features) {}

  std::string_view type() const override { return "restore_tokens"; }
  Shape output(std::span<const Shape> inputs) const override {
    check_input(inputs, masking_.kept());
    return inputs[0].with(1, masking_.tokens);
  }
  Shape evaluation_output(std::span<const Shape> inputs) const override {
    check_input(inputs, masking_.tokens);
    return inputs[0];
  }
  std::vector<Shape> parameters() const override { return {{1, 1, features_}}; }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse /*use*/,
                                            std::span<const Shape> /*inputs*/) const override {
    return samples_ungathered(kind, 1, 1);
  }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<RestoreTokens>(construction, name, masking_, features_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    graph.tensor({.name = name, .shape = {1, 1, features_}});
    return inputs.values[0];
  }

 private:
  void check_input(std::span<const Shape> inputs, std::int64_t tokens) const {
    if (inputs.size() != 1 || inputs[0].rank() != 3 || inputs[0][1] != tokens || inputs[0][2] != features_)
      fail<InputError>("restore_tokens: expected one input [n,{},{}], got {}", tokens, features_, to_string(inputs[0]));
  }

  TokenMasking masking_;
  std::int64_t features_;
};

}  // namespace

TokenMaskDraws::TokenMaskDraws(RandomKey key, const TokenMasking& masking, LayerLayout layout)
    : draws_({key, Purpose::token_masks, 0, masking.number}, std::move(layout)), masking_(masking) {}

TokenMask TokenMaskDraws::draw(const Pass& pass) const {
  const IndexRange samples = draws_.box(pass)[0];
  return draw_token_mask(pass.rank.device, samples.size, masking_.tokens, masking_.kept(), draws_.key(pass),
                         samples.begin);
}

LayerSpecPointer MaskTokens::spec(const TokenMasking& masking) {
  check_masking(masking);
  return std::make_shared<MaskTokensSpec>(masking);
}

MaskTokens::MaskTokens(const Construction& construction, const TokenMasking& masking, const LayerLayout& layout)
    : draws_(construction.key, masking, layout) {}

Variable MaskTokens::forward(std::span<const Variable> inputs, const Pass& pass) {
  if (!pass.training) return inputs[0];
  return mask_tokens(inputs[0], draws_.draw(pass));
}

LayerSpecPointer RestoreTokens::spec(const TokenMasking& masking, std::int64_t features) {
  check_masking(masking);
  return std::make_shared<RestoreTokensSpec>(masking, features);
}

RestoreTokens::RestoreTokens(Construction& construction, const std::string& name, const TokenMasking& masking,
                             std::int64_t features, const LayerLayout& layout)
    : draws_(construction.key, masking, layout),
      mask_token_(make_parameter(construction, name, layout.part(0, {1, 1, features}), Initial::normal(0.02),
                                 {.is_norm_or_bias = true})) {}

Variable RestoreTokens::forward(std::span<const Variable> inputs, const Pass& pass) {
  if (!pass.training) return inputs[0];
  return restore_tokens(inputs[0], cast_weight(mask_token_.variable, inputs[0].dtype()), draws_.draw(pass));
}

}  // namespace heddle
