#include <functional>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "framework/ops/convolution.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/normalization.h"
#include "framework/ops/pooling.h"
#include "framework/ops/reduction.h"
#include "framework/ops/rows.h"
#include "framework/ops/shape.h"
#include "framework/ops/training.h"
#include "tests/support/autograd/gradcheck.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace heddle::test {
namespace {

TEST_CASE("Every operation's gradient is its finite difference to 1e-7") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    const GradientError error = gradient_error(operation, device);
    CHECK_MESSAGE(error.largest <= 1e-7, operation.name << ": " << error.where);
  }
}

TEST_CASE("A wrong gradient of one element of many is found, wherever it is") {
  Device device = make_device();
  for (const std::size_t wrong : {0, 1, 2, 499, 998, 999}) {
    std::vector<double> mask(1000);
    mask[wrong] = 0.01;
    // The values of x in the second term are constants of its graph.
    const auto run = [&](const std::vector<Variable>& x) {
      return add(x[0], multiply(Variable(x[0].value()), tensor(x[0].device(), {10, 100}, mask)));
    };
    const OperationCase operation{.name = "wrong", .inputs = {{.shape = {10, 100}}}, .run = run};
    CHECK(gradient_error(operation, device).largest > 1e-5);
  }
}

TEST_CASE("Case names are distinct") {
  std::set<std::string> names;
  for (const OperationCase& operation : operation_cases())
    CHECK_MESSAGE(names.insert(operation.name).second, operation.name);
}

TEST_CASE("A gradient does not change when the other inputs are constants") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    const CaseGraph all = make_graph(operation, device, DType::f64);
    all.go_back();
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const CaseGraph one = make_graph(operation, device, DType::f64, 1U << i);
      one.go_back();
      for (std::size_t j = 0; j < operation.inputs.size(); ++j) {
        const Tensor gradient = one.accumulators[j]->gradient();
        if (i == j)
          CHECK_MESSAGE(gradient.to_doubles() == all.accumulators[i]->gradient().to_doubles(), operation.name);
        else
          CHECK_MESSAGE(!gradient.defined(), operation.name);
      }
    }
  }
}

/// Compares outputs and gradients of a case in a type with f64 on the same rounded inputs.
void compare_with_f64(const OperationCase& operation, Device& device, DType dtype, double tolerance) {
  const CaseGraph narrow = make_graph(operation, device, dtype);
  std::vector<std::vector<double>> rounded;
  for (const Variable& input : narrow.inputs) rounded.push_back(input.value().to_doubles());
  const CaseGraph wide = make_graph(operation, device, DType::f64, rounded);
  const auto check = [&](const Tensor& a, const Tensor& b, const std::string& what) {
    const double apart = difference(a.to_doubles(), b.to_doubles());
    CHECK_MESSAGE(apart <= tolerance,
                  operation.name << " in " << name_of(dtype) << ": " << what << " differs by " << apart);
  };
  check(narrow.output.value(), wide.output.value(), "the output");
  narrow.go_back();
  wide.go_back();
  for (std::size_t i = 0; i < rounded.size(); ++i)
    check(narrow.accumulators[i]->gradient(), wide.accumulators[i]->gradient(), fmt::format("gradient {}", i));
}

TEST_CASE("Every operation in f32 and bf16 is f64's to rounding") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    compare_with_f64(operation, device, DType::f32, operation.f32_tolerance);
    compare_with_f64(operation, device, DType::bf16, operation.bf16_tolerance);
  }
}

/// The results of an operation on [[0.5, -1.25, 2], [1, 0, -3]].
std::vector<double> at_sample(Device& device, const std::function<Variable(const Variable&)>& operation) {
  return operation(tensor(device, {2, 3}, {0.5, -1.25, 2.0, 1.0, 0.0, -3.0})).value().to_doubles();
}

// Expected values: PyTorch's in f64.
TEST_CASE("Operations give PyTorch's values") {
  Device device = make_device();
  const auto is_near = [&](const std::function<Variable(const Variable&)>& operation,
                           const std::vector<double>& expected) {
    return difference(at_sample(device, operation), expected) < 1e-14;
  };
  CHECK(is_near(
      gelu, {0.3457312306370066, -0.1320622170835691, 1.954499736103642, 0.841344746068543, 0, -0.00404969409489031}));
  CHECK(is_near(sigmoid, {0.6224593312018546, 0.2227001388253088, 0.8807970779778823, 0.7310585786300049, 0.5,
                          0.04742587317756678}));
  CHECK(is_near(heddle::tanh, {0.4621171572600097, -0.8482836399575129, 0.9640275800758169, 0.7615941559557649, 0,
                               -0.9950547536867305}));
  CHECK(is_near(softmax, {0.1768201821074443, 0.03072674032643643, 0.7924530775661193, 0.7213991842739687,
                          0.2653879287722419, 0.01321288695378941}));
  CHECK(is_near(log_sum_exp, {2.232621983102033, 1.32656264126747}));
  CHECK(is_near([](const Variable& x) { return layer_norm(x, {}, {}, 1e-5); },
                {0.06274540265308406, -1.254908053061681, 1.192162650408597, 0.9805789785364644, 0.3922315914145858,
                 -1.37281056995105}));
  CHECK(is_near(
      [](const Variable& x) { return l2_normalize(x); },
      {0.2073903389460851, -0.5184758473652127, 0.8295613557843402, 0.3162277660168379, 0, -0.9486832980505138}));
  CHECK(is_near(
      [](const Variable& x) {
        return cross_entropy(x, integers(x.device(), {2, 1}));
      },
      {0.2326219831020327, 1.32656264126747}));
}

TEST_CASE("cast keeps values, and gradients come back in the first type") {
  Device device = make_device();
  const auto accumulator = std::make_shared<Accumulator>(Category::gradients);
  const Variable x = Variable::parameter(tensor(device, {2}, {1.5, 1.0009765625}, DType::f32), accumulator);
  const Variable y = cast(x, DType::bf16);
  CHECK(y.value().to_doubles() == std::vector<double>{1.5, 1});
  backward({{y, tensor(device, {2}, {1, 2}, DType::bf16)}});
  CHECK(accumulator->gradient().dtype() == DType::f32);
  CHECK(accumulator->gradient().to_doubles() == std::vector<double>{1, 2});
  CHECK(cast(x, DType::f32).value().data() == x.value().data());
}

TEST_CASE("top_k gives values and places") {
  Device device = make_device();
  const TopK top = top_k(tensor(device, {2, 3}, {1, 3, 2, 6, 5, 6}), 2);
  CHECK(top.values.to_doubles() == std::vector<double>{3, 2, 6, 6});
  CHECK(top.index.to_host<std::int64_t>() == std::vector<std::int64_t>{1, 2, 0, 2});
  CHECK_THROWS_WITH_AS(top_k(top.values, 3), "top_k: the rows of f64[2,2] have no 3 largest", InputError);
}

TEST_CASE("Tensors without rows pass forward and backward") {
  Device device = make_device();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const DType parameters = compute_dtype(dtype);
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const auto weight_gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::parameter(Tensor::zeros(device, {0, 4}, dtype), gradient);
    const Variable weight = Variable::parameter(Tensor::zeros(device, {3, 4}, dtype), weight_gradient);
    const Variable gamma = Tensor::full(device, {4}, parameters, 1);
    Variable y = layer_norm(relu(add(x, scale(x, 2))), gamma, gamma, 1e-5);
    y = l2_normalize(softmax(prelu(multiply(y, y), gamma)));
    y = concat(std::vector<Variable>{slice(y, 1, 0, 2), slice(y, 1, 2, 4)}, 1);
    y = linear(gather_rows(y, integers(device, {})), weight, {});
    y = transpose(dropout(y, 0.5, {}, 0), {1, 0});
    y = cross_entropy(transpose(y, {1, 0}), integers(device, {}));
    CHECK(y.shape() == Shape{0});
    backward(sum(y));
    CHECK(gradient->gradient().shape() == Shape{0, 4});
    CHECK(weight_gradient->gradient().to_doubles() == std::vector<double>(12, 0));
  }
}

TEST_CASE("A bias that another rank adds leaves the values alone and has the gradient nevertheless") {
  Device device = make_device();
  const auto run = [&](bool adds) {
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const auto bias_gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::parameter(tensor(device, {2, 3}, {1, 2, 3, 4, 5, 6}), gradient);
    const Variable bias = Variable::parameter(tensor(device, {3}, {10, 20, 30}), bias_gradient);
    const Variable y = add_bias(x, bias, adds);
    backward({{y, tensor(device, {2, 3}, {1, 0, 2, 3, 5, 7})}});
    CHECK(gradient->gradient().to_doubles() == std::vector<double>{1, 0, 2, 3, 5, 7});
    CHECK(bias_gradient->gradient().to_doubles() == std::vector<double>{4, 5, 9});
    return y.value().to_doubles();
  };
  CHECK(run(true) == std::vector<double>{11, 22, 33, 14, 25, 36});
  CHECK(run(false) == std::vector<double>{1, 2, 3, 4, 5, 6});
}

/// Forward and backward of a small network of all layers' operations on [samples, 6, 6, channels].
void run_network(Device& device, DType dtype, std::int64_t samples, std::int64_t channels, std::int64_t filters) {
  CAPTURE(name_of(dtype));
  CAPTURE(to_string(Shape{samples, channels, filters}));
  const DType parameters = compute_dtype(dtype);
  std::vector<std::shared_ptr<Accumulator>> gradients;
  const auto leaf = [&](const Shape& shape, DType of) {
    gradients.push_back(std::make_shared<Accumulator>(Category::gradients));
    return Variable::parameter(Tensor::full(device, shape, of, 1), gradients.back());
  };
  const Variable x = leaf({samples, 6, 6, channels}, dtype);
  const Variable weight = leaf({filters, 3, 3, channels}, dtype);
  const Variable bias = leaf({filters}, dtype);
  const Variable gamma = leaf({filters}, parameters);
  const Variable slope = leaf({filters}, parameters);
  const Variable narrow = leaf({4, filters}, dtype);
  const Variable widen = leaf({filters, 4}, dtype);
  Variable y = conv2d(x, weight, bias, {.padding = {1, 1}});
  Tensor statistics;
  y = batch_norm(y, gamma, gamma, 1e-5, {.activation = NormActivation::prelu, .slope = slope}, statistics);
  y = batch_norm_inference(y, Tensor::zeros(device, {filters}, parameters),
                           Tensor::full(device, {filters}, parameters, 1), gamma, gamma, 1e-5, {});
  y = relu(add(prelu(y, slope), scale(dropout(y, 0.5, {}, {0, filters, filters + 1}), 2)));
  y = add_bias(multiply(y, y), bias);
  y = average_pool2d(max_pool2d(y, {.kernel = {2, 2}, .stride = {1, 1}}), {.kernel = {2, 2}, .stride = {2, 2}});
  y = linear(linear(global_average_pool(y), narrow, {}), widen, {});
  CHECK(y.shape() == Shape{samples, filters});
  backward(sum(cast(y, parameters)));
  CHECK(gradients[0]->gradient().shape() == x.shape());
  for (const auto& gradient : gradients) {
    REQUIRE(gradient->gradient().defined());
    const std::vector<double> values = gradient->gradient().to_doubles();
    if (samples == 0 || filters == 0) CHECK(values == std::vector<double>(values.size()));
  }
}

TEST_CASE("Images without samples, and layers of which a rank holds no channels, pass forward and backward") {
  Device device = make_device();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    run_network(device, dtype, 0, 3, 8);
    run_network(device, dtype, 2, 3, 0);
    run_network(device, dtype, 2, 0, 8);
    run_network(device, dtype, 0, 0, 0);
  }
}

TEST_CASE("Operands that do not fit are refused with their shapes") {
  Device device = make_device();
  const auto zeros = [&](const Shape& shape, DType dtype = DType::f32) {
    return Variable(Tensor::zeros(device, shape, dtype));
  };
  const auto says = [](const auto& operation) { return message_of<InputError>(operation); };
  const Variable x = zeros({2, 3});
  CHECK(says([&] { add(x, zeros({4})); }) == "add: f32[2,3] and f32[4] do not broadcast");
  CHECK(says([&] {
          multiply(zeros({2, 1, 3}), zeros({4, 2}));
        }) == "multiply: f32[2,1,3] and f32[4,2] do not broadcast");
  CHECK(says([&] { divide(x, zeros({2, 3}, DType::f64)); }) == "divide: f32[2,3] and f64[2,3] differ in type");
  CHECK(says([&] { relu(zeros({2}, DType::i64)); }) == "relu: expected a floating-point type, got i64[2]");
  CHECK(says([&] { prelu(x, zeros({2})); }) == "prelu: expected a slope f32[3], got f32[2]");
  CHECK(says([&] { dropout(x, 1, {}, 0); }) == "dropout: expected a probability in [0, 1), got 1");
  CHECK(says([&] { add_bias(x, zeros({2})); }) == "add_bias: expected a bias f32[3], got f32[2]");
  CHECK(says([&] { add_bias(zeros({}), zeros({1})); }) == "add_bias: f32[] has no channels");
  CHECK(says([&] { sum(x, 2); }) == "sum: f32[2,3] has no dimension 2");
  CHECK(says([&] { heddle::max(zeros({2, 0}), -1); }) == "max: dimension -1 of f32[2,0] is empty");
  CHECK(says([&] { transpose(x, {0, 0}); }) == "transpose: [0,0] is not a permutation of the dimensions of f32[2,3]");
  CHECK(says([&] { transpose(x, {0}); }) == "transpose: [0] is not a permutation of the dimensions of f32[2,3]");
  CHECK(says([&] { slice(x, 1, 2, 4); }) == "slice: dimension 1 of f32[2,3] has no elements 2 to 4");
  CHECK(says([&] {
          concat(std::vector<Variable>{x, zeros({2, 4})}, 0);
        }) == "concat: f32[2,3] and f32[2,4] differ in more than dimension 0");
  CHECK(says([&] { concat({}, 0); }) == "concat: expected at least one input");
  CHECK(says([&] { layer_norm(x, zeros({2}), {}, 1e-5); }) == "layer_norm: expected gamma f32[3], got f32[2]");
  CHECK(says([&] { gather_rows(x, Tensor::zeros(device, {1}, DType::i32)); }) ==
        "gather_rows: expected an index i64[n], got i32[1]");
  CHECK(says([&] {
          gather_rows(x, integers(device, {1, 2}));
          device.backend().synchronize();
        }) == "gather_rows: index 2 at position 1 is outside the 2 rows");
  CHECK(says([&] {
          scatter_rows(x, integers(device, {1, -1}), 4);
          device.backend().synchronize();
        }) == "scatter_rows: index -1 at position 1 is outside the 4 rows");
  CHECK(says([&] { scatter_rows(x, integers(device, {1}), 4); }) ==
        "scatter_rows: i64[1] for f32[2,3] does not give each row one place");
  CHECK(says([&] { cross_entropy(x, integers(device, {0})); }) ==
        "cross_entropy: expected labels i64[2] for logits f32[2,3], got i64[1]");
  CHECK(says([&] {
          cross_entropy(x, integers(device, {0, 3}));
          device.backend().synchronize();
        }) == "cross_entropy: the label 3 of sample 1 is outside [0, 3)");
}

}  // namespace
}  // namespace heddle::test
