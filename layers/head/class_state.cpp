#include "layers/head/class_state.h"

#include <variant>

#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// Where the next change of a tensor's elements is written: in their place, if its storage has no other one.
Tensor target_of(const Tensor& x) {
  if (!x.defined() || !x.storage()->next()) return x;
  return Tensor::view(x.storage()->next(), x.byte_offset(), x.shape(), x.dtype());
}

ClassInitial initial_of(const HeadConfig& config) {
  const auto kind = config.init == HeadInit::unit ? ClassInitial::Kind::unit : ClassInitial::Kind::normal;
  return {.kind = kind, .deviation = config.initial_deviation};
}

}  // namespace

ClassState::ClassState(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                       const IndexRange& classes, const Rank& rank, Construction& construction, const std::string& name)
    : config_(config),
      optimizer_(optimizer),
      device_(construction.device),
      key_(rank.key),
      classes_(classes),
      dtype_(construction.precision.wide()),
      stream_(construction.next_stream),
      weights_{.name = name + ".weight",
               .part = ParameterPart::all_of({config.rows_of(config.classes), dimension}),
               .weight_decay = optimizer.weight_decay},
      biases_{.name = name + ".bias",
              .part = ParameterPart::all_of({config.classes, 1}),
              .weight_decay = optimizer.decay_norms_and_biases ? optimizer.weight_decay : 0} {
  for (Rows* rows : {&weights_, &biases_})
    rows->part.sharded = rank.mesh.larger_than_one(every_axis_and_copies.without(config.copy_axes()));
  if (config_.is_replicated()) {
    weights_.part.partial = biases_.part.partial = rank.mesh.larger_than_one(config.copy_axes());
    make_parameters(construction);
  } else {
    weights_.part.box[0] = {config.rows_of(classes.begin), config.rows_of(classes.size)};
    biases_.part.box[0] = classes;
    make_tables(construction);
  }
  device_.backend().class_rows().fill(weights_.table,
                                      {.key = construction.key, .purpose = Purpose::initial_weights, .layer = stream_},
                                      weights_.part.box[0].begin * dimension, initial_of(config));
}

void ClassState::make_parameters(Construction& construction) {
  Construction of_weight = construction;
  of_weight.precision = {dtype_, weight_type(config_, dtype_)};
  parameters_.push_back(make_parameter(of_weight, weights_.name, weights_.part, Initial::constant(0)));
  construction.next_stream = of_weight.next_stream;
  weights_.table.weight = parameters_.back().value;
  if (!config_.bias) return;
  parameters_.push_back(
      make_parameter(construction, biases_.name, biases_.part, Initial::constant(0), {.is_norm_or_bias = true}));
  biases_.table.weight = parameters_.back().value;
}

void ClassState::make_tables(Construction& construction) {
  {
    const MemoryScope scope(device_, Category::parameters);
    weights_.table.weight = Tensor::empty(device_, weights_.part.shape(), weight_type(config_, dtype_));
    if (config_.weights == WeightState::int8)
      weights_.table.scale = Tensor::empty(device_, {weights_.part.shape()[0]}, DType::f32);
    if (config_.bias) biases_.table.weight = Tensor::zeros(device_, biases_.part.shape(), dtype_);
  }
  const auto momentum = momentum_type(config_, optimizer_, dtype_);
  if (!momentum) optimizer_.momentum = 0;
  make_state(weights_, momentum);
  if (config_.bias) make_state(biases_, momentum ? std::optional(dtype_) : std::nullopt);
  construction.next_stream += config_.bias ? 2 : 1;  // as many as make_parameters takes
}

void ClassState::make_state(Rows& rows, const std::optional<DType>& momentum) {
  const MemoryScope scope(device_, Category::optimizer);
  const Shape shape = rows.part.shape();
  if (momentum) rows.table.momentum = Tensor::zeros(device_, shape, *momentum);
  if (optimizer_.type == OptimizerType::adamw) rows.table.square = Tensor::zeros(device_, shape, dtype_);
  if (config_.has_dense_gradient()) {
    const MemoryScope gradients(device_, Category::gradients);
    rows.gradient = Tensor::zeros(device_, shape, dtype_);
  }
  if (!config_.defers_steps()) return;
  rows.table.taken = Tensor::zeros(device_, {shape[0]}, DType::i32);
  rows.deferred.emplace(device_);
}

void ClassState::for_each_table(const std::function<void(Rows&)>& body) {
  body(weights_);
  if (biases_.table.weight.defined()) body(biases_);
}

Tensor ClassState::biases() const {
  return biases_.table.weight.defined() ? biases_.table.weight.reshape({classes_.size}) : Tensor();
}

Tensor ClassState::biases_at(const Tensor& index) const {
  if (!biases_.table.weight.defined()) return {};
  Tensor biases = Tensor::empty(device_, {index.numel(), 1}, dtype_);
  device_.backend().rows().gather(biases_.table.weight, index, biases);
  return biases.reshape({index.numel()});
}

std::vector<Parameter*> ClassState::parameters() {
  std::vector<Parameter*> all;
  for (Parameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}

std::vector<StateTensor> ClassState::state() {
  if (config_.is_replicated()) return {};
  std::vector<StateTensor> all;
  for_each_table([&](const Rows& rows) {
    const ClassTable& table = rows.table;
    all.push_back({rows.name, table.weight, rows.part});
    const bool is_adamw = optimizer_.type == OptimizerType::adamw;
    if (table.momentum.defined())
      all.push_back({(is_adamw ? "mean." : "velocity.") + rows.name, table.momentum, rows.part});
    if (table.square.defined()) all.push_back({"square." + rows.name, table.square, rows.part});
    if (!table.scale.defined()) return;
    ParameterPart vector = rows.part;
    vector.whole = Shape{rows.part.whole[0]};
    vector.box = {rows.part.box[0]};
    all.push_back({rows.name + ".scale", table.scale, vector});
  });
  for (StateTensor& state : all) state.is_rewritten = rewrites_all_rows();
  return all;
}

bool ClassState::rewrites_all_rows() const {
  return !config_.samples() && device_.backend().class_rows().can_step_into_target();
}

void ClassState::step_rows(Rows& rows, const ClassSelection& selection, const Tensor& values,
                           const Tensor& inverse_norm, const Tensor& products, const ClassStep& step) const {
  ClassTable target{.weight = target_of(rows.table.weight),
                    .scale = target_of(rows.table.scale),
                    .momentum = target_of(rows.table.momentum),
                    .square = target_of(rows.table.square)};
  ClassStep into = step;
  if (rows.table.weight.storage()->next()) into.target = &target;
  device_.backend().class_rows().step(rows.table, selection, values, inverse_norm, products, into);
}

ClassStep ClassState::class_step(const Rows& rows, const HeadUpdate& update) const {
  return {.update = step_of(optimizer_, update.step - first_step_, update.learning_rate, rows.weight_decay),
          .bound = update.bound,
          .factor = update.factor,
          .rounding = {.key = key_,
                       .purpose = Purpose::rounding,
                       .step = static_cast<std::uint32_t>(update.step),
                       .layer = stream_},
          .first_element = rows.part.box[0].begin * rows.part.whole[1],
          .taken = rows.deferred ? rows.deferred->steps().count + 1 : 0};
}

Tensor ClassState::biases_of(const ClassTile& tile) const {
  const ClassSelection& selection = tile.selection;
  if (selection.index.defined()) return biases_at(selection.index).reshape({selection.size, 1});
  return biases_.table.weight.rows(tile.begin, tile.end());
}

void ClassState::step(const ClassTile& tile, const ClassGradient& gradient, const HeadUpdate& update) {
  step_rows(weights_, tile.selection, tile.rows, tile.inverse_norm, gradient.weight, class_step(weights_, update));
  if (gradient.bias.defined())
    step_rows(biases_, tile.selection, biases_of(tile), Tensor(), gradient.bias, class_step(biases_, update));
}

void ClassState::add_gradient(const ClassTile& tile, const ClassGradient& gradient) {
  const MemoryScope scope(device_, Category::workspace);
  const RowKernels& kernels = device_.backend().rows();
  const Tensor& index = tile.selection.index;
  Tensor of_rows = gradient.weight;
  if (config_.normalize) {
    of_rows = Tensor::empty_like(gradient.weight);
    device_.backend().normalization().l2_normalize_backward(in_type(tile.rows, dtype_), tile.inverse_norm,
                                                            gradient.weight, of_rows);
  }
  kernels.scatter_add(of_rows, index, weights_.gradient);
  if (gradient.bias.defined()) kernels.scatter_add(gradient.bias, index, biases_.gradient);
}

void ClassState::step_all(const HeadUpdate& update, std::int64_t tile_size) {
  const MemoryScope scope(device_, Category::workspace);
  for_each_table([&](Rows& rows) {
    const ClassStep step = class_step(rows, update);
    const ClassTiles all(rows.table, dtype_, dtype_, false, tile_size);
    all.for_each([&](const ClassTile& tile) {
      step_rows(rows, tile.selection, tile.rows, Tensor(), rows.gradient.rows(tile.begin, tile.end()), step);
    });
    rows.gradient.fill(0);
  });
}

void ClassState::step_unsampled(const ClassSample& sample, const HeadUpdate& update, std::int64_t tile_size) {
  const MemoryScope scope(device_, Category::workspace);
  const std::int64_t count = weights_.part.box[0].size;
  std::vector<std::int64_t> others;
  auto sampled = sample.rows.begin();
  for (std::int64_t row = 0; device_.has_data() && row < count; ++row) {
    if (sampled != sample.rows.end() && *sampled == row)
      ++sampled;
    else
      others.push_back(row);
  }
  const Tensor index = tensor_of_values(device_, others, count - sample.size);
  for_each_table([&](Rows& rows) {
    const ClassStep step = class_step(rows, update);
    ClassTiles rest(rows.table, dtype_, dtype_, false, tile_size);
    rest.select(index);
    rest.for_each([&](const ClassTile& tile) { step_rows(rows, tile.selection, tile.rows, Tensor(), Tensor(), step); });
  });
}

void ClassState::end_step(const HeadUpdate& update) {
  for_each_table([&](Rows& rows) {
    for (const Tensor& x : {rows.table.weight, rows.table.scale, rows.table.momentum, rows.table.square})
      if (x.defined()) x.storage()->move_to_next();
    if (!rows.deferred) return;
    const auto step = std::get<SgdStep>(class_step(rows, update).update);
    rows.deferred->add(dtype_ == DType::f64 ? sgd_map<double>(step) : sgd_map<float>(step));
  });
  if (weights_.deferred && weights_.deferred->is_full()) catch_up_all();
}

void ClassState::catch_up(const Tensor& index) {
  for_each_table([&](Rows& rows) {
    if (!rows.deferred) return;
    device_.backend().class_rows().catch_up(rows.table, {.size = index.numel(), .index = index},
                                            rows.deferred->steps());
    rows.table.weight.storage()->changed();
  });
}

void ClassState::catch_up_all() {
  for_each_table([&](Rows& rows) {
    if (!rows.deferred || rows.deferred->steps().count == 0) return;
    device_.backend().class_rows().catch_up(rows.table, {.size = rows.part.box[0].size}, rows.deferred->steps());
    rows.table.taken.fill(0);
    rows.deferred->clear();
    rows.table.weight.storage()->changed();
  });
}

void ClassState::add_squared_gradient(const ClassTile& tile, const ClassGradient& gradient, double bound,
                                      Tensor& result) const {
  const ClassRowKernels& kernels = device_.backend().class_rows();
  kernels.add_squared_gradient(tile.rows, tile.inverse_norm, gradient.weight, bound, result);
  if (gradient.bias.defined()) kernels.add_squared_gradient(biases_of(tile), Tensor(), gradient.bias, bound, result);
}

}  // namespace heddle
