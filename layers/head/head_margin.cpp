#include "layers/head/head_margin.h"

#include <utility>

#include "framework/tensors/device.h"

namespace heddle {

HeadMargin::HeadMargin(const MarginConfig& config, Device& device, AxisSet apart, std::string name)
    : config_(config), device_(device), apart_(apart), name_(std::move(name)) {
  const std::vector<double> initial = initial_running(config);
  if (row_statistic(config) == RowStatistic::none) return;
  const MemoryScope scope(device, Category::parameters);
  moments_ = Tensor::zeros(device, {3}, DType::f64);
  if (initial.empty()) return;
  running_ = Tensor::empty(device, {static_cast<std::int64_t>(initial.size())}, DType::f64);
  running_.load_bytes(std::as_bytes(std::span(initial)));
}

void HeadMargin::begin_step() {
  if (moments_.defined()) moments_.fill(0);
}

RowMargin HeadMargin::of_rows(const LogitsInput& input, const Tensor& inverse_norms) {
  RowMargin margin{.step = {.config = config_, .running = running_}};
  const RowStatistic asked = row_statistic(config_);
  if (asked == RowStatistic::none) return margin;
  Tensor statistic;
  if (asked == RowStatistic::inverse_norm) {
    statistic = inverse_norms;
  } else {
    const Tensor both = target_statistics(input);
    const bool has_radii = asked == RowStatistic::target_radius;
    if (has_radii) margin.products = row_of(both, 0);
    statistic = row_of(both, has_radii ? 1 : 0);
  }
  margin.step.parameter = Tensor::empty_like(statistic);
  device_.backend().head().row_parameters(config_, running_, statistic, margin.step.parameter, moments_);
  return margin;
}

Tensor HeadMargin::target_statistics(const LogitsInput& input) const {
  const bool has_radii = row_statistic(config_) == RowStatistic::target_radius;
  const std::int64_t batch = input.rows.shape()[0];
  Tensor statistics = Tensor::zeros(device_, {has_radii ? 2 : 1, batch}, input.rows.dtype());
  Tensor products = row_of(statistics, 0);
  Tensor radii = has_radii ? row_of(statistics, 1) : Tensor();
  Tensor best;
  if (input.own().size > 0) {
    const ClassTile targets = target_tile(input);
    device_.backend().head().target_products(
        {.labels = input.labels, .range = input.own(), .rows = targets.rows, .scale = targets.inverse_norm}, input.rows,
        products, radii, best);
  }
  return input.ranks.all_reduce(statistics, Reduction::sum);
}

void HeadMargin::add_rows_of(Communicator& ranks) {
  if (!running_.defined() || ranks.size() == 1) return;
  moments_.copy_from(ranks.all_reduce(moments_));
}

void HeadMargin::end_step() {
  if (!running_.defined()) return;
  device_.backend().head().update_running(config_, moments_, running_);
}

std::vector<StateTensor> HeadMargin::state() const {
  if (!running_.defined()) return {};
  ParameterPart part = ParameterPart::all_of(running_.shape());
  part.sharded = apart_;
  return {{name_ + ".margin", running_, part}};
}

Tensor radial_share(const LogitsInput& input, const Tensor& log_sums) {
  if (!input.margin.products.defined()) return {};
  Tensor share = Tensor::empty_like(log_sums);
  share.device().backend().head().radial_share(input.margin.step, input.margin.products, log_sums, input.loss_factors,
                                               share);
  return share;
}

}  // namespace heddle
