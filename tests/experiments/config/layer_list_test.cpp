// Models that an experiment writes out layer by layer.
#include "models/layer_list.h"

#include <deque>

#include <doctest/doctest.h>

#include "experiments/config/study.h"
#include "parallel/world.h"
#include "tests/support/layouts.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

namespace heddle::test::layer_list_test {

namespace {

std::shared_ptr<const RunPlan> plan_of(const Experiment& experiment, const Dataset& dataset, const Mesh& mesh) {
  return plan_run(experiment, std::make_shared<ModelSpec>(make_model(experiment.model, dataset.image())), mesh);
}

/// The experiment of a text with such a model, on 8 x 8 images in colour.
Experiment read_layers(const std::string& layers, const std::string& placements = "[]") {
  const std::string text = fmt::format(
      R"({{"name": "written", "head": {{"classes": 10}},
           "data": {{"type": "synthetic_identities", "identities": 10, "image": [3, 8, 8]}},
           "model": {{"type": "layers", "layers": {}, "placements": {}}}}})",
      layers, placements);
  std::deque<Experiment> roots;
  (void)read_experiment_text(text, "x.json", {}, [&roots]() -> Describer::Body {
    Experiment& root = roots.emplace_back();
    return [&root](Describer& d) { describe(d, root); };
  });
  return roots.back();
}

ModelSpec model_of(const std::string& layers, const std::string& placements = "[]") {
  const Experiment experiment = read_layers(layers, placements);
  return make_model(experiment.model, image_shape(experiment.data));
}

std::string error_of(const std::string& layers, const std::string& placements = "[]") {
  return message_of<InputError>([&] { (void)model_of(layers, placements); });
}

constexpr const char* residual = R"([
  {"type": "conv2d", "out": 8, "name": "stem"},
  {"type": "batch_norm", "activation": "prelu", "name": "norm"},
  {"type": "conv2d", "out": 8, "groups": 4},
  {"type": "batch_norm", "inputs": ["conv2d_2", "norm"], "activation": "relu"},
  {"type": "max_pool"},
  {"type": "conv2d", "out": 12, "stride": 2, "bias": true},
  {"type": "gelu", "name": "a"},
  {"type": "conv2d", "out": 12, "kernel": 1, "padding": 0, "inputs": ["a"]},
  {"type": "add", "inputs": ["conv2d_7", "a"]},
  {"type": "prelu"}, {"type": "average_pool", "kernel": 3, "stride": 1, "padding": 1},
  {"type": "dropout", "probability": 0.25}, {"type": "flatten"},
  {"type": "linear", "out": 16}, {"type": "layer_norm"}, {"type": "tanh"}, {"type": "sigmoid"},
  {"type": "linear", "out": 6, "bias": false, "name": "fc"}])";

}  // namespace

TEST_CASE("a layer names its pipeline stage") {
  const ModelSpec model = model_of(R"([{"type": "flatten", "stage": 0}, {"type": "linear", "out": 8},
                                              {"type": "linear", "out": 8, "stage": 1}])");
  CHECK(model.applications()[0].stage == 0);
  CHECK_FALSE(model.applications()[1].stage.has_value());
  CHECK(model.applications()[2].stage == 1);
}

TEST_CASE("a model written out has the layers, sizes and inputs that its file names") {
  const ModelSpec model = model_of(residual);
  const auto& layers = model.applications();
  REQUIRE(layers.size() == 18);
  CHECK(layers[2].name == "conv2d_2");
  CHECK(layers[3].inputs == std::vector<int>{3, 2});
  CHECK(layers[8].inputs == std::vector<int>{8, 7});
  CHECK(layers[2].layer->parameters() == std::vector<Shape>{{8, 3, 3, 2}});
  CHECK(layers[5].layer->parameters() == std::vector<Shape>{{12, 3, 3, 8}, {12}});
  CHECK(layers[17].layer->parameters() == std::vector<Shape>{{6, 16}});
  CHECK(model.sample(model.last_value()) == Shape{6});
  for (const auto& layer : layers) CHECK_FALSE(layer.request.has_value());
}

TEST_CASE("a model written out trains alike on one rank and on several, each of its layers with its own placement") {
  const std::string placements =
      R"([{"layers": "conv2d_2", "parallel": "group"}, {"layers": "conv2d_5", "parallel": "row"},
      {"layers": "linear_13", "parallel": "column"}, {"layers": "fc", "parallel": "parameter"}])";
  const auto model = std::make_shared<ModelSpec>(model_of(residual, placements));
  test::check_against_reference(test::small_experiment(10, 8, 6, DType::f64), model, {.mesh = Mesh(1, 1, 2)});
  test::check_against_reference(test::small_experiment(10, 8, 6, DType::f64), model, {.mesh = Mesh(2, 1, 2)});
}

TEST_CASE("a layer's placement is given with the layer or by a pattern, which takes precedence") {
  const std::string layers = R"([{"type": "flatten"}, {"type": "linear", "out": 8, "parallel": "column", "over": "dp"},
                                 {"type": "linear", "out": 8, "parallel": "row"}])";
  ModelSpec model = model_of(layers);
  CHECK_FALSE(model.applications()[0].request.has_value());
  CHECK(model.applications()[1].request->kind == Parallel::column);
  CHECK(model.applications()[1].request->over == Axis::dp);
  CHECK(model.applications()[2].request->kind == Parallel::row);
  CHECK_FALSE(model.applications()[2].request->over.has_value());
  model = model_of(layers, R"([{"layers": "linear_*", "parallel": "data"}])");
  CHECK(model.applications()[1].request->kind == Parallel::data);
  CHECK(model.applications()[2].request->kind == Parallel::data);
}

TEST_CASE("an invalid written-out model is refused with the layer, the given and the expected value") {
  const std::string stem = R"({"type": "conv2d", "out": 4, "name": "stem"}, )";
  CHECK(error_of("[" + stem + R"({"type": "add", "name": "sum", "inputs": ["strem", "input"]}])") ==
        "model: sum: no layer before it is called \"strem\"; did you mean \"stem\"?");
  CHECK(error_of(R"([{"type": "relu", "inputs": ["conv2d_1"]}, {"type": "conv2d", "out": 4}])") ==
        "model: relu_0: no layer before it is called \"conv2d_1\"");
  CHECK(error_of("[" + stem + R"({"type": "relu"}, {"type": "relu", "name": "stem"}])") ==
        "model: layers 0 and 2 are both called \"stem\"");
  CHECK(error_of(R"([{"type": "relu", "name": "input"}])") ==
        "model: layer 0 is called \"input\", which is the image's name");
  CHECK(error_of(R"([{"type": "relu", "name": "a*"}])") ==
        "model: layer 0: the name \"a*\" has a *, which stands for any text in model.placements");
  CHECK(error_of("[" + stem + R"({"type": "linear", "out": 4, "name": "fc"}])") ==
        "model: fc: linear: expected vectors [n,d] or tokens [n,t,d], got [n,8,8,4]: put a flatten before it");
  CHECK(error_of(R"([{"type": "flatten"}, {"type": "conv2d", "out": 4}])") ==
        "model: conv2d_1: conv2d: expected images [n,height,width,channels], got [n,192]");
  CHECK(error_of(R"([{"type": "conv2d", "out": 4, "kernel": 9, "padding": 0, "stride": 2}, {"type": "flatten"}])") ==
        "model: conv2d_0: conv2d: a kernel of 9 does not fit into [1,8,8,3] with padding 0");
  CHECK(error_of(R"([{"type": "flatten"}, {"type": "max_pool"}])") ==
        "model: max_pool_1: max_pool: expected images [n,height,width,channels], got [n,192]");
  CHECK(error_of("[" + stem + R"({"type": "add", "inputs": ["stem", "input"]}])") ==
        "model: add_1: add: expected inputs of one shape, got [1,8,8,4] and [1,8,8,3]");
  CHECK(error_of("[" + stem + R"({"type": "add"}])") == "model: add_1: add: expected 2 inputs, got 1");
  CHECK(error_of("[" + stem + R"({"type": "batch_norm", "inputs": ["stem", "input"]}])") ==
        "model: batch_norm_1: batch_norm: expected a residual like [1,8,8,4], got [1,8,8,3]");
  CHECK(error_of(R"([{"type": "conv2d", "out": 4, "groups": 2}])") ==
        "model: conv2d_0: conv2d: expected channels that 2 groups divide, got 3 in and 4 out");
  CHECK(error_of("[" + stem + R"({"type": "relu"}])") ==
        "model: expected its last layer to give an embedding [n,d], \"relu_1\" gives [n,8,8,4]: append a flatten or a "
        "global_average_pool");
  CHECK(error_of(R"([{"type": "flaten"}])").find("did you mean \"flatten\"?") != std::string::npos);
  CHECK(error_of(R"([{"type": "relu", "probability": 0.1}])")
            .find(R"(unknown key for type "relu"; it belongs to type "dropout" or "drop_path")") != std::string::npos);
  CHECK(error_of("[]").find("/model/layers: expected a list of 1 to 100000 objects, got an empty list") !=
        std::string::npos);
  CHECK(error_of(R"([{"type": "linear"}])").find("/model/layers/0/out: expected an integer") != std::string::npos);
  CHECK(error_of("[" + stem + R"({"type": "flatten", "inputs": ["input"]}])") ==
        "model: stem: nothing reads its output; only the last layer's goes to the head");
  CHECK(error_of("[" + stem + R"({"type": "flatten"}])", R"([{"layers": "fc", "parallel": "parameter"}])") ==
        "model: no layer's name matches \"fc\"");
}

TEST_CASE("names that a checkpoint could not distinguish are refused before training") {
  Experiment experiment = read_layers(R"([{"type": "flatten"}, {"type": "linear", "name": "head", "out": 7}])");
  experiment.train.batch = 4;
  const auto dataset = make_dataset(experiment.data, {1});
  const auto plan = plan_of(experiment, *dataset, Mesh());
  CHECK_THROWS_WITH_AS(run_ranks(test::ranks(1),
                                 [&](Rank& rank) {
                                   Tracer tracer(rank.clock, rank.device);
                                   const Trainer trainer(experiment, *dataset, rank, tracer, plan);
                                 }),
                       "model: two parameters or statistics have the name head.weight: give the layers different names",
                       InputError);
}

TEST_CASE("with a backbone without parameters, only the head is trained") {
  Experiment experiment = read_layers(R"([{"type": "flatten"}])");
  experiment.train.batch = 4;
  const auto dataset = make_dataset(experiment.data, {1});
  const auto plan = plan_of(experiment, *dataset, Mesh(2));
  run_ranks(test::ranks(2), [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, *dataset, rank, tracer, plan);
    CHECK(trainer.compute_gradients(0).value() > 0);
    (void)trainer.apply_gradients(0);
  });
}

TEST_CASE("the embedding of a model written out is the output of its last layer") {
  Experiment experiment = read_layers(R"([{"type": "flatten"}, {"type": "linear", "out": 7}])");
  CHECK(experiment.model.embedding == ModelConfig{}.embedding);
  experiment.train.batch = 4;
  const auto dataset = make_dataset(experiment.data, {1});
  const auto plan = plan_of(experiment, *dataset, Mesh());
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, *dataset, rank, tracer, plan);
    CHECK(trainer.head_state().front().value.shape() == Shape{10, 7});
  });
}

}  // namespace heddle::test::layer_list_test
