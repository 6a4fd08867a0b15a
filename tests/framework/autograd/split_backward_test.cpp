// A backward pass in two parts gives what a whole one gives, bit for bit, does each part's work in that part, and holds
// no more than the second needs.
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "framework/ops/convolution.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/normalization.h"
#include "tests/support/autograd/leaves.h"
#include "tests/support/operation_cases.h"

namespace heddle::test {
namespace {

/// The n-th assignment of kinds to the inputs of an operation.
std::vector<Kind> kinds_of(const OperationCase& operation, unsigned n) {
  std::vector<Kind> kinds;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i, n /= 3) kinds.push_back(static_cast<Kind>(n % 3));
  return kinds;
}

unsigned assignments(const OperationCase& operation) {
  return static_cast<unsigned>(std::lround(std::pow(3, operation.inputs.size())));
}

struct CaseLeaves {
  std::vector<Leaf> leaves;
  std::vector<Variable> variables;

  CaseLeaves(const OperationCase& operation, Device& device, DType dtype, const std::vector<Kind>& kinds) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const CaseInput& input = operation.inputs[i];
      const DType type = input.is_of_compute_type ? compute_dtype(dtype) : dtype;
      leaves.emplace_back(kinds[i], tensor(device, input.shape, case_values(input, i), type));
      variables.push_back(leaves.back().variable);
    }
  }
};

TEST_CASE("Every operation's backward in two parts is the whole one bit for bit, whatever its inputs are") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases())
    for (const DType dtype : {DType::f32, DType::f64})
      for (unsigned n = 1; n < assignments(operation); ++n) {
        const std::vector<Kind> kinds = kinds_of(operation, n);
        const CaseLeaves whole(operation, device, dtype, kinds);
        const CaseLeaves split(operation, device, dtype, kinds);
        const auto forward = [&](const CaseLeaves& with) { return operation.run(with.variables); };
        if (!forward(whole).leads().anywhere()) continue;
        // Two micro-batches, the weight parts late.
        for (const std::uint64_t seed : {1, 2}) backward({root_of(forward(whole), seed)});
        std::vector<WeightBackward> weights;
        for (const std::uint64_t seed : {1, 2}) weights.push_back(backward_inputs({root_of(forward(split), seed)}));
        for (std::size_t i = 0; i < kinds.size(); ++i)
          if (kinds[i] == Kind::input)
            CHECK_MESSAGE(split.leaves[i].gradient() == whole.leaves[i].gradient(), operation.name << ", kinds " << n);
        for (WeightBackward& weight : weights) weight.run();
        CHECK_MESSAGE(gradients_of(split.leaves) == gradients_of(whole.leaves), operation.name << ", kinds " << n);
        for (const Leaf& leaf : split.leaves) CHECK(leaf.accumulator->pending_readers() == 0);
      }
}

TEST_CASE("plan holds the tested backend's bytes after each part, over all operations") {
  for (const OperationCase& operation : operation_cases())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (unsigned n = 1; n < assignments(operation); ++n) {
        const auto uses = [&](std::string_view backend) {
          Device device = make_device(backend);
          const CaseLeaves leaves(operation, device, dtype, kinds_of(operation, n));
          Variable y = operation.run(leaves.variables);
          std::vector<std::array<std::int64_t, category_count>> bytes;
          if (!y.leads().anywhere()) return bytes;
          Root root = root_of(y);
          y = Variable();
          const auto note = [&] {
            bytes.push_back(device.meter().live().bytes);
            bytes.push_back(device.meter().peak().bytes);
          };
          WeightBackward weights = backward_inputs({std::move(root)});
          note();
          weights.run();
          note();
          return bytes;
        };
        CHECK_MESSAGE(uses("plan") == uses(tested_backend()),
                      operation.name << " in " << name_of(dtype) << ", kinds " << n);
      }
}

TEST_CASE("The input part does the input's share of the work, and the weight part the weight's") {
  Device device = make_device("plan");
  const Leaf x(device, Kind::input, {4, 6, 6, 8}, 1, DType::f32);
  const Leaf kernel(device, Kind::parameter, {8, 3, 3, 8}, 2, DType::f32);
  const Leaf weight(device, Kind::parameter, {5, 8}, 3, DType::f32);
  const Leaf matrix(device, Kind::parameter, {5, 3}, 4, DType::f32);
  const auto flops = [&](const std::function<void()>& action) {
    const double before = device.backend().flops();
    action();
    return device.backend().flops() - before;
  };
  Variable y;
  const double forward = flops([&] {
    y = conv2d(x.variable, kernel.variable, {}, {.padding = {1, 1}});
    y = linear(y, weight.variable, {});
    y = matmul(Variable(record(y.value().reshape({144, 5}), {y},
                               [](const Tensor& dy, Wanted) {
                                 return Gradients{dy.reshape({4, 6, 6, 5})};
                               })),
               matrix.variable);
  });
  WeightBackward weights;
  CHECK(flops([&] { weights = backward_inputs({root_of(y)}); }) == forward);
  CHECK(x.accumulator->gradient().defined());
  CHECK_FALSE(kernel.accumulator->gradient().defined());
  CHECK(flops([&] { weights.run(); }) == forward);
  for (const Leaf* leaf : {&kernel, &weight, &matrix}) CHECK(leaf->accumulator->gradient().defined());
}

TEST_CASE("A vjp first returns the gradients of stage inputs, and later those that it did not return with them") {
  Device device = make_device();
  const Leaf given(device, Kind::parameter, {1}, 1);
  const Leaf x(device, Kind::input, {1}, 2);
  const Leaf left(device, Kind::parameter, {1}, 3);
  std::vector<std::string> asked;
  const auto make = [&](bool gives_beside) {
    return record(x.variable.value(), {given.variable, x.variable, Variable(x.variable.value()), left.variable},
                  [&asked, gives_beside](const Tensor& dy, Wanted wanted) {
                    std::string bits;
                    for (std::size_t i = 0; i < 4; ++i) bits += wanted[i] ? '1' : wanted.ever()[i] ? '?' : '0';
                    asked.push_back(bits);
                    Gradients gradients(4);
                    for (std::size_t i = 0; i < 4; ++i)
                      if (wanted[i] || (gives_beside && i == 0)) gradients[i] = dy;
                    return gradients;
                  });
  };
  for (const bool gives_beside : {true, false}) {
    WeightBackward weights = backward_inputs({root_of(make(gives_beside))});
    CHECK(x.accumulator->gradient().defined());
    CHECK(given.accumulator->gradient().defined() == gives_beside);
    CHECK(given.accumulator->pending_readers() == (gives_beside ? 0 : 1));
    CHECK_FALSE(left.accumulator->gradient().defined());
    CHECK_FALSE(weights.empty());
    weights.run();
    CHECK(weights.empty());
    weights.run();  // nothing
    CHECK(given.gradient() == left.gradient());
    for (const Leaf* leaf : {&given, &x, &left}) leaf->accumulator->clear();
  }
  CHECK(asked == std::vector<std::string>{"?10?", "0001", "?10?", "1001"});
}

TEST_CASE("The input part frees what no weight part needs, and the weight part frees the rest") {
  Device device = make_device();
  constexpr std::int64_t rows = 64;
  constexpr std::int64_t channels = 16;
  constexpr std::int64_t activation = 8 * rows * channels;
  constexpr std::int64_t weight_bytes = 8 * channels * channels;
  const Leaf x(device, Kind::input, {rows, channels}, 1);
  const Leaf weight(device, Kind::parameter, {channels, channels}, 2);
  const Leaf gamma(device, Kind::parameter, {channels}, 3);
  const Leaf slope(device, Kind::parameter, {channels}, 4);
  const std::int64_t leaves = device.meter().live().total();
  Tensor statistics;
  const auto forward = [&](Variable y) {
    y = linear(y, weight.variable, {});
    y = batch_norm(y, gamma.variable, {}, 1e-5, {}, statistics);
    return prelu(y, slope.variable);
  };
  Root root = root_of(forward(heddle::tanh(x.variable)));
  statistics = Tensor();
  WeightBackward weights = backward_inputs({std::move(root)});
  // The weight's: its input (tanh's output) and its output's gradient. The batch norm's and the slope's have come.
  const std::int64_t small = 8 * channels * 2;  // gradients of gamma and slope
  const std::int64_t input_gradient = activation;
  CHECK(device.meter().live().total() - leaves == 2 * activation + input_gradient + small);
  CHECK(gamma.accumulator->gradient().defined());
  CHECK(slope.accumulator->gradient().defined());
  weights.run();
  CHECK(device.meter().live().total() - leaves == input_gradient + small + weight_bytes);
}

TEST_CASE("An operation frees its weight in the input part: a gathered weight is not held until the weight part") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {2, 4, 4, 3}, 1, DType::f32);
  const auto check_goes = [&](const Shape& shape, const std::function<Variable(const Variable&)>& use) {
    Leaf weight(device, Kind::parameter, shape, 2, DType::f32);
    Variable y = use(weight.variable);
    const std::weak_ptr<Storage> storage = weight.variable.value().storage();
    weight.variable = Variable();
    WeightBackward weights = backward_inputs({root_of(y)});
    CHECK(storage.expired());
    weights.run();
    CHECK(weight.accumulator->gradient().shape() == shape);
  };
  check_goes({5, 3, 3, 3}, [&](const Variable& w) { return conv2d(x.variable, w, {}, {}); });
  check_goes({5, 3}, [&](const Variable& w) { return linear(x.variable, w, {}); });
  const Leaf matrix(device, Kind::input, {7, 3}, 3, DType::f32);
  check_goes({3, 5}, [&](const Variable& w) { return matmul(matrix.variable, w); });
}

TEST_CASE("A graph without stage inputs is left to the weight part as a whole") {
  Device device = make_device();
  const Leaf constant(device, Kind::constant, {6, 4}, 1);
  const Leaf weight(device, Kind::parameter, {4, 4}, 2);
  const Leaf gamma(device, Kind::parameter, {4}, 3);
  Tensor statistics;
  const auto forward = [&] {
    const Variable y = linear(constant.variable, weight.variable, {});
    return linear(batch_norm(y, gamma.variable, {}, 1e-5, {}, statistics), weight.variable, {});
  };
  backward({root_of(forward())});
  const std::vector<std::vector<double>> expected{weight.gradient(), gamma.gradient()};
  weight.accumulator->clear();
  gamma.accumulator->clear();
  WeightBackward weights = backward_inputs({root_of(forward())});
  CHECK(weight.gradient().empty());
  CHECK(gamma.gradient().empty());
  CHECK(weight.accumulator->pending_readers() == 2);
  weights.run();
  CHECK(std::vector<std::vector<double>>{weight.gradient(), gamma.gradient()} == expected);
}

TEST_CASE("A graph without parameters leaves nothing to the weight part") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {6}, 1);
  const WeightBackward weights = backward_inputs({root_of(heddle::tanh(x.variable))});
  CHECK(weights.empty());
  CHECK(x.accumulator->gradient().defined());
}

TEST_CASE("A gradient given beside an input waits for those that come to its parameter before it") {
  Device device = make_device();
  const Leaf shared(device, Kind::parameter, {4}, 1);
  const Leaf x(device, Kind::input, {6, 4}, 2);
  Tensor statistics;
  // Sums of three terms depend on their order: the product's gradient comes first, the norm's last.
  const auto forward = [&] {
    Variable y = batch_norm(x.variable, shared.variable, {}, 1e-5, {}, statistics);
    y = add(y, scale(shared.variable, 1.7));
    return multiply(y, shared.variable);
  };
  backward({root_of(forward())});
  backward({root_of(forward())});
  const std::vector<double> expected = shared.gradient();
  shared.accumulator->clear();
  WeightBackward first = backward_inputs({root_of(forward())});
  WeightBackward second = backward_inputs({root_of(forward())});
  CHECK(shared.gradient().empty());
  CHECK(shared.accumulator->pending_readers() == 6);
  first.run();
  second.run();
  CHECK(shared.gradient() == expected);
  // Once all gradients have arrived, nothing waits.
  const Variable y = batch_norm(x.variable, shared.variable, {}, 1e-5, {}, statistics);
  CHECK(backward_inputs({root_of(y)}).empty());
}

TEST_CASE("A graph many thousand nodes deep is traversed in two parts, and dropped between them, without recursion") {
  constexpr int depth = fewer_if_sanitized(200000, 60000);
  Device device = make_device();
  const Leaf x(device, Kind::input, {1}, 1);
  const Leaf parameter(device, Kind::parameter, {1}, 2);
  const std::int64_t before = device.meter().live().total();
  // Nodes that lead to both, and nodes that lead to the parameter alone.
  const auto chain = [&] {
    Variable y = add(x.variable, parameter.variable);
    Variable z = parameter.variable;
    for (int i = 0; i < depth; ++i) {
      y = i % 2 == 0 ? scale(y, 1) : add(y, parameter.variable);
      z = scale(z, 1);
    }
    return add(y, z);
  };
  const auto inputs = [&] { return backward_inputs({{chain(), tensor(device, {1}, {1})}}); };
  inputs().run();
  CHECK(x.gradient() == std::vector<double>{1});
  CHECK(parameter.gradient() == std::vector<double>{depth / 2 + 2});
  x.accumulator->clear();
  parameter.accumulator->clear();
  {
    const WeightBackward dropped = inputs();
    CHECK(parameter.accumulator->pending_readers() == depth / 2 + 2);
  }
  CHECK(parameter.accumulator->pending_readers() == 0);
  x.accumulator->clear();
  CHECK(device.meter().live().total() == before);
}

TEST_CASE("A leaf is ready when its last reader was visited in either part; a dropped part makes nothing ready") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {6, 4}, 1);
  const Leaf gamma(device, Kind::parameter, {4}, 2);
  const Leaf bias(device, Kind::parameter, {4}, 3);
  std::string ready;
  gamma.accumulator->when_ready([&ready] { ready += "gamma "; });
  bias.accumulator->when_ready([&ready] { ready += "bias "; });
  x.accumulator->when_ready([&ready] { ready += "x "; });
  Tensor statistics;
  const auto inputs = [&] {
    const Variable y = add_bias(batch_norm(x.variable, gamma.variable, {}, 1e-5, {}, statistics), bias.variable);
    return backward_inputs({root_of(add_bias(y, bias.variable))});
  };
  WeightBackward weights = inputs();
  CHECK(ready == "x gamma ");
  CHECK(bias.accumulator->pending_readers() == 2);
  weights.run();
  CHECK(ready == "x gamma bias ");
  weights = inputs();
  weights = WeightBackward();
  CHECK(ready == "x gamma bias x gamma ");
  CHECK(bias.accumulator->pending_readers() == 0);
  // A gradient no longer waits for that of a dropped part.
  const std::vector<double> before = bias.gradient();
  backward_inputs({root_of(batch_norm(x.variable, bias.variable, {}, 1e-5, {}, statistics))});
  CHECK(bias.gradient() != before);
}

TEST_CASE("A graph traversed in part is not traversed again, and a root without a gradient adds nothing") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {2}, 1);
  const Leaf weight(device, Kind::parameter, {2}, 2);
  const Variable y = multiply(x.variable, weight.variable);
  WeightBackward weights = backward_inputs({root_of(y), {scale(y, 2), Tensor()}});
  const std::vector<double> gradient = x.gradient();
  CHECK_THROWS_WITH_AS(backward({root_of(y)}), "backward: this graph was already traversed and its tensors are freed",
                       InputError);
  weights.run();
  CHECK(x.gradient() == gradient);
  Leaf again(device, Kind::input, {2}, 1);
  backward({root_of(multiply(again.variable, weight.variable))});
  CHECK(again.gradient() == gradient);
}

TEST_CASE("A collective runs once, in the part to which its output leads, with zeros if no gradient has arrived") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {1}, 1);
  const Leaf weight(device, Kind::parameter, {1}, 2);
  std::string order;
  const Tensor value = tensor(device, {1}, {1});
  const auto collective = [&](const char* name, std::initializer_list<Variable> inputs) {
    return record_collective(value, inputs, [&order, name](const Tensor& dy, Wanted wanted) {
      order += fmt::format("{} {} ", name, dy.item());
      return Gradients{wanted.ever()[0] ? dy : Tensor(), wanted.ever()[1] ? dy : Tensor()};
    });
  };
  const Variable of_weight = collective("weight", {weight.variable, Variable()});
  const Variable of_both = collective("both", {of_weight, x.variable});
  const Variable idle_input = collective("idle input", {x.variable, Variable()});
  const Variable idle_weight = collective("idle weight", {weight.variable, Variable()});
  const Variable last = record(value, {of_both, idle_input, idle_weight}, [](const Tensor& dy, Wanted wanted) {
    return Gradients{wanted[0] ? dy : Tensor(), {}, {}};
  });
  WeightBackward weights = backward_inputs({{last, value}});
  CHECK(order == "idle input 0 both 1 ");
  weights.run();
  CHECK(order == "idle input 0 both 1 idle weight 0 weight 1 ");
  CHECK(weight.gradient() == std::vector<double>{1});
}

}  // namespace
}  // namespace heddle::test
