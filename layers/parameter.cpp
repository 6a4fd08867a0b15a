#include "layers/parameter.h"

#include "framework/description/wildcard.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// Draws the elements that the rank holds, by their indices in the whole parameter.
void draw(Tensor& value, const ParameterPart& part, const DrawKey& key, const Initial& initial) {
  if (initial.kind == Initial::Kind::constant) return value.fill(initial.a);
  const TrainingKernels& kernels = value.device().backend().training();
  const Tensor flat = value.reshape({value.numel()});
  for_each_run(part, [&](const ElementRun& run) {
    Tensor elements = flat.rows(run.held, run.held + run.count);
    if (initial.kind == Initial::Kind::normal)
      kernels.fill_normal(elements, key, run.whole, initial.a, initial.b);
    else
      kernels.fill_uniform(elements, key, run.whole, initial.a, initial.b);
  });
}

/// Long enough to be worth a thread, and a multiple of the number of elements that are drawn at once.
constexpr std::int64_t row_columns = 1024;

/// Cuts a long row into several short ones.
void cut(const WeightRows& row, std::vector<WeightRows>& into) {
  const std::int64_t rows = row.columns / row_columns;
  const std::int64_t done = rows * row_columns;
  if (rows > 0)
    into.push_back({.held = row.held, .rows = rows, .columns = row_columns, .whole = row.whole, .stride = row_columns});
  if (done < row.columns)
    into.push_back({.held = row.held + done, .rows = 1, .columns = row.columns - done, .whole = row.whole + done});
}

}  // namespace

std::vector<WeightRows> weight_rows(const ParameterPart& part) {
  std::vector<WeightRows> all;
  for_each_run(part, [&all](const ElementRun& run) {
    const bool has_last = !all.empty() && all.back().columns == run.count;
    if (has_last && all.back().rows == 1) all.back().stride = run.whole - all.back().whole;
    if (has_last && run.whole == all.back().whole + all.back().rows * all.back().stride)
      ++all.back().rows;
    else
      all.push_back({.held = run.held, .rows = 1, .columns = run.count, .whole = run.whole});
  });
  std::vector<WeightRows> short_ones;
  for (const WeightRows& rows : all) {
    if (rows.rows == 1)
      cut(rows, short_ones);
    else
      short_ones.push_back(rows);
  }
  return short_ones;
}

Parameter make_parameter(Construction& construction, std::string name, const ParameterPart& part,
                         const Initial& initial, const ParameterOptions& options) {
  const MemoryScope scope(construction.device, Category::parameters);
  Tensor value = Tensor::empty(construction.device, part.held_shape(), construction.precision.of_parameter(part.whole));
  const std::uint32_t stream = construction.next_stream++;
  draw(value, part, {construction.key, Purpose::initial_weights, 0, stream}, initial);
  auto gradient = std::make_shared<Accumulator>(Category::gradients);
  const bool is_frozen = construction.frozen != nullptr && matches_any(*construction.frozen, name);
  const bool trainable = options.trainable && !is_frozen;
  Variable variable = trainable ? Variable::parameter(value, gradient) : Variable(value);
  return {.name = std::move(name),
          .part = part,
          .value = std::move(value),
          .gradient = std::move(gradient),
          .variable = std::move(variable),
          .is_norm_or_bias = options.is_norm_or_bias,
          .trainable = trainable,
          .stream = stream};
}

Buffer make_buffer(Construction& construction, std::string name, const ParameterPart& part, double value) {
  const MemoryScope scope(construction.device, Category::parameters);
  return {std::move(name), part,
          Tensor::full(construction.device, part.held_shape(), construction.precision.wide(), value)};
}

}  // namespace heddle
