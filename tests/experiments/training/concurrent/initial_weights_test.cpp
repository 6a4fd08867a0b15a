// Trainings that start from a file of weights.
#include "experiments/training/checkpoints/initial_weights.h"

#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include "framework/tensors/host_elements.h"
#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::initial_weights_test {

using namespace checkpoint_ways;

namespace {

using Bytes = std::vector<std::byte>;
using File = std::map<std::string, std::pair<SafetensorsEntry, Bytes>>;

/// A network's tensors in PyTorch's layout and in this type.
File file_of(const ModelSpec& model, const test::Tensors& state, DType dtype) {
  File file;
  const InferenceGraph graph(model);
  for (const InferenceTensor& tensor : graph.tensors()) {
    const std::vector<double>& ours = state.at(tensor.name);
    std::vector<double> torch(ours.size());
    tensor.for_each_element(ours.size(), [&](std::size_t i, std::size_t in_torch) { torch[in_torch] = ours[i]; });
    file[tensor.name] = {{tensor.name, dtype, tensor.shape},
                         converted(std::as_bytes(std::span(torch)), DType::f64, dtype)};
  }
  const std::int64_t steps = 7;
  const auto bytes = std::as_bytes(std::span(&steps, 1));
  file["bn1.num_batches_tracked"] = {{"bn1.num_batches_tracked", DType::i64, Shape{}}, {bytes.begin(), bytes.end()}};
  return file;
}

std::filesystem::path written(const File& file, const std::filesystem::path& path) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : file) entries.push_back(tensor.first);
  SafetensorsWriter writer(path, entries);
  for (const auto& [name, tensor] : file) writer.write(tensor.second);
  writer.commit();
  return path;
}

/// The state of a run that has loaded the weights and has taken no step.
test::Tensors started(const Way& way, const Experiment& experiment, const InitialWeights& weights) {
  return run(way, experiment, {.before = [&](Trainer& trainer) { weights.load(trainer); }}).state;
}

}  // namespace

TEST_CASE("every layout starts from a file with the same bits of weights and statistics, and draws its head") {
  const Way serial = ways().front();
  const test::Outcome trained = run(serial, experiment_of(serial), {.end = 2});
  const test::Outcome drawn = run(serial, experiment_of(serial), {});
  const Scratch scratch;
  const auto model = network(serial);
  const InitialWeights weights(*model, written(file_of(*model, trained.state, DType::f32), scratch / "a.safetensors"),
                               true);
  for (const Way& way : ways()) {
    CAPTURE(to_string(way.layout.mesh));
    for (const auto& [name, values] : started(way, experiment_of(way), weights)) {
      CAPTURE(name);
      const bool is_loaded = name.find("head.") == std::string::npos && name.find("velocity.") == std::string::npos;
      CHECK(values == (is_loaded ? trained : drawn).state.at(name));
    }
  }
  CHECK(weights.report() == fmt::format("model.weights: 13 of the model's 13 tensors are loaded from {}",
                                        (scratch / "a.safetensors").string()));
}

TEST_CASE("averages of weights begin as the weights that were loaded") {
  const Way serial = ways().front();
  const test::Tensors trained = run(serial, experiment_of(serial), {.end = 2}).state;
  const Scratch scratch;
  const auto model = network(serial);
  const InitialWeights weights(*model, written(file_of(*model, trained, DType::f32), scratch / "a.safetensors"), true);
  for (const Way& way : ways()) {
    CAPTURE(to_string(way.layout.mesh));
    Experiment experiment = experiment_of(way);
    experiment.train.averages_weights = true;
    const test::Tensors state = started(way, experiment, weights);
    const InferenceGraph graph(*model);
    for (const InferenceTensor& tensor : graph.tensors())
      CHECK(state.at("ema." + tensor.name) == trained.at(tensor.name));
  }
}

TEST_CASE("files of f16, bf16 and f64 are converted, and a model of f64 keeps all bits") {
  const Way way{{Mesh(2), 2}};
  const test::Tensors trained = run(way, experiment_of(way, OptimizerType::sgd, DType::f64), {.end = 2}).state;
  const Scratch scratch;
  const auto model = network(way);
  for (const DType stored : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const DType type : {DType::f32, DType::f64}) {
      CAPTURE(name_of(stored));
      CAPTURE(name_of(type));
      const InitialWeights weights(*model, written(file_of(*model, trained, stored), scratch / "a.safetensors"), true);
      const test::Tensors loaded = started(way, experiment_of(way, OptimizerType::sgd, type), weights);
      const InferenceGraph graph(*model);
      for (const InferenceTensor& tensor : graph.tensors()) {
        const std::vector<double>& expected = trained.at(tensor.name);
        const Bytes in_file = converted(std::as_bytes(std::span(expected)), DType::f64, stored);
        const Bytes rounded = converted(converted(in_file, stored, type), type, DType::f64);
        std::vector<double> values(expected.size());
        std::memcpy(values.data(), rounded.data(), rounded.size());
        CHECK(loaded.at(tensor.name) == values);
      }
    }
}

TEST_CASE("what does not fit is shown as a table, and is drawn if the file is not strict") {
  const Way way{{Mesh(2), 2}};
  const auto model = network(way);
  const Scratch scratch;
  File file = file_of(*model, run(way, experiment_of(way), {.end = 1}).state, DType::f32);
  const std::filesystem::path path = scratch / "a.safetensors";
  file.erase("bn2.running_var");
  file["fc.weight"].first.shape = Shape{80, 6};
  file["classifier.weight"] = {{"classifier.weight", DType::f32, Shape{1}}, Bytes(4)};
  file["fc.bias"] = {{"fc.bias", DType::i64, Shape{6}}, Bytes(48)};
  const std::string table =
      "  tensor             model   file\n"
      "  bn2.running_var    [5]     -       not in the file\n"
      "  fc.weight          [6,80]  [80,6]  other shape\n"
      "  fc.bias            [6]     i64[6]  no floating-point type\n"
      "  classifier.weight  -       [1]     not in the model";
  CHECK(message_of<InputError>([&] { InitialWeights(*model, written(file, path), true); }) ==
        fmt::format("model.weights: {} has other tensors than the model (model.weights_strict = false loads the 10 "
                    "tensors that fit, and draws the others)\n{}",
                    path.string(), table));
  const InitialWeights weights(*model, path, false);
  CHECK(weights.report() ==
        fmt::format("model.weights: 10 of the model's 13 tensors are loaded from {}; these are not:\n{}", path.string(),
                    table));
  const test::Tensors drawn = run(way, experiment_of(way), {}).state;
  const test::Tensors loaded = started(way, experiment_of(way), weights);
  for (const char* name : {"bn2.running_var", "fc.weight", "fc.bias"}) CHECK(loaded.at(name) == drawn.at(name));
  CHECK(loaded.at("conv1.weight") != drawn.at("conv1.weight"));

  const File other{{"x", {{"x", DType::f32, Shape{1}}, Bytes(4)}}};
  for (const bool is_strict : {true, false})
    CHECK(message_of<InputError>([&] {
            InitialWeights(*model, written(other, path), is_strict);
          }).starts_with(fmt::format("model.weights: no tensor of {} fits the model\n  tensor", path.string())));
}

TEST_CASE("an element that is not finite, in the file or in the type of the model, is an error that names the tensor") {
  const Way way{{Mesh(1, 1, 2), 2}, {{"fc", {Parallel::row, Axis::tp}}}};
  const auto model = network(way);
  const Scratch scratch;
  const std::filesystem::path path = scratch / "a.safetensors";
  const test::Tensors trained = run(way, experiment_of(way), {}).state;
  const auto error_of = [&](double value) {
    test::Tensors broken = trained;
    broken.at("fc.weight")[17] = value;
    const InitialWeights weights(*model, written(file_of(*model, broken, DType::f64), path), true);
    return message_of<InputError>([&] { (void)started(way, experiment_of(way), weights); });
  };
  CHECK(error_of(std::numeric_limits<double>::quiet_NaN()) ==
        fmt::format("model.weights: {}: tensor fc.weight has an element that is nan in f32", path.string()));
  CHECK(error_of(1e300) ==
        fmt::format("model.weights: {}: tensor fc.weight has an element that is inf in f32", path.string()));
}

}  // namespace heddle::test::initial_weights_test
