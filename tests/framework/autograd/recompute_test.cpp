// A segment that keeps only its inputs and runs again gives the same results with less memory.
#include "framework/autograd/recompute.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/normalization.h"
#include "framework/ops/reduction.h"
#include "tests/support/autograd/gradcheck.h"
#include "tests/support/autograd/leaves.h"
#include "tests/support/transports.h"

namespace heddle::test::recompute_test {
namespace {

using Inputs = std::span<const Variable>;

/// The case within a segment, between operations of others, so that edges go in and out.
OperationCase in_segment(const OperationCase& operation) {
  OperationCase wrapped = operation;
  wrapped.run = [run = operation.run](const std::vector<Variable>& inputs) {
    std::vector<Variable> before;
    for (const Variable& input : inputs) before.push_back(scale(input, 1));
    return scale(recompute_segment(before,
                                   [run](Inputs x, bool) {
                                     return std::vector<Variable>{run({x.begin(), x.end()})};
                                   })[0],
                 1);
  };
  return wrapped;
}

TEST_CASE("Every operation within a segment that runs again has its finite difference as gradient") {
  Device device = make_device();
  for (const OperationCase& operation : operation_cases()) {
    const GradientError error = gradient_error(in_segment(operation), device);
    CHECK_MESSAGE(error.largest <= 1e-7, operation.name << ": " << error.where);
  }
}

TEST_CASE("Every operation within a segment gives the bits of one without, and plan its bytes") {
  for (const OperationCase& operation : operation_cases())
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      std::vector<MemoryUse> uses;
      for (const std::string& backend : {tested_backend(), std::string("plan")}) {
        Device device = make_device(backend);
        const CaseGraph graph = make_graph(in_segment(operation), device, dtype);
        graph.go_back();
        uses.push_back(device.meter().peak());
        if (!device.has_data()) continue;
        const CaseGraph expected = make_graph(operation, device, dtype);
        expected.go_back();
        CHECK_MESSAGE(graph.output.value().to_doubles() == expected.output.value().to_doubles(), operation.name);
        for (std::size_t i = 0; i < graph.accumulators.size(); ++i)
          CHECK_MESSAGE(
              graph.accumulators[i]->gradient().to_doubles() == expected.accumulators[i]->gradient().to_doubles(),
              operation.name << " in " << name_of(dtype));
      }
      CHECK_MESSAGE(uses[0].bytes == uses[1].bytes, operation.name << " in " << name_of(dtype));
    }
}

/// `layers` times tanh(linear), in segments of `length`; 0: none.
Variable chain(Variable x, const Variable& weight, int layers, int length) {
  const auto run = [&weight](Variable y, int count) {
    for (int i = 0; i < count; ++i) y = heddle::tanh(linear(y, weight, {}));
    return y;
  };
  if (length == 0) return run(std::move(x), layers);
  for (int i = 0; i < layers; i += length) {
    const SegmentFunction segment = [run, length](Inputs y, bool) { return std::vector<Variable>{run(y[0], length)}; };
    x = recompute_segment(std::span(&x, 1), segment)[0];
  }
  return x;
}

TEST_CASE("A segment keeps its inputs alone; a pass holds one segment's activations at a time") {
  static constexpr std::int64_t rows = 1000;
  static constexpr std::int64_t channels = 8;
  static constexpr std::int64_t value = 8 * rows * channels;
  for (const std::string& backend : {tested_backend(), std::string("plan")}) {
    Device device = make_device(backend);
    const Leaf weight(device, Kind::parameter, {channels, channels}, 1);
    const std::int64_t parameters = device.meter().live().total();
    const auto peak_of = [&](int length, std::int64_t kept) {
      const Leaf x(device, Kind::input, {rows, channels}, 2);
      Variable y = chain(x.variable, weight.variable, 16, length);
      CHECK(device.meter().live().total() - parameters == (2 + kept) * value);  // x, y and what is kept between them
      std::vector<Root> roots;
      roots.push_back(root_of(y));
      y = Variable();
      device.meter().reset_peak();
      backward(std::move(roots));
      weight.accumulator->clear();
      CHECK(device.meter().live().total() - parameters == 2 * value);  // x and its gradient
      return (device.meter().peak().total() - parameters) / value;     // the weight's gradient is less than one
    };
    // Beside x: what is kept, the gradient before and the one after.
    CHECK(peak_of(0, 15) == 1 + 16 + 2);
    // Three ends of segments; and of the last segment, which runs again, four activations and its output.
    CHECK(peak_of(4, 3) == 1 + 3 + 4 + 2);
    CHECK(peak_of(16, 0) == 1 + 16 + 2);
  }
}

TEST_CASE("A split pass runs a segment again once, in its input part, and keeps for the weight part what it needs") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {6, 4}, 1);
  const Leaf weight(device, Kind::parameter, {4, 4}, 2);
  std::string runs;
  const SegmentFunction segment = [&](Inputs y, bool recomputing) {
    runs += recomputing ? 'R' : 'F';
    return std::vector<Variable>{heddle::tanh(linear(y[0], weight.variable, {}))};
  };
  const auto forward = [&](const Variable& from) { return recompute_segment(std::span(&from, 1), segment)[0]; };
  WeightBackward weights = backward_inputs({root_of(forward(forward(x.variable)))});
  CHECK(runs == "FFRR");
  weights.run();
  CHECK(runs == "FFRR");
  const std::vector<double> gradient = weight.gradient();
  weight.accumulator->clear();
  backward({root_of(heddle::tanh(linear(heddle::tanh(linear(x.variable, weight.variable, {})), weight.variable, {})))});
  CHECK(weight.gradient() == gradient);
  // Without stage inputs the weight part runs it again.
  runs.clear();
  weights = backward_inputs({root_of(forward(Variable(x.variable.value())))});
  CHECK(runs == "F");
  weights.run();
  CHECK(runs == "FR");
}

TEST_CASE("Several outputs, of which some are read, are inputs, constants or need no operation") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {4}, 1);
  const Leaf weight(device, Kind::parameter, {4}, 2);
  const Leaf unread(device, Kind::parameter, {4}, 3);
  const auto run = [&](Inputs in, bool) {
    const Variable product = multiply(in[0], weight.variable);
    const Variable lost = multiply(product, unread.variable);
    return std::vector<Variable>{product, in[0], Variable(in[0].value()), heddle::tanh(product),
                                 multiply(lost, unread.variable)};
  };
  const auto loss = [](const std::vector<Variable>& y) {
    return root_of(add(multiply(y[0], y[1]), multiply(y[2], scale(y[1], 3))));
  };
  const std::vector<Variable> in{x.variable};
  backward({loss(run(in, false))});
  const std::vector<std::vector<double>> expected{x.gradient(), weight.gradient()};
  x.accumulator->clear();
  weight.accumulator->clear();
  std::vector<Variable> outputs = recompute_segment(in, run);
  CHECK_FALSE(outputs[2].leads().anywhere());
  outputs.pop_back();
  backward({loss(outputs)});
  CHECK(std::vector<std::vector<double>>{x.gradient(), weight.gradient()} == expected);
  outputs.clear();
  for (const Leaf* leaf : {&x, &weight, &unread}) CHECK(leaf->accumulator->pending_readers() == 0);
}

TEST_CASE("A leaf within segments has its readers and is ready after the last of them") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {6, 4}, 1);
  const Leaf weight(device, Kind::parameter, {4, 4}, 2);
  int ready = 0;
  std::vector<double> complete;
  weight.accumulator->when_ready([&] {
    ++ready;
    complete = weight.gradient();
  });
  const Variable first = chain(x.variable, weight.variable, 4, 2);
  const Variable second = chain(x.variable, weight.variable, 4, 2);
  CHECK(weight.accumulator->pending_readers() == 8);
  backward({root_of(first)});
  CHECK(ready == 0);
  CHECK(weight.accumulator->pending_readers() == 4);
  backward({root_of(second)});
  CHECK(ready == 1);
  CHECK(complete == weight.gradient());
}

TEST_CASE("Segments within a segment are part of it, and nothing is kept within NoGrad") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {6, 4}, 1);
  const Leaf weight(device, Kind::parameter, {4, 4}, 2);
  std::string runs;
  const SegmentFunction inner = [&](Inputs y, bool recomputing) {
    runs += recomputing ? 'r' : 'f';
    return std::vector<Variable>{linear(y[0], weight.variable, {})};
  };
  const SegmentFunction outer = [&](Inputs y, bool recomputing) {
    runs += recomputing ? 'R' : 'F';
    const Variable between = heddle::tanh(y[0]);
    return recompute_segment(std::span(&between, 1), inner);
  };
  backward({root_of(recompute_segment(std::span(&x.variable, 1), outer)[0])});
  CHECK(runs == "FfRr");
  const std::vector<double> gradient = weight.gradient();
  weight.accumulator->clear();
  backward({root_of(linear(heddle::tanh(x.variable), weight.variable, {}))});
  CHECK(weight.gradient() == gradient);
  const NoGrad no_grad(device);
  CHECK_FALSE(recompute_segment(std::span(&x.variable, 1), outer)[0].leads().anywhere());
}

TEST_CASE("A segment that does something else when it runs again is refused") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {2}, 1);
  const auto go_back = [&](int first, int again) {
    backward({root_of(recompute_segment(std::span(&x.variable, 1), [=](Inputs in, bool recomputing) {
      Variable y = in[0];
      for (int i = 0; i < (recomputing ? again : first); ++i) y = scale(y, 2);
      return std::vector<Variable>{y};
    })[0])});
  };
  CHECK_THROWS_WITH_AS(go_back(3, 2), "recompute: the segment recorded 3 operations, and 2 when it ran again", Error);
  CHECK_THROWS_WITH_AS(go_back(2, 3), "recompute: the segment recorded 2 operations, and more when it ran again",
                       Error);
  CHECK_THROWS_WITH_AS(recompute_segment({}, [](Inputs, bool) { return std::vector<Variable>(); }),
                       "recompute_segment: expected an input, got none", InputError);
  CHECK(device.recorder().records());
  CHECK(device.recorder().segment() == nullptr);
}

TEST_CASE("A chain of 100,000 segments is traversed and dropped without recursion") {
  Device device = make_device();
  const Leaf x(device, Kind::input, {1}, 1);
  const auto make = [&] {
    Variable y = x.variable;
    for (int i = 0; i < 100000; ++i)
      y = recompute_segment(std::span(&y, 1),
                            [](Inputs in, bool) { return std::vector<Variable>{scale(in[0], 1)}; })[0];
    return y;
  };
  backward({{make(), tensor(device, {1}, {1})}});
  CHECK(x.gradient() == std::vector<double>{1});
  { const Variable dropped = make(); }
  CHECK(device.meter().live().total() == 16);
}

}  // namespace
}  // namespace heddle::test::recompute_test
