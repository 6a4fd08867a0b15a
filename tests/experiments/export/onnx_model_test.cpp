// ONNX models; onnx_test.sh runs them in other programs.
#include "experiments/export/onnx_model.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include "experiments/program/checkpoint_study.h"
#include "framework/files/atomic_file.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

onnx::ModelProto read_onnx(const std::filesystem::path& file) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(read_file(file, 1 << 24)));
  onnx::checker::check_model(model);
  return model;
}

std::vector<std::string> node_types(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node()) names.push_back(node.op_type());
  return names;
}

TrainedModel trained_model(const std::string& results) {
  const FoundCheckpoint checkpoint = find_checkpoint(results);
  return load_trained_model(checkpoint_study(checkpoint, {}, nullptr).variants.front().root, checkpoint);
}

}  // namespace

TEST_CASE("an ONNX model passes ONNX's checker, and its options add operators") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const Called plain = call({"export", results, "--format", "onnx", "--out", file("plain.onnx")});
  CHECK(plain.code == 0);
  CHECK(plain.out == file("plain.onnx") + ": step 3 of small, 7 tensors, embeddings of 5 features\n");
  const onnx::ModelProto model = read_onnx(file("plain.onnx"));
  CHECK(node_types(model) ==
        std::vector<std::string>{"Conv", "BatchNormalization", "Relu", "Flatten", "Gemm", "Identity"});
  CHECK(model.opset_import(0).version() == 17);
  const auto& input = model.graph().input(0).type().tensor_type().shape();
  CHECK(input.dim(0).dim_param() == "n");
  CHECK(input.dim(1).dim_value() == 1);
  CHECK(input.dim(3).dim_value() == 8);
  CHECK(model.graph().output(0).type().tensor_type().shape().dim(1).dim_value() == 5);

  const Called whole =
      call({"export", results, "--format", "onnx", "--out", file("whole.onnx"), "--preprocessing", "--normalize"});
  CHECK(whole.code == 0);
  CHECK(node_types(read_onnx(file("whole.onnx"))) == std::vector<std::string>{"Sub", "Mul", "Conv",
                                                                              "BatchNormalization", "Relu", "Flatten",
                                                                              "Gemm", "LpNormalization"});
}

TEST_CASE("layers that are called like the output or an operator make a valid ONNX model") {
  const Scratch folder;
  nlohmann::json patch;
  patch["model"]["layers"] = nlohmann::json::parse(R"([
    {"type": "conv2d", "out": 4}, {"type": "batch_norm", "name": "norm", "activation": "relu"},
    {"type": "relu", "name": "norm.relu"}, {"type": "flatten"}, {"type": "linear", "name": "embedding", "out": 5}])");
  const std::string results = train_small(folder / "", patch);
  const std::string file = (folder / "x.onnx").string();
  for (const bool normalizes : {false, true}) {
    std::vector<std::string> arguments{"export", results, "--format", "onnx", "--out", file};
    if (normalizes) arguments.emplace_back("--normalize");
    REQUIRE(call(arguments).code == 0);
    const onnx::ModelProto model = read_onnx(file);
    CHECK(node_types(model) == std::vector<std::string>{"Conv", "BatchNormalization", "Relu", "Relu", "Flatten", "Gemm",
                                                        normalizes ? "LpNormalization" : "Identity"});
    CHECK(model.graph().node(5).output(0) == "embedding:2");
    CHECK(model.graph().node(6).output(0) == "embedding");
  }

  patch["model"]["layers"][3]["name"] = "embedding.weight";
  const Called called = call({"export", train_small(folder / "", patch), "--format", "onnx", "--out", file});
  CHECK(called.code == 2);
  CHECK(called.err ==
        "heddle: a layer and a tensor of the ONNX model are both called \"embedding.weight\": give the layer another "
        "name\n");
}

TEST_CASE("the weights of a large ONNX model lie beside it") {
  const Scratch folder;
  const TrainedModel model = trained_model(train_small(folder / ""));
  write_onnx(model, {.max_bytes = 100}, folder / "large.onnx");
  const std::string data = read_file(folder / "large.onnx.data", 1 << 24);
  onnx::ModelProto large;
  REQUIRE(large.ParseFromString(read_file(folder / "large.onnx", 1 << 24)));
  std::size_t external = 0;
  for (const onnx::TensorProto& tensor : large.graph().initializer()) {
    const std::vector<float>& elements = model.elements.at(tensor.name());
    const std::string bytes(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float));
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) {
      CHECK(tensor.raw_data() == bytes);
      continue;
    }
    ++external;
    CHECK(tensor.external_data(0).value() == "large.onnx.data");
    const std::size_t offset = std::stoul(tensor.external_data(1).value());
    CHECK(data.substr(offset, std::stoul(tensor.external_data(2).value())) == bytes);
  }
  CHECK(external == 1);  // fc.weight; the others are small
}

TEST_CASE("an export of a damaged or diverged checkpoint, or to a bad place, is an error and leaves no file") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"export", results});
    const Called called = call(arguments);
    CHECK(called.code == 2);
    return called.err;
  };
  const std::string out = (folder / "x.onnx").string();
  CHECK(error({"--format", "onnx", "--out", out, "--with-head"}) ==
        "heddle: --with-head: only for --format safetensors: an ONNX model ends with the embedding\n");
  CHECK(error({"--format", "safetensors", "--out", out, "--normalize"}) ==
        "heddle: --normalize: only for --format onnx: a state dict has no operators\n");
  CHECK(error({"--format", "onnx", "--out", results}) ==
        "heddle: " + results + ": is a folder: expected a file, such as model.onnx\n");
  CHECK(error({"--format", "onnx", "--out", (folder / "small.json").string()}) ==
        "heddle: --out " + (folder / "small.json").string() + ": expected a file that ends in .onnx\n");
  CHECK(error({"--format", "safetensors", "--out", (folder / "small.json").string()}) ==
        "heddle: " + (folder / "small.json").string() + ": cannot be created as a folder: Not a directory\n");
  CHECK(error({"--format", "torch", "--out", out}).find("--format: torch not in {onnx,safetensors}") !=
        std::string::npos);

  CHECK(error({"--format", "onnx", "--out", (folder / "none/x.onnx").string()}).find("none/x.onnx") !=
        std::string::npos);

  const std::filesystem::path rank = folder / "results/checkpoint/small/step-000003/rank-0.safetensors";
  std::string bytes = read_file(rank, 1 << 24);
  bytes[bytes.size() - 1] ^= 1;
  write_file_atomically(rank, bytes);
  CHECK(error({"--format", "onnx", "--out", out}) ==
        "heddle: " + rank.string() + ": is damaged: its checksum differs from the saved one\n");
  CHECK(!std::filesystem::exists(out));
}

}  // namespace heddle::test
