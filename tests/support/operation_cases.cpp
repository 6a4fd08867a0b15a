#include "tests/support/operation_cases.h"

#include <cmath>

#include "framework/ops/attention.h"
#include "framework/ops/convolution.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/normalization.h"
#include "framework/ops/pooling.h"
#include "framework/ops/reduction.h"
#include "framework/ops/rows.h"
#include "framework/ops/shape.h"
#include "framework/ops/training.h"
#include "tests/support/devices.h"

namespace heddle::test {

namespace {

using Inputs = std::vector<Variable>;
using Cases = std::vector<OperationCase>;

constexpr auto away = Domain::away_from_zero;
constexpr auto positive = Domain::positive;
constexpr auto distinct = Domain::distinct;

/// A slope, gamma or beta.
CaseInput channels(std::int64_t count, Domain values = Domain::normal) {
  return {{count}, values, true};
}

void add_elementwise(Cases& cases) {
  const auto binary = [&](const std::string& name, Variable (*op)(const Variable&, const Variable&), Domain second) {
    const auto run = [op](const Inputs& in) { return op(in[0], in[1]); };
    cases.push_back({name, {{{3, 5}}, {{3, 5}, second}}, run});
    cases.push_back({name + " of channels", {{{2, 3, 17}}, {{17}, second}}, run});
    cases.push_back({name + " of columns and rows", {{{3, 1, 5}}, {{2, 1}, second}}, run});
    cases.push_back({name + " of a scalar", {{Shape{}}, {{2, 3}, second}}, run});
  };
  binary("add", add, Domain::normal);
  binary("subtract", subtract, Domain::normal);
  binary("multiply", multiply, Domain::normal);
  binary("divide", divide, away);
  cases.push_back({"multiply by itself", {{{7}}}, [](const Inputs& in) { return multiply(in[0], in[0]); }});
  cases.push_back({"scale", {{{3, 5}}}, [](const Inputs& in) { return scale(in[0], -1.7); }});

  const auto unary = [&](const std::string& name, Variable (*op)(const Variable&), Domain values) {
    cases.push_back({name, {{{5, 7}, values}}, [op](const Inputs& in) { return op(in[0]); }});
  };
  unary("relu", relu, away);
  unary("relu6", relu6, away);
  unary("sigmoid", sigmoid, Domain::normal);
  unary("tanh", heddle::tanh, Domain::normal);
  unary("gelu", gelu, Domain::normal);
  unary("negate", negate, Domain::normal);
  unary("exp", heddle::exp, Domain::normal);
  unary("log", heddle::log, positive);
  unary("sqrt", heddle::sqrt, positive);
  unary("square", square, Domain::normal);
  const auto run_prelu = [](const Inputs& in) { return prelu(in[0], in[1]); };
  cases.push_back({"prelu of channels", {{{2, 3, 5}, away}, channels(5)}, run_prelu});
  cases.push_back({"prelu with one slope", {{{7, 3}, away}, channels(1)}, run_prelu});
  cases.push_back({"dropout", {{{5, 9}}}, [](const Inputs& in) {
                     return dropout(in[0], 0.3, {.key = {7}, .purpose = Purpose::dropout, .step = 2, .layer = 1}, 5);
                   }});
  cases.push_back({"dropout of a block", {{{5, 3}}}, [](const Inputs& in) {
                     return dropout(in[0], 0.3, {.key = {7}, .purpose = Purpose::dropout}, {5, 3, 7});
                   }});
}

void add_moves(Cases& cases) {
  const auto move = [&](const std::string& name, std::vector<CaseInput> inputs, auto run) {
    cases.push_back({name, std::move(inputs), run, 0, 0});
  };
  move("reshape", {{{2, 3, 5}}}, [](const Inputs& in) { return reshape(in[0], {5, -1}); });
  move("transpose of a matrix", {{{19, 23}}}, [](const Inputs& in) { return transpose(in[0], {1, 0}); });
  move("transpose to the front", {{{3, 4, 5}}}, [](const Inputs& in) { return transpose(in[0], {2, 0, 1}); });
  move("transpose of channels", {{{2, 3, 4, 5}}}, [](const Inputs& in) { return transpose(in[0], {0, 3, 1, 2}); });
  move("transpose of outer dimensions", {{{3, 4, 5}}}, [](const Inputs& in) { return transpose(in[0], {1, 0, 2}); });
  move("transpose all round", {{{2, 3, 4, 5}}}, [](const Inputs& in) { return transpose(in[0], {3, 2, 1, 0}); });
  move("slice of rows", {{{5, 3}}}, [](const Inputs& in) { return slice(in[0], 0, 1, 4); });
  move("slice of columns", {{{3, 4, 5}}}, [](const Inputs& in) { return slice(in[0], -2, 1, 3); });
  move("concat of rows", {{{2, 3}}, {{1, 3}}, {{3, 3}}}, [](const Inputs& in) { return concat(in, 0); });
  move("concat of columns", {{{2, 3, 2}}, {{2, 1, 2}}}, [](const Inputs& in) { return concat(in, 1); });
  move("concat at the end", {{{2, 3}}, {{2, 5}}}, [](const Inputs& in) { return concat(in, -1); });
  const auto mask_of = [](const Variable& x, std::int64_t tokens, std::int64_t kept) {
    const DrawKey key{.key = {7}, .purpose = Purpose::token_masks, .step = 2, .layer = 1};
    return draw_token_mask(x.device(), x.shape()[0], tokens, kept, key, 5);
  };
  move("mask_tokens", {{{3, 7, 2}}}, [=](const Inputs& in) { return mask_tokens(in[0], mask_of(in[0], 7, 5)); });
  cases.push_back({"restore_tokens", {{{3, 4, 2}}, {{1, 1, 2}}}, [=](const Inputs& in) {
                     return restore_tokens(in[0], in[1], mask_of(in[0], 7, 4));
                   }});
  move("gather of rows", {{{4, 3}}}, [](const Inputs& in) {
    return gather_rows(in[0], integers(in[0].device(), {3, 0, 3, 1, 3}));
  });
  cases.back().bf16_tolerance = 2e-2;
  cases.back().f32_tolerance = 2e-6;
}

void add_reductions(Cases& cases) {
  const auto reduction = [&](const std::string& name, Shape shape, auto run, Domain values = Domain::normal) {
    cases.push_back({name, {{shape, values}}, run});
  };
  reduction("sum", {3, 7}, [](const Inputs& in) { return sum(in[0]); });
  reduction("mean", {3, 7}, [](const Inputs& in) { return mean(in[0]); });
  reduction("sum of rows", {5, 3}, [](const Inputs& in) { return sum(in[0], 0); });
  reduction("sum within", {2, 5, 3}, [](const Inputs& in) { return sum(in[0], 1); });
  reduction("sum of columns", {3, 37}, [](const Inputs& in) { return sum(in[0], -1); });
  reduction("mean within", {2, 5, 3}, [](const Inputs& in) { return mean(in[0], 1); });
  reduction(
      "max within", {2, 5, 3}, [](const Inputs& in) { return heddle::max(in[0], 1); }, distinct);
  reduction(
      "max of columns", {3, 37}, [](const Inputs& in) { return heddle::max(in[0], -1); }, distinct);
  reduction("scatter of rows", {4, 3}, [](const Inputs& in) {
    return scatter_rows(in[0], integers(in[0].device(), {3, 0, 3, 1}), 5);
  });
}

void add_rows(Cases& cases) {
  const auto rows = [&](const std::string& name, auto run) { cases.push_back({name, {{{4, 19}}}, run}); };
  rows("softmax", [](const Inputs& in) { return softmax(in[0]); });
  rows("log_sum_exp", [](const Inputs& in) { return log_sum_exp(in[0]); });
  rows("cross_entropy", [](const Inputs& in) { return cross_entropy(in[0], integers(in[0].device(), {3, 0, 18, 7})); });
  rows("l2_normalize", [](const Inputs& in) { return l2_normalize(in[0]); });
  rows("layer_norm without parameters", [](const Inputs& in) { return layer_norm(in[0], {}, {}, 1e-5); });
  cases.push_back({"layer_norm", {{{2, 3, 7}}, channels(7), channels(7)}, [](const Inputs& in) {
                     return layer_norm(in[0], in[1], in[2], 1e-5);
                   }});
}

void add_products(Cases& cases) {
  for (const bool first : {false, true})
    for (const bool second : {false, true})
      cases.push_back({fmt::format("matmul{}{}", first ? " transposed" : "", second ? " by transposed" : ""),
                       {{first ? Shape{5, 3} : Shape{3, 5}}, {second ? Shape{7, 5} : Shape{5, 7}}},
                       [=](const Inputs& in) { return matmul(in[0], in[1], first, second); }});
  cases.push_back(
      {"linear", {{{2, 3, 5}}, {{7, 5}}, {{7}}}, [](const Inputs& in) { return linear(in[0], in[1], in[2]); }});
  cases.push_back({"add_bias", {{{2, 3, 5}}, {{5}}}, [](const Inputs& in) { return add_bias(in[0], in[1]); }});
  const auto attend = [&](const std::string& name, Shape qkv, std::int64_t heads, std::optional<double> scale) {
    cases.push_back({name, {{qkv}}, [=](const Inputs& in) { return attention(in[0], heads, scale); }, 5e-6, 4e-2});
  };
  attend("attention", {2, 5, 18}, 2, {});
  attend("attention with a scale", {1, 3, 12}, 1, 0.7);
  attend("attention of many tokens", {1, 37, 6}, 1, {});
  attend("attention of aligned heads", {1, 67, 96}, 2, {});
  attend("attention of wide heads", {1, 5, 222}, 1, {});
  cases.push_back(
      {"attention with dropout",
       {{{2, 5, 18}}},
       [](const Inputs& in) {
         return attention(in[0], 2, {}, {0.3, {.key = {7}, .purpose = Purpose::dropout, .step = 2}, 3, 1, 4});
       },
       5e-6,
       4e-2});
  cases.push_back(
      {"linear without bias", {{{3, 5}}, {{1, 5}}}, [](const Inputs& in) { return linear(in[0], in[1], {}); }});
}

void add_convolutions(Cases& cases) {
  const auto convolution = [&](const std::string& name, Shape x, Shape weight, ConvolutionOptions options,
                               bool has_bias = false) {
    std::vector<CaseInput> inputs{{x}, {weight}};
    if (has_bias) inputs.push_back({{weight[0]}});
    cases.push_back({name, std::move(inputs),
                     [=](const Inputs& in) { return conv2d(in[0], in[1], has_bias ? in[2] : Variable(), options); }});
  };
  convolution("conv2d 1x1", {2, 3, 2, 5}, {4, 1, 1, 5}, {});
  convolution("conv2d 3x3", {2, 5, 4, 3}, {4, 3, 3, 3}, {.padding = {1, 1}}, true);
  convolution("conv2d stride 2", {1, 7, 6, 3}, {2, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}});
  convolution("conv2d uneven", {2, 6, 5, 2}, {3, 3, 2, 2}, {.stride = {2, 1}, .padding = {1, 0}}, true);
  convolution("conv2d stride 3", {2, 7, 6, 4}, {5, 2, 3, 4}, {.stride = {3, 3}, .padding = {0, 1}}, true);
  convolution("conv2d dilated", {1, 7, 6, 2}, {3, 3, 2, 2}, {.padding = {2, 1}, .dilation = {2, 3}}, true);
  convolution("conv2d in groups", {2, 4, 3, 6}, {4, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}, true);
  convolution("conv2d depthwise", {2, 5, 4, 3}, {3, 3, 3, 1}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 3});
}

/// As if a second rank held three further rows, whose gradients are not wanted.
class SecondRank final : public StatisticsGroup {
 public:
  Tensor gather(const Tensor& row) override {
    const Tensor other = tensor(row.device(), {1, 11}, {3, .1, -.2, .3, -.5, .4, 1, 2, .5, 3, .7}, row.dtype());
    return concat_tensors(std::vector<Tensor>{row, other}, 0);
  }
  Tensor sum(const Tensor& sums) override { return sums; }
};

void add_norms(Cases& cases) {
  const auto norm = [&](const std::string& name, bool trains, NormActivation activation, bool has_residual) {
    std::vector<CaseInput> inputs{{{2, 3, 2, 5}}, channels(5, positive), channels(5)};
    if (activation == NormActivation::prelu) inputs.push_back(channels(5));
    if (has_residual) inputs.push_back({{2, 3, 2, 5}});
    const auto run = [=](const Inputs& in) {
      NormEpilogue epilogue{.activation = activation};
      if (activation == NormActivation::prelu) epilogue.slope = in[3];
      if (has_residual) epilogue.residual = in.back();
      Tensor statistics;
      if (trains) return batch_norm(in[0], in[1], in[2], 1e-5, epilogue, statistics);
      const DType dtype = compute_dtype(in[0].dtype());
      return batch_norm_inference(in[0], tensor(in[0].device(), {5}, {.1, -.2, .3, -.5, .4}, dtype),
                                  tensor(in[0].device(), {5}, {.5, .6, .7, .8, .9}, dtype), in[1], in[2], 1e-5,
                                  epilogue);
    };
    // If rounding moves an input across a kink, its gradient changes.
    cases.push_back({name, std::move(inputs), run, 5e-6, 3e-2});
  };
  for (const bool trains : {true, false}) {
    const std::string name = trains ? "batch_norm" : "batch_norm for inference";
    norm(name, trains, NormActivation::none, false);
    norm(name + " with relu", trains, NormActivation::relu, false);
    norm(name + " with prelu", trains, NormActivation::prelu, false);
    norm(name + " and residual", trains, NormActivation::none, true);
    norm(name + " and residual with relu", trains, NormActivation::relu, true);
  }
  cases.push_back({"batch_norm over ranks",
                   {{{2, 3, 2, 5}}, channels(5, positive), channels(5), channels(5)},
                   [](const Inputs& in) {
                     Tensor statistics;
                     return batch_norm(in[0], in[1], in[2], 1e-5, {.activation = NormActivation::prelu, .slope = in[3]},
                                       statistics, std::make_shared<SecondRank>());
                   },
                   5e-6,
                   3e-2});
  cases.push_back({"batch_norm without parameters", {{{7, 3}}}, [](const Inputs& in) {
                     Tensor statistics;
                     return batch_norm(in[0], {}, {}, 1e-5, {}, statistics);
                   }});
}

void add_pools(Cases& cases) {
  const auto pool = [&](const std::string& name, Variable (*op)(const Variable&, const PoolOptions&), Shape shape,
                        PoolOptions options) {
    cases.push_back({name, {{shape, distinct}}, [=](const Inputs& in) { return op(in[0], options); }});
  };
  pool("max_pool2d", max_pool2d, {2, 4, 6, 2}, {.kernel = {2, 2}, .stride = {2, 2}});
  pool("max_pool2d overlapping", max_pool2d, {1, 7, 5, 3}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  pool("average_pool2d", average_pool2d, {1, 7, 5, 3}, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}});
  pool("average_pool2d of what is there", average_pool2d, {1, 7, 5, 3},
       {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .count_padding = false});
  cases.push_back(
      {"global_average_pool", {{{2, 3, 5, 4}}}, [](const Inputs& in) { return global_average_pool(in[0]); }});
}

std::vector<double> distinct_values(std::int64_t count, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 0.1 * (static_cast<double>(i) + 0.5 - static_cast<double>(count) / 2);
  RandomStream stream({seed}, Purpose::test, 1, 0);
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[stream.below(i)]);
  return values;
}

}  // namespace

const std::vector<OperationCase>& operation_cases() {
  static const std::vector<OperationCase> all = [] {
    Cases cases;
    add_elementwise(cases);
    add_moves(cases);
    add_reductions(cases);
    add_rows(cases);
    add_products(cases);
    add_convolutions(cases);
    add_norms(cases);
    add_pools(cases);
    return cases;
  }();
  return all;
}

std::vector<double> case_values(const CaseInput& input, std::size_t position) {
  if (input.values == Domain::distinct) return distinct_values(input.shape.numel(), position);
  if (input.values == Domain::normal) return normal_values(input.shape.numel(), position);
  RandomStream stream({position}, Purpose::test, 2, 0);
  std::vector<double> values(static_cast<std::size_t>(input.shape.numel()));
  for (double& value : values) {
    value = 0.3 + stream.uniform();
    if (input.values == Domain::away_from_zero && stream.below(2) == 1) value = -value;
  }
  return values;
}

std::vector<double> output_gradients(std::int64_t count) {
  std::vector<double> values = normal_values(count, 99);
  for (double& value : values) value = std::round(8 * value) / 8;  // exact in 16 bits, too
  return values;
}

void CaseGraph::go_back() const {
  const Variable& y = output;
  backward({{y, tensor(y.device(), y.shape(), output_gradients(y.value().numel()), y.dtype())}});
}

CaseGraph make_graph(const OperationCase& operation, Device& device, DType dtype,
                     const std::vector<std::vector<double>>& values, unsigned wanted) {
  CaseGraph graph;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    const CaseInput& input = operation.inputs[i];
    Tensor value = tensor(device, input.shape, values[i], input.is_of_compute_type ? compute_dtype(dtype) : dtype);
    graph.accumulators.push_back(std::make_shared<Accumulator>(Category::gradients));
    graph.inputs.push_back((wanted >> i & 1U) == 0 ? Variable(std::move(value))
                                                   : Variable::parameter(std::move(value), graph.accumulators[i]));
  }
  graph.output = operation.run(graph.inputs);
  return graph;
}

CaseGraph make_graph(const OperationCase& operation, Device& device, DType dtype, unsigned wanted) {
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) values.push_back(case_values(operation.inputs[i], i));
  return make_graph(operation, device, dtype, values, wanted);
}

}  // namespace heddle::test
