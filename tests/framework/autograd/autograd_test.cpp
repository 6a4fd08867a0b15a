#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "tests/support/devices.h"

namespace heddle::test::autograd_test {
namespace {

/// A leaf and the accumulator of its gradient.
struct Leaf {
  std::shared_ptr<Accumulator> accumulator = std::make_shared<Accumulator>(Category::gradients);
  Variable variable;

  Leaf(Device& device, const std::vector<double>& values)
      : variable(Variable::parameter(tensor(device, {static_cast<std::int64_t>(values.size())}, values), accumulator)) {
  }
  std::vector<double> gradient() const { return accumulator->gradient().to_doubles(); }
};

TEST_CASE("A graph 200,000 nodes deep is traversed backwards and destroyed without recursion") {
  Device device = make_device();
  const Leaf x(device, {1});
  const auto chain = [&] {
    Variable y = x.variable;
    for (int i = 0; i < 200000; ++i) y = scale(y, 1);
    return y;
  };
  backward(chain());
  CHECK(x.gradient() == std::vector<double>{1});
  { const Variable dropped = chain(); }
  CHECK(device.meter().live().total() == 16);
  CHECK(x.accumulator->pending_readers() == 0);
}

TEST_CASE("A value used twice gets the sum of both gradients") {
  Device device = make_device();
  const Leaf x(device, {2, 3});
  const Variable y = multiply(x.variable, x.variable);
  backward(sum(add(y, multiply(y, x.variable))));  // x^2 + x^3
  CHECK(x.gradient() == std::vector<double>{4 + 12, 6 + 27});
}

TEST_CASE("Gradients of several backwards add up, and each leaf's memory is its category's") {
  Device device = make_device();
  const Leaf x(device, {1, 2});
  backward(sum(scale(x.variable, 3)));
  const void* const address = x.accumulator->gradient().data();
  backward(sum(scale(x.variable, 4)));
  CHECK(x.gradient() == std::vector<double>{7, 7});
  CHECK(x.accumulator->gradient().data() == address);
  CHECK(device.meter().live()[Category::gradients] == 16);
  x.accumulator->clear();
  CHECK(device.meter().live()[Category::gradients] == 0);
}

TEST_CASE("One gradient that reaches two leaves is not shared between them") {
  Device device = make_device();
  const Leaf a(device, {1});
  const Leaf b(device, {1});
  backward(sum(add(a.variable, b.variable)));
  backward(sum(scale(a.variable, 5)));
  CHECK(a.gradient() == std::vector<double>{6});
  CHECK(b.gradient() == std::vector<double>{1});
}

TEST_CASE("A slice's gradient does not keep the whole gradient alive") {
  Device device = make_device();
  const Leaf a(device, std::vector<double>(10, 1));
  const Leaf b(device, std::vector<double>(90, 1));
  const std::vector<Variable> both{a.variable, b.variable};
  backward(sum(concat(both, 0)));
  CHECK(device.meter().live()[Category::gradients] == 800);
  CHECK(device.meter().live()[Category::activations] == 800);  // the leaves' values
}

TEST_CASE("A second backward through a freed graph is refused") {
  Device device = make_device();
  const Leaf x(device, {2});
  const Variable y = square(x.variable);
  backward(y);
  CHECK_THROWS_WITH_AS(backward(y), "backward: this graph was already traversed and its tensors are freed", InputError);
  CHECK_THROWS_WITH_AS(backward(scale(y, 2)), "backward: this graph was already traversed and its tensors are freed",
                       InputError);
  CHECK(x.gradient() == std::vector<double>{4});
}

TEST_CASE("A tensor is freed as soon as its last reader is done") {
  Device device = make_device();
  constexpr std::int64_t bytes = 8 * 1000;
  const Leaf x(device, std::vector<double>(1000, 0.5));
  Variable y = x.variable;
  for (int i = 0; i < 10; ++i) y = heddle::tanh(y);
  const Variable loss = sum(y);
  y = Variable();
  CHECK(device.meter().live()[Category::activations] == 11 * bytes + 8);
  device.meter().reset_peak();
  backward(loss);
  // Each step back frees one kept output and the gradient before: at most two gradients are live besides the ten
  // outputs.
  CHECK(device.meter().peak().total() <= 13 * bytes + 100);
  CHECK(device.meter().live().total() == 2 * bytes + 8);
}

TEST_CASE("Values that no gradient needs are not kept") {
  Device device = make_device();
  const Leaf x(device, std::vector<double>(1000, 0.5));
  const std::int64_t before = device.meter().live().total();
  Variable y = add(scale(x.variable, 2), x.variable);
  y = reshape(sum(y), {1});
  CHECK(device.meter().live().total() == before + 8);
  const Variable constant = tensor(device, {1000}, std::vector<double>(1000, 1));
  const Variable product = sum(multiply(scale(x.variable, 2), constant));
  CHECK(device.meter().live().total() == before + 8 + 8000 + 8);  // the constant, not the scaled x
}

TEST_CASE("Within NoGrad and from constants nothing is recorded") {
  Device device = make_device();
  const Leaf x(device, {1});
  {
    const NoGrad no_grad(device);
    CHECK_FALSE(exp(x.variable).leads().anywhere());
    { const NoGrad nested(device); }
    CHECK_FALSE(device.recorder().records());
  }
  CHECK(device.recorder().records());
  CHECK(exp(x.variable).leads().to_parameter);
  const Variable constant = exp(Variable(tensor(device, {1}, {1})));
  CHECK(constant.node() == nullptr);
  CHECK_THROWS_WITH_AS(backward(constant), "backward: f64[1] does not lead to a parameter or an input", InputError);
}

TEST_CASE("Edges know whether they lead to a parameter or to an input") {
  Device device = make_device();
  const Leaf weight(device, {1});
  const auto arrived = std::make_shared<Accumulator>(Category::activations);
  const Variable input = Variable::input(tensor(device, {1}, {3}), arrived);
  CHECK_FALSE(exp(input).leads().to_parameter);
  CHECK(exp(input).leads().to_input);
  const Variable both = multiply(weight.variable, input);
  CHECK(both.leads().to_parameter);
  CHECK(both.leads().to_input);
  backward(both);
  CHECK(weight.gradient() == std::vector<double>{3});
  CHECK(arrived->gradient().to_doubles() == std::vector<double>{1});
}

TEST_CASE("An operation receives which gradients are wanted, and may return more") {
  Device device = make_device();
  const Leaf x(device, {1});
  const Tensor value = tensor(device, {1}, {2});
  std::vector<bool> seen;
  const Variable y =
      record(value, {Variable(value), x.variable, Variable(value)}, [&](const Tensor& dy, Wanted wanted) {
        seen = {wanted[0], wanted[1], wanted[2]};
        return Gradients{dy, dy, dy};
      });
  backward(y);
  CHECK(seen == std::vector<bool>{false, true, false});
  CHECK(x.gradient() == std::vector<double>{1});
}

TEST_CASE("A graph may be traversed from several roots at once") {
  Device device = make_device();
  const Leaf x(device, {3});
  const Variable y = square(x.variable);
  const Variable z = scale(y, 10);
  backward({{y, tensor(device, {1}, {1})}, {z, tensor(device, {1}, {2})}});
  CHECK(x.gradient() == std::vector<double>{6 * 21});
}

TEST_CASE("A leaf is ready once its last reader was visited, before the backward pass continues to earlier nodes") {
  Device device = make_device();
  const Leaf first(device, {2});
  const Leaf twice(device, {3});
  const Leaf last(device, {5});
  std::vector<std::string> events;
  const auto on_ready = [&events](const Leaf& leaf, const std::string& name) {
    leaf.accumulator->when_ready([&events, name, accumulator = leaf.accumulator.get()] {
      events.push_back(name + " " + std::to_string(accumulator->gradient().item()));
    });
  };
  on_ready(first, "first");
  on_ready(twice, "twice");
  on_ready(last, "last");
  Variable y = multiply(first.variable, twice.variable);
  y = record(y.value(), {y}, [&events](const Tensor& dy, Wanted) {
    events.emplace_back("between");
    return Gradients{dy};
  });
  y = multiply(multiply(y, twice.variable), last.variable);
  CHECK(twice.accumulator->pending_readers() == 2);
  backward(y);
  CHECK(events == std::vector<std::string>{"last 18.000000", "between", "first 45.000000", "twice 60.000000"});
  CHECK(twice.accumulator->pending_readers() == 0);
}

TEST_CASE("A leaf is ready also if its last reader gives it no gradient") {
  Device device = make_device();
  const Leaf x(device, {2});
  int ready = 0;
  x.accumulator->when_ready([&ready] { ++ready; });
  const Variable y = square(x.variable);
  backward(record(y.value(), {x.variable, y}, [](const Tensor& dy, Wanted) { return Gradients{Tensor(), dy}; }));
  CHECK(ready == 1);
  CHECK(x.gradient() == std::vector<double>{4});
  backward(record(y.value(), {x.variable}, [](const Tensor&, Wanted) { return Gradients{}; }));
  CHECK(ready == 2);
}

TEST_CASE("Graphs that are dropped take their readers along and make nothing ready") {
  Device device = make_device();
  const Leaf x(device, {2});
  int ready = 0;
  x.accumulator->when_ready([&ready] { ++ready; });
  {
    Variable y = multiply(x.variable, x.variable);
    for (int i = 0; i < 3; ++i) y = scale(y, 2);
    const Variable z = scale(x.variable, 2);
    CHECK(x.accumulator->pending_readers() == 3);
    const NoGrad no_grad(device);
    const Variable unrecorded = scale(x.variable, 2);
    CHECK(x.accumulator->pending_readers() == 3);
  }
  CHECK(x.accumulator->pending_readers() == 0);
  CHECK(ready == 0);
  // Readers in another graph: only the last of all makes ready, and a branch without a gradient never does.
  const Variable one = scale(x.variable, 2);
  Variable unused = scale(x.variable, 3);
  backward(one);
  CHECK(ready == 0);
  unused = Variable();
  CHECK(ready == 0);
  CHECK(x.accumulator->pending_readers() == 0);
  backward(scale(x.variable, 4));
  CHECK(ready == 1);
  CHECK(x.gradient() == std::vector<double>{6});
}

TEST_CASE("A graph whose backward failed leaves no readers behind") {
  Device device = make_device();
  const Leaf x(device, {2});
  {
    const Variable y = scale(x.variable, 2);
    const Variable broken = record(y.value(), {y, x.variable},
                                   [](const Tensor&, Wanted) -> Gradients { throw std::runtime_error("broken"); });
    CHECK_THROWS_WITH(backward(broken), "broken");
    CHECK(x.accumulator->pending_readers() == 2);
  }
  CHECK(x.accumulator->pending_readers() == 0);
}

TEST_CASE("Gradients reach their leaves during the backward pass, and are not collected until its end") {
  Device device = make_device();
  constexpr std::int64_t bytes = 8 * 1000;
  std::vector<Leaf> leaves;
  for (int i = 0; i < 10; ++i) leaves.emplace_back(device, std::vector<double>(1000, 0.5));
  const auto loss = [&leaves] {
    Variable y = leaves[0].variable;
    for (std::size_t i = 1; i < leaves.size(); ++i) y = add(y, scale(leaves[i].variable, 2));
    return sum(y);
  };
  backward(loss());
  const std::int64_t held = device.meter().live().total();
  const Variable second = loss();
  device.meter().reset_peak();
  backward(second);
  CHECK(device.meter().live().total() == held + 8);
  CHECK(device.meter().peak().total() <= held + 4 * bytes);  // never all ten gradients of this pass at once
}

TEST_CASE("A collective is visited even if no gradient has reached it, in its order and with zeros") {
  Device device = make_device();
  const Leaf x(device, {1, 2});
  std::vector<std::string> order;
  const auto noted = [&](const char* name, Gradients gradients) {
    return [&order, name, gradients](const Tensor& dy, Wanted) {
      order.push_back(fmt::format("{} {}", name, fmt::join(dy.to_doubles(), ",")));
      return gradients;
    };
  };
  const Tensor value = x.variable.value();
  const Variable collective = record_collective(value, {x.variable}, noted("collective", {value}));
  const Variable between = record(value, {collective}, noted("between", {}));
  const Variable other = record(value, {x.variable}, noted("other", {}));
  const Variable last = record(value, {between, other}, noted("last", {Tensor(), value}));
  backward({{last, value}});
  CHECK(order == std::vector<std::string>{"last 1,2", "other 1,2", "collective 0,0"});
  CHECK(x.gradient() == std::vector<double>{1, 2});
  // A node that was visited is not visited again.
  const Variable reader = record(value, {last, x.variable}, noted("reader", {}));
  backward({{reader, value}});
  CHECK(order.back() == "reader 1,2");
}

TEST_CASE("A collective 200,000 nodes deep is found without recursion") {
  Device device = make_device();
  const Leaf x(device, {1});
  Variable y =
      record_collective(x.variable.value(), {x.variable}, [](const Tensor& dy, Wanted) { return Gradients{dy}; });
  for (int i = 0; i < 200000; ++i) y = scale(y, 1);
  backward(y);
  CHECK(x.gradient() == std::vector<double>{1});
}

TEST_CASE("Roots of a wrong shape are refused") {
  Device device = make_device();
  const Leaf x(device, {1, 2});
  const Variable y = exp(x.variable);
  CHECK_THROWS_WITH_AS(backward(y), "backward: expected a loss of one element, got f64[2]", InputError);
  CHECK_THROWS_WITH_AS(backward({{y, tensor(device, {1}, {1})}}), "backward: expected a gradient f64[2], got f64[1]",
                       InputError);
}

}  // namespace
}  // namespace heddle::test::autograd_test
