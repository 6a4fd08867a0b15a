// State dicts for PyTorch.
#include "experiments/export/state_dict.h"

#include <filesystem>
#include <numeric>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/export/saved_tensor.h"
#include "experiments/program/checkpoint_study.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "framework/files/atomic_file.h"
#include "framework/files/safetensors.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

using Json = nlohmann::json;

template <class T = float>
std::vector<T> elements_of(const SafetensorsReader& file, const std::string& name) {
  const std::size_t index = file.index_of(name);
  std::vector<T> elements(file.entries()[index].bytes() / sizeof(T));
  file.read(index, std::as_writable_bytes(std::span(elements)));
  return elements;
}

Called export_to(const std::string& results, const std::filesystem::path& out, bool with_head = false) {
  std::vector<std::string> arguments{"export", results, "--format", "safetensors", "--out", out.string()};
  if (with_head) arguments.emplace_back("--with-head");
  return call(arguments);
}

Json config_of(const std::filesystem::path& folder) {
  return Json::parse(read_file(folder / "config.json", 1 << 20));
}

}  // namespace

TEST_CASE("a state dict has the backbone in PyTorch's order, with the steps of its batch norms") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const Called exported = export_to(results, folder / "model");
  CAPTURE(exported.err);
  REQUIRE(exported.code == 0);
  const SafetensorsReader file(folder / "model/model.safetensors");
  CHECK(file.metadata() == SafetensorsMetadata{{"format", "pt"}});
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file.entries()) names.push_back(entry.name + " " + to_string(entry.shape));
  CHECK(names == std::vector<std::string>{"conv.weight [4,1,3,3]", "norm.weight [4]", "norm.bias [4]",
                                          "norm.running_mean [4]", "norm.running_var [4]",
                                          "norm.num_batches_tracked []", "fc.weight [5,256]", "fc.bias [5]"});
  CHECK(elements_of<std::int64_t>(file, "norm.num_batches_tracked") == std::vector<std::int64_t>{3});

  const SafetensorsReader saved(folder / "results/checkpoint/small/step-000003/rank-0.safetensors");
  const std::vector<float> ours = elements_of(saved, "fc.weight");  // columns in the order height, width, channel
  const std::vector<float> torch = elements_of(file, "fc.weight");
  for (std::size_t row = 0; row < 5; ++row)
    for (std::size_t channel = 0; channel < 4; ++channel)
      CHECK(torch[row * 256 + channel * 64 + 9] == ours[row * 256 + 9 * 4 + channel]);

  const Json config = config_of(folder / "model");
  CHECK(config["model_type"] == "layers");
  CHECK(config["embedding_size"] == 5);
  CHECK(config["image_size"] == Json{8, 8});
  CHECK(config["num_channels"] == 1);
  CHECK(config["trained_steps"] == 3);
  CHECK(config["preprocessing"]["mean"] == Json{0.5});
}

TEST_CASE("a state dict has the classes of sharded, replicated and 8-bit heads") {
  for (const char* head : {R"({"logits": "sharded"})", R"({"logits": "gathered"})", R"({"parallel": "replicated"})",
                           R"({"logits": "sharded", "state": {"weights": "int8"}})",
                           R"({"logits": "sharded", "state": {"weights": "bf16"}})",
                           R"({"logits": "sharded", "bias": true, "normalize": false, "margin": {"scale": 1}})"}) {
    CAPTURE(head);
    const Scratch folder;
    const std::string results = train_small(folder / "", {{"head", Json::parse(head)}});
    const Called exported = export_to(results, folder / "model", true);
    CAPTURE(exported.err);
    REQUIRE(exported.code == 0);
    const SafetensorsReader file(folder / "model/model.safetensors");
    const SafetensorsEntry& entry = file.entries()[file.index_of("head.weight")];
    CHECK(entry.dtype == DType::f32);
    CHECK(entry.shape == Shape{4, 5});
    const std::vector<float> weight = elements_of(file, "head.weight");
    const double square = std::inner_product(weight.begin(), weight.end(), weight.begin(), 0.0);
    CHECK(square > 0);
    CHECK(file.contains("head.bias") == (std::string(head).find("bias") != std::string::npos));
    CHECK(export_to(results, folder / "model").code == 0);
    CHECK(!SafetensorsReader(folder / "model/model.safetensors").contains("head.weight"));
  }
}

TEST_CASE("where a model ends with a flattened image, the head's columns are in PyTorch's order as well") {
  const Scratch folder;
  Json patch{{"head", {{"logits", "sharded"}}}, {"mesh", {{"dp", 1}}}};
  patch["model"]["layers"] = {{{"type", "conv2d"}, {"out", 4}}, {{"type", "flatten"}}};
  const std::string results = train_small(folder / "", patch);
  REQUIRE(export_to(results, folder / "model", true).code == 0);
  const std::vector<float> torch = elements_of(SafetensorsReader(folder / "model/model.safetensors"), "head.weight");
  const std::vector<float> ours =
      elements_of(SafetensorsReader(find_checkpoint(results).path() / "rank-0.safetensors"), "head.weight");
  REQUIRE(torch.size() == 4 * 256);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t channel = 0; channel < 4; ++channel)
      CHECK(torch[row * 256 + channel * 64 + 9] == ours[row * 256 + 9 * 4 + channel]);
}

TEST_CASE("a class of int8 is its integers times their scale") {
  const Scratch folder;
  const std::string results = train_small(
      folder / "", {{"head", {{"logits", "sharded"}, {"state", {{"weights", "int8"}}}}}, {"mesh", {{"dp", 1}}}});
  const CheckpointFiles files(find_checkpoint(results).path());
  const std::vector<SavedTensor> heads = saved_heads(files);
  REQUIRE(heads.size() == 1);
  CHECK(heads[0].name() == "head.weight");
  std::vector<float> rows;
  heads[0].read([&](std::span<const float> block) { rows.insert(rows.end(), block.begin(), block.end()); });
  const SafetensorsReader saved(find_checkpoint(results).path() / "rank-0.safetensors");
  const std::vector<std::int8_t> integers = elements_of<std::int8_t>(saved, "head.weight");
  const std::vector<float> scales = elements_of(saved, "head.weight.scale");
  REQUIRE(rows.size() == 20);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(rows[i] == static_cast<float>(integers[i]) * scales[i / 5]);
}

TEST_CASE("with the head, config.json has the names of the classes as Hugging Face's configurations do") {
  const Scratch folder;
  const std::string results = train_small(folder / "", {{"head", {{"classes", 6}}}});
  REQUIRE(export_to(results, folder / "model", true).code == 0);
  // The last two of the six classes have no people.
  CHECK(config_of(folder / "model")["id2label"] == Json{{"0", "p0"}, {"1", "p1"}, {"2", "p2"}, {"3", "p3"}});
  CHECK(config_of(folder / "model")["label2id"] == Json{{"p0", 0}, {"p1", 1}, {"p2", 2}, {"p3", 3}});
  const std::string config = read_file(folder / "model/config.json", 1 << 20);
  CHECK(config.find(R"("0": "p0",)") < config.find(R"("1": "p1",)"));
  REQUIRE(export_to(results, folder / "backbone").code == 0);
  CHECK(!config_of(folder / "backbone").contains("id2label"));

  // Names that JSON cannot have, or that become the same there.
  std::filesystem::rename(folder / "faces/p1", folder / "faces/b\xFF\n\"");
  std::filesystem::rename(folder / "faces/p2", folder / "faces/b\xFE\n\"");
  const Called other = call({"run", (folder / "small.json").string(), "--out", results, "--force"});
  REQUIRE(other.code == 0);
  REQUIRE(export_to(results, folder / "model", true).code == 0);
  const std::string name = "b\uFFFD\n\"";
  CHECK(config_of(folder / "model")["id2label"] == Json{{"0", name}, {"1", name}, {"2", "p0"}, {"3", "p3"}});
  CHECK(config_of(folder / "model")["label2id"] == Json{{name, 0}, {"p0", 2}, {"p3", 3}});
}

TEST_CASE("more names than config.json takes lie in a text file beside it") {
  const Scratch folder;
  const FoundCheckpoint checkpoint = find_checkpoint(train_small(folder / ""));
  const Experiment saved = checkpoint_study(checkpoint, {}, nullptr).variants.front().root;
  const TrainedModel model = load_trained_model(saved, checkpoint);
  const auto write = [&](std::size_t max_labels) {
    write_state_dict(model, saved, checkpoint_experiment(checkpoint), {.with_head = true, .max_labels = max_labels},
                     folder / "model");
    return config_of(folder / "model");
  };
  CHECK(write(4).contains("label2id"));
  CHECK(!std::filesystem::exists(folder / "model/classes.txt"));
  const Json config = write(3);
  CHECK(!config.contains("id2label"));
  CHECK(!config.contains("label2id"));
  CHECK(config["class_names"] == "classes.txt");
  CHECK(read_file(folder / "model/classes.txt", 1 << 20) == "p0\np1\np2\np3\n");
}

TEST_CASE("several heads have their names by the data set") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  write_people(folder / "others", {4, 4});
  Json experiment = Json::parse(read_file(folder / "small.json", 1 << 20));
  Json first = experiment["data"];
  Json second = first;
  first["name"] = "a";
  second["name"] = "b";
  second["path"] = (folder / "others").string();
  experiment["data"] = {first, second};
  experiment["head"] = {{{"classes", 4}}, {{"classes", 2}}};
  write_file_atomically(folder / "two.json", experiment.dump());
  const Called run = call({"run", (folder / "two.json").string(), "--out", (folder / "two").string()});
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  REQUIRE(export_to((folder / "two").string(), folder / "model", true).code == 0);
  const Json config = config_of(folder / "model");
  CHECK(!config.contains("id2label"));
  CHECK(config["heads"]["a"]["label2id"]["p3"] == 3);
  CHECK(config["heads"]["b"]["id2label"] == Json{{"0", "p0"}, {"1", "p1"}});
  CHECK(SafetensorsReader(folder / "model/model.safetensors").contains("head.b.weight"));
}

TEST_CASE("names that are missing or damaged are an error, and nothing is exported") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const std::filesystem::path names = find_checkpoint(results).path() / "classes.txt";
  write_file_atomically(names, "p0\np1\np2\nP3\n");
  Called exported = export_to(results, folder / "model", true);
  CHECK(exported.code == 2);
  CHECK(exported.err == "heddle: " + names.string() + ": is damaged: its checksum differs from the saved one\n");
  std::filesystem::remove(names);
  exported = export_to(results, folder / "model", true);
  CHECK(exported.code == 2);
  CHECK(exported.err == "heddle: " + names.string() + ": cannot be read: No such file or directory\n");
  CHECK(!std::filesystem::exists(folder / "model"));
  CHECK(export_to(results, folder / "model").code == 0);  // the backbone needs no names
}

}  // namespace heddle::test
