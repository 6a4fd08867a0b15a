#include "layers/modules/weighted.h"

#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "parallel/placement/gathered_weights.h"

namespace heddle {

std::variant<LayerOption, Refusal> weighted_option(const WeightedLayer& layer) {
  const Placement channels = Placement::shard(layer.channel_dimension);
  LayerOption option{.kind = layer.kind};
  switch (layer.kind) {
    case Parallel::column:
      if (layer.out < layer.use.ranks)
        return Refusal{fmt::format("its {} output channels are fewer than the ranks", layer.out)};
      option.inputs = {Placement::replicate_partial()};
      option.output = channels;
      option.parameters = {Placement::shard(0)};
      if (layer.bias) option.parameters.push_back(Placement::shard(0));
      return option;
    case Parallel::row:
      if (layer.in < layer.use.ranks)
        return Refusal{fmt::format("its {} input channels are fewer than the ranks", layer.in)};
      option.inputs = {channels};
      option.output = Placement::partial();
      option.parameters = {Placement::shard(layer.weight_in_dimension)};
      if (layer.bias) option.parameters.push_back(Placement::replicate());
      return option;
    case Parallel::group:
      return Refusal{"it has one group only"};
    default:
      return samples_only(layer.kind, 1, layer.bias ? 2 : 1);
  }
}

Weights::Weights(Parameter weight, std::optional<Parameter> bias, const LayerLayout& layout)
    : weight_(std::move(weight)), bias_(std::move(bias)), rows_(layout.axes(Parallel::row)) {}

Variable Weights::apply(DType type, const Pass& pass,
                        const std::function<Variable(const Variable&, const Variable&)>& compute) const {
  // The outputs of `row` are partial sums, of which one has the bias.
  const auto compute_once = [&](const Variable& weight, const Variable& bias) {
    if (rows_.empty() || !bias_) return compute(weight, bias);
    return add_bias(compute(weight, Variable()), bias, pass.rank.over(rows_).rank() == 0);
  };
  if (weight_.part.gathered) {
    Communicator& ranks = pass.rank.along(*weight_.part.gathered);
    std::vector<GatheredWeight> gathered{{weight_.variable, weight_.part.shape(), &ranks, type}};
    if (bias_) gathered.push_back({bias_->variable, bias_->part.shape(), &ranks, type});
    return with_gathered(gathered, [&](std::span<const Variable> whole) {
      return compute_once(whole[0], whole.size() > 1 ? whole[1] : Variable());
    });
  }
  return compute_once(cast_weight(weight_.variable, type), bias_ ? cast_weight(bias_->variable, type) : Variable());
}

std::vector<Parameter*> Weights::parameters() {
  if (bias_) return {&weight_, &*bias_};
  return {&weight_};
}

}  // namespace heddle
