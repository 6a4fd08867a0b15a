// Models cut into stages: the values that cross a cut, and stages that together give the bits of the whole model.
#include "layers/stages/stage_cut.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include <doctest/doctest.h>

#include "layers/model.h"
#include "layers/modules/activation.h"
#include "layers/planner/planner.h"
#include "layers/stages/segments.h"
#include "tests/support/devices.h"
#include "tests/support/random_model.h"
#include "tests/support/ranks.h"

namespace heddle::test::stage_cut_test {

namespace {

using test::ModelPointer;
using PlanPointer = std::shared_ptr<const ModelPlacement>;

constexpr std::int64_t batch = 10;
constexpr std::int64_t micro_batches = 3;

PlanPointer plan_on(const Mesh& mesh, const ModelSpec& model) {
  return std::make_shared<ModelPlacement>(place(model, {.mesh = mesh, .samples = batch / micro_batches}));
}

/// The rank's part of a micro-batch's images.
Tensor images_of(Rank& rank, const ModelSpec& model, const ModelPlacement& plan, const IndexRange& samples) {
  const Tensor all = test::tensor(rank.device, model.shape(0, batch),
                                  test::normal_values(model.shape(0, batch).numel(), 7), DType::f32);
  const IndexRange rows = local_box({samples.size}, plan.input, rank.mesh, rank.coordinates)[0];
  return all.rows(samples.begin + rows.begin, samples.begin + rows.end());
}

struct StepOutcome {
  std::vector<std::vector<double>> results;            // of each micro-batch
  std::map<std::string, std::vector<double>> tensors;  // gradients and running statistics
  bool operator==(const StepOutcome&) const = default;
};

/// How the stages of a run are visited.
struct Visit {
  std::vector<std::int64_t> order{0, 1, 2};  // the order of the micro-batches
  bool recomputes = false;
  bool has_segments = false;
};

/// One stage's pass over a micro-batch: leaves for the inputs whose gradients are wanted, and the outputs.
struct Traversal {
  std::vector<Variable> inputs{};
  std::vector<std::shared_ptr<Accumulator>> gradients{};  // one per input; null: not wanted
  std::vector<Variable> outputs{};
};

Traversal traverse(Model& stage, const std::vector<Tensor>& given, const Pass& pass) {
  Traversal traversal;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool wanted = stage.input_has_gradient(i);
    traversal.gradients.push_back(wanted ? std::make_shared<Accumulator>(Category::activations) : nullptr);
    traversal.inputs.push_back(wanted ? Variable::input(given[i], traversal.gradients.back()) : Variable(given[i]));
  }
  traversal.outputs = stage.forward(traversal.inputs, pass);
  return traversal;
}

std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.value());
  return values;
}

/// Runs the backward of a stage from the gradients of its outputs, which are undefined if none is wanted.
void walk(Model& stage, Traversal& traversal, const std::vector<Tensor>& gradients) {
  std::vector<Root> roots;
  for (std::size_t i = 0; i < stage.outputs(); ++i)
    if (stage.output_has_gradient(i)) roots.push_back({traversal.outputs[i], gradients[i]});
  if (!roots.empty()) backward(std::move(roots));
}

std::vector<Tensor> gradients_of(const Traversal& traversal) {
  std::vector<Tensor> gradients;
  for (const auto& gradient : traversal.gradients) gradients.push_back(gradient ? gradient->gradient() : Tensor());
  return gradients;
}

std::vector<Model> build_stages(Rank& rank, const ModelPointer& model, const PlanPointer& plan,
                                std::vector<int> begins) {
  const Construction construction{rank.device, {3}};
  std::vector<Model> stages;
  begins.push_back(model->last_value());
  for (std::size_t s = 0; s + 1 < begins.size(); ++s)
    stages.emplace_back(model, plan, rank.coordinates, construction, IndexRange{begins[s], begins[s + 1] - begins[s]});
  return stages;
}

/// A step with the loss half the squared norm of the result, whose gradient is the result.
StepOutcome run_stages(Rank& rank, const ModelPointer& model, const PlanPointer& plan, const std::vector<int>& begins,
                       const Visit& visit = {}) {
  std::vector<Model> stages = build_stages(rank, model, plan, begins);
  const StageCut cut{begins, model->last_value()};
  for (int s = 0; visit.has_segments && s < cut.stages(); ++s)
    stages[static_cast<std::size_t>(s)].set_segments(sqrt_segments(cut.stage(s)));
  StepOutcome outcome;
  outcome.results.resize(micro_batches);
  for (const std::int64_t index : visit.order) {
    Pass pass{.rank = rank, .training = true, .step = 5, .samples = shard(batch, micro_batches, index)};
    std::vector<Tensor> values{images_of(rank, *model, *plan, pass.samples)};
    std::vector<Traversal> traversals;
    for (Model& stage : stages) {
      if (visit.recomputes) {
        const NoGrad no_grad(rank.device);
        pass.recomputing = false;
        (void)traverse(stage, values, pass);
        pass.recomputing = true;
      }
      traversals.push_back(traverse(stage, values, pass));
      values = values_of(traversals.back().outputs);
    }
    outcome.results[static_cast<std::size_t>(index)] = values[0].to_doubles();
    std::vector<Tensor> gradients{values[0].clone()};
    for (std::size_t s = stages.size(); s-- > 0;) {
      walk(stages[s], traversals[s], gradients);
      gradients = gradients_of(traversals[s]);
    }
  }
  for (Model& stage : stages) {
    stage.end_step(rank);
    for (const Parameter* parameter : stage.parameters())
      if (parameter->trainable) outcome.tensors[parameter->name] = parameter->gradient->gradient().to_doubles();
    for (const Buffer* buffer : stage.buffers()) outcome.tensors[buffer->name] = buffer->value.to_doubles();
  }
  return outcome;
}

/// Begins of 1 .. n stages.
std::vector<int> random_cut(RandomStream& draws, const ModelSpec& model) {
  std::set<int> begins{0};
  for (std::uint64_t i = draws.below(7); i > 0; --i)
    begins.insert(static_cast<int>(draws.below(static_cast<std::uint64_t>(model.last_value()))));
  return {begins.begin(), begins.end()};
}

std::vector<int> every_layer(const ModelSpec& model) {
  std::vector<int> begins;
  for (int i = 0; i < model.last_value(); ++i) begins.push_back(i);
  return begins;
}

void check_cuts(const Mesh& mesh, std::uint64_t seed, std::int64_t cases) {
  WorldOptions options{.mesh = mesh};
  options.backend_options.threads = 1;
  RandomStream draws({seed}, Purpose::test, 0, 0);
  for (std::int64_t i = 0; i < cases; ++i) {
    const ModelPointer model = test::random_model(draws, {.with_norms = draws.below(2) == 0}, mesh);
    const PlanPointer plan = plan_on(mesh, *model);
    const std::vector<int> begins = i == 0 ? every_layer(*model) : random_cut(draws, *model);
    CAPTURE(i);
    CAPTURE(begins.size());
    run_ranks(options, [&](Rank& rank) {
      const StepOutcome whole = run_stages(rank, model, plan, {0});
      const StepOutcome cut = run_stages(rank, model, plan, begins);
      const StepOutcome recomputed = run_stages(rank, model, plan, begins, {.recomputes = true});
      const StepOutcome segmented = run_stages(rank, model, plan, begins, {.has_segments = true});
      const StepOutcome both = run_stages(rank, model, plan, {0}, {.recomputes = true, .has_segments = true});
      CHECK(whole.tensors.size() > 0);
      CHECK(cut == whole);
      CHECK(recomputed == whole);
      CHECK(segmented == whole);
      CHECK(both == whole);
    });
  }
}

/// x -> a -> b -> c -> (c + a) -> (.. + a): a's value is read three and four layers later.
ModelPointer long_skips() {
  ModelSpec model({4});
  const auto linear = [](std::int64_t in) { return Linear::spec({.in = in, .out = 6}); };
  const int a = model.then("a", linear(4));
  model.then("b", linear(6));
  model.then("c", Activation::spec(ActivationKind::gelu));
  const int sum = model.apply("sum", Add::spec(), {model.last_value(), a});
  model.apply("again", Add::spec(), {sum, a});
  return std::make_shared<ModelSpec>(std::move(model));
}

/// The values that cross a cut, by their names.
std::vector<std::string> crossing_names(const ModelSpec& model, const ValueForms& forms, int position) {
  std::vector<std::string> names;
  for (const std::size_t form : forms.crossing(position)) {
    const int value = forms.all()[form].value;
    names.push_back(value == 0 ? "x" : model.applications()[static_cast<std::size_t>(value) - 1].name);
  }
  return names;
}

}  // namespace

TEST_CASE("the values that cross a cut are made before it and read after it") {
  const ModelPointer model = long_skips();
  const PlanPointer plan = plan_on(Mesh(), *model);
  const ValueForms forms(*model, *plan);
  const std::vector<std::vector<std::string>> expected{{"x"}, {"a"}, {"a", "b"}, {"a", "c"}, {"a", "sum"}, {"again"}};
  for (int position = 0; position <= model->last_value(); ++position)
    CHECK(crossing_names(*model, forms, position) == expected[static_cast<std::size_t>(position)]);
  // Two values of 6 numbers per sample, for 5 samples.
  const CrossingBytes bytes = crossing_bytes(*model, *plan, forms, 2, 5, DType::f32);
  CHECK(bytes.forward == 2 * 6 * 5 * 4);
  CHECK(bytes.backward == bytes.forward);
  CHECK(crossing_bytes(*model, *plan, forms, 0, 5, DType::f32).backward == 0);
}

TEST_CASE("images that pass through a stage are given no gradient") {
  ModelSpec model({4});
  model.then("a", Linear::spec({.in = 4, .out = 4}));
  model.apply("sum", Add::spec(), {model.last_value(), 0});
  const auto description = std::make_shared<ModelSpec>(std::move(model));
  const PlanPointer plan = plan_on(Mesh(), *description);
  run_ranks({.backend_options = {.threads = 1}}, [&](Rank& rank) {
    const std::vector<Model> stages = build_stages(rank, description, plan, {0, 1});
    REQUIRE(stages[1].inputs() == 2);
    CHECK_FALSE(stages[1].input_has_gradient(0));
    CHECK(stages[1].input_has_gradient(1));
    CHECK(crossing_bytes(*description, *plan, ValueForms(*description, *plan), 1, 2, DType::f32).backward == 2 * 4 * 4);
    CHECK(run_stages(rank, description, plan, {0, 1}) == run_stages(rank, description, plan, {0}));
  });
}

TEST_CASE("skip connections over several cuts give the uncut model's bits") {
  const ModelPointer model = long_skips();
  run_ranks({.backend_options = {.threads = 1}}, [&](Rank& rank) {
    const PlanPointer plan = plan_on(Mesh(), *model);
    CHECK(run_stages(rank, model, plan, every_layer(*model)) == run_stages(rank, model, plan, {0}));
  });
}

TEST_CASE("random models cut into random stages give the uncut model's bits, recomputed whole, by segments, or not") {
  check_cuts(Mesh(), 1, 12);
}

TEST_CASE("cuts between layers placed over tp and dp change no bits") {
  check_cuts(Mesh(1, 1, 2), 2, 8);
  check_cuts(Mesh(2, 1, 2), 3, 3);
}

TEST_CASE("running statistics do not depend on the order in which micro-batches are visited") {
  RandomStream draws({4}, Purpose::test, 0, 0);
  const ModelPointer model = test::random_model(draws, {.with_norms = true}, Mesh());
  run_ranks({.backend_options = {.threads = 1}}, [&](Rank& rank) {
    const PlanPointer plan = plan_on(Mesh(), *model);
    const StepOutcome in_order = run_stages(rank, model, plan, {0});
    const StepOutcome turned = run_stages(rank, model, plan, {0}, {.order = {2, 0, 1}});
    int statistics = 0;
    for (const auto& [name, values] : in_order.tensors)
      if (name.find(".running_") != std::string::npos) {
        ++statistics;
        CHECK(turned.tensors.at(name) == values);
      }
    CHECK(statistics > 0);
  });
}

TEST_CASE("along pp nothing is shared: the plan is that of one stage's ranks, parts lie with their stage alone") {
  RandomStream draws({5}, Purpose::test, 0, 0);
  const Mesh stage(2, 1, 2);
  const Mesh pipeline(2, 3, 2);
  for (int i = 0; i < 20; ++i) {
    const ModelPointer model = test::random_model(draws, {.with_norms = i % 2 == 0}, stage);
    const PlanPointer alone = plan_on(stage, *model);
    const PlanPointer piped = plan_on(pipeline, *model);
    CHECK(piped->input == alone->input);
    CHECK(piped->output == alone->output);
    for (int value = 0; value <= model->last_value(); ++value) CHECK(piped->made(value) == alone->made(value));
    for (std::size_t l = 0; l < model->applications().size(); ++l) {
      const LayerLayout layout = piped->layout(*model, l, {1, 2, 1});
      const LayerLayout expected = alone->layout(*model, l, {1, 0, 1});
      const std::vector<Shape> shapes = model->applications()[l].layer->parameters();
      for (std::size_t p = 0; p < shapes.size(); ++p) {
        const ParameterPart part = layout.part(p, shapes[p]);
        ParameterPart other = expected.part(p, shapes[p]);
        CHECK(part.box == other.box);
        CHECK(part.partial == other.partial);
        other.sharded.insert(Axis::pp);
        CHECK(part.sharded == other.sharded);
      }
    }
  }
}

TEST_CASE("values move between placements without a detour over stages") {
  const Placements from{{Placement::replicate_partial(), {}, Placement::shard(1)}};
  const Placements to{{Placement::shard(0), {}, Placement::shard(0)}};
  CHECK(redistribution_steps(from, to, Mesh(2, 4, 2)) == redistribution_steps(from, to, Mesh(2, 1, 2)));
}

TEST_CASE("a thousand stages of one rank each are planned like one rank") {
  const ModelPointer model = long_skips();
  const PlanPointer plan = plan_on(Mesh(1, 1024, 1), *model);
  CHECK(plan->made(1) == Placements{});
  CHECK(plan->output == Placements{});
}

TEST_CASE("stages on the ranks of a mesh with pp pass on their parts and give the bits of one stage's ranks") {
  RandomStream draws({6}, Purpose::test, 0, 0);
  const Mesh mesh(1, 2, 2);
  const ModelPointer model = test::random_model(draws, {.with_norms = true}, mesh);
  const std::vector<int> begins{0, model->last_value() / 2};
  std::map<int, StepOutcome> whole;  // keyed by the coordinate along tp
  std::mutex mutex;
  WorldOptions options{.mesh = Mesh(1, 1, 2)};
  options.backend_options.threads = 1;
  run_ranks(options, [&](Rank& rank) {
    const StepOutcome outcome = run_stages(rank, model, plan_on(rank.mesh, *model), begins);
    const std::lock_guard lock(mutex);
    whole[rank.coordinates.tp] = outcome;
  });
  options.mesh = mesh;
  run_ranks(options, [&](Rank& rank) {
    const PlanPointer plan = plan_on(rank.mesh, *model);
    std::vector<Model> stages = build_stages(rank, model, plan, begins);
    Model& stage = stages[static_cast<std::size_t>(rank.coordinates.pp)];
    Communicator& pipeline = rank.along(Axis::pp);
    const bool is_first = rank.coordinates.pp == 0;
    for (std::int64_t index = 0; index < micro_batches; ++index) {
      const Pass pass{.rank = rank, .training = true, .step = 5, .samples = shard(batch, micro_batches, index)};
      std::vector<Tensor> given{images_of(rank, *model, *plan, pass.samples)};
      if (!is_first) {
        given.clear();
        for (std::size_t i = 0; i < stage.inputs(); ++i) given.push_back(pipeline.recv(0).wait());
      }
      Traversal traversal = traverse(stage, given, pass);
      std::vector<Tensor> gradients;
      for (std::size_t i = 0; is_first && i < stage.outputs(); ++i)
        pipeline.send(traversal.outputs[i].value(), 1).wait();
      for (std::size_t i = 0; is_first && i < stage.outputs(); ++i)
        gradients.push_back(stage.output_has_gradient(i) ? pipeline.recv(1).wait() : Tensor());
      if (!is_first) gradients = {traversal.outputs[0].value().clone()};
      walk(stage, traversal, gradients);
      for (const Tensor& gradient : gradients_of(traversal))
        if (gradient.defined() && !is_first) pipeline.send(gradient, 0).wait();
    }
    stage.end_step(rank);
    const std::lock_guard lock(mutex);
    const StepOutcome& expected = whole.at(rank.coordinates.tp);
    for (const Parameter* parameter : stage.parameters())
      CHECK(parameter->gradient->gradient().to_doubles() == expected.tensors.at(parameter->name));
    for (const Buffer* buffer : stage.buffers()) CHECK(buffer->value.to_doubles() == expected.tensors.at(buffer->name));
  });
}

}  // namespace heddle::test::stage_cut_test
