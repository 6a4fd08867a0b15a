#include "layers/head/head_checks.h"

#include <cmath>

#include <fmt/core.h>

#include "framework/error.h"
#include "framework/tensors/device.h"
#include "layers/head/logits/logits.h"

namespace heddle {

std::string lacks_for_parts(const HeadConfig& config, HeadWork work, DType dtype) {
  if (work == HeadWork::at_once) return {};
  if (config.logits != Logits::fused) return fmt::format("logits \"fused\", got \"{}\"", name_of(config.logits));
  if (const RowStatistic statistic = row_statistic(config.margin);
      statistic != RowStatistic::none && statistic != RowStatistic::inverse_norm)
    return "margin of another type: this one first needs the products of all samples with their classes";
  if (config.loss_reduction != LossReduction::all_reduce) return "loss_reduction \"all_reduce\"";
  if (work == HeadWork::two_exchanges || constant_reference(config, dtype)) return {};
  if (!config.normalize) return "normalize true (two_exchanges does not)";
  return fmt::format(
      "margin.scale below {}, with which exponentials overflow {} unless the largest logit is known (two_exchanges "
      "does "
      "not)",
      config.margin.scale, name_of(dtype));
}

void check_labels(const std::string& name, std::span<const std::int64_t> labels, std::int64_t first,
                  std::int64_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      fail<InputError>("{}: sample {} of the batch has label {}, expected one in [0, {})", name,
                       first + static_cast<std::int64_t>(i), labels[i], classes);
}

void check_finite_embeddings(const std::string& name, const Tensor& inverse_norm, std::int64_t first) {
  const Device& device = inverse_norm.device();
  if (!device.has_data()) return;
  const std::vector<double> norms = inverse_norm.to_doubles();
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (!std::isfinite(norms[i]) || norms[i] == 0)
      fail<RankFailed>(
          "{}: the embedding of sample {} of the batch, on rank {}, is not finite: the training has diverged", name,
          first + static_cast<std::int64_t>(i), device.rank());
}

void check_finite_gradient(const std::string& name, const Tensor& gradient) {
  Device& device = gradient.device();
  Tensor square = Tensor::zeros(device, {1}, DType::f64);
  device.backend().training().add_squared_norm(gradient, square);
  if (device.has_data() && !std::isfinite(square.item()))
    fail<RankFailed>("{}: the gradient of the embeddings of rank {} is not finite: the training has diverged", name,
                     device.rank());
}

void check_finite_sums(const std::string& name, const Tensor& log_sums, const std::vector<IndexRange>& samples) {
  if (!log_sums.device().has_data()) return;
  const std::vector<double> values = log_sums.to_doubles();
  auto value = values.begin();
  for (const IndexRange& of_rank : samples)
    for (std::int64_t sample = of_rank.begin; sample < of_rank.end(); ++sample)
      if (!std::isfinite(*value++))
        fail<RankFailed>("{}: the logits of sample {} of the batch are not finite: the training has diverged", name,
                         sample);
}

}  // namespace heddle
