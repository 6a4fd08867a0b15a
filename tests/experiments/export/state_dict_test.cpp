// State dicts for PyTorch.
#include <filesystem>
#include <numeric>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/export/saved_tensor.h"
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

  const Json config = Json::parse(read_file(folder / "model/config.json", 1 << 20));
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

}  // namespace heddle::test
