// The errors of the device cuda for experiments that it cannot run.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "framework/backends/backend.h"
#include "framework/error.h"
#include "tests/support/environment_variable.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

std::string experiment_in(const Scratch& folder, const std::string& more = {}) {
  const std::filesystem::path file = folder / "small.json";
  std::ofstream(file) << R"({
    "name": "small", "device": "cuda", "mesh": {"dp": 2},
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4,
             "test_per_identity": 2},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5}, "head": {"classes": 9},
    "train": {"batch": 8, "steps": 2})"
                      << more << "}";
  return file.string();
}

TEST_CASE("options that the GPU does not support are refused") {
  const Scratch folder;
  const std::string file = experiment_in(folder);
  const auto error = [&](const std::string& set) {
    const Called called = call({"validate", file, "--set", set});
    CHECK(called.code == 2);
    return called.err;
  };
  CHECK(error("clock=virtual") ==
        "heddle: --set clock: expected \"wall\" with device cuda: a virtual clock sees only the CPU\n");
  CHECK(error("transport=mpi") ==
        "heddle: --set transport: expected \"threads\" or \"nccl\" with device cuda: MPI and sockets move host memory "
        "only\n");
  CHECK(call({"validate", file}).code == 0);
  CHECK(call({"validate", file, "--set", "transport=nccl"}).code == 0);
  const Called on_cpu = call({"validate", file, "--set", "transport=nccl", "--set", "device=cpu"});
  CHECK(on_cpu.code == 2);
  CHECK(on_cpu.err ==
        "heddle: --set transport: expected \"threads\" or \"processes\" with device cpu: NCCL moves GPU memory only\n");
  CHECK(call({"plan", file, "--set", "transport=nccl"}).code == 0);
  const Called alone = call({"run", file, "--set", "transport=nccl"});
  CHECK(alone.code == 2);
  CHECK(alone.err == "heddle: --set transport: nccl needs one process per rank: mpirun -n 2 ./heddle run FILE\n");
  const Scratch other;
  const std::string of_two = experiment_in(other, R"(, "variants": [{"name": "alone", "patch": {"mesh": {"dp": 1}}},
                                                       {"name": "both", "patch": {}}])");
  CHECK(call({"run", of_two, "--set", "transport=nccl"}).err == alone.err);  // the largest mesh counts
  CHECK(call({"validate", file, "--set", "tf32=true"}).code == 0);
  CHECK(call({"validate", file, "--set", "device=cpu", "--set", "tf32=true"}).err ==
        "heddle: --set tf32: expected false with device cpu: TF32 is the arithmetic of a GPU's tensor cores\n");
}

bool has_gpu() {
  try {
    (void)make_cuda_backend({});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

TEST_CASE("a run on a GPU records the large class tiles with which it computes") {
  if (!has_gpu()) return;
  const auto tile_of = [&](const std::vector<std::string>& sets) {
    const Scratch folder;
    std::vector<std::string> arguments{"run", experiment_in(folder), "--out", (folder / "out").string()};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    REQUIRE(call(arguments).code == 0);
    std::ifstream written(folder / "out/experiment.json");
    return nlohmann::json::parse(written)["head"]["tile"].get<int>();
  };
  CHECK(tile_of({}) == 65536);
  CHECK(tile_of({"head.sub_centres=3"}) == 21845);
  CHECK(tile_of({"head.tile=7"}) == 7);
}

TEST_CASE("a run on a GPU records how its convolutions were computed, a run without one does not") {
  const Scratch folder;
  const auto convolutions_on = [&](const char* device) {
    const std::filesystem::path out = folder / device;
    REQUIRE(
        call({"run", experiment_in(folder), "--out", out.string(), "--set", std::string("device=") + device, "--set",
              R"(model={"type": "layers", "layers": [{"type": "conv2d", "out": 4, "bias": true}, {"type": "relu"},
                     {"type": "flatten"}, {"type": "linear", "out": 5}]})"})
            .code == 0);
    std::ifstream written(out / "summary.json");
    return nlohmann::json::parse(written)["variants"][0].value("convolutions", nlohmann::json());
  };
  CHECK(convolutions_on("cpu").is_null());
  if (!has_gpu()) return;
  // Forward in training and in evaluation, whose batch may be another; the image wants no gradient.
  std::set<std::string> parts;
  for (const nlohmann::json& row : convolutions_on("cuda")) {
    parts.insert(row["part"].get<std::string>());
    CHECK(row["dtype"] == "f32");
    CHECK(row["geometry"].get<std::string>().ends_with("kernel 3x3, stride 1x1, padding 1x1"));
    if (row["adds_bias"].get<bool>()) CHECK(row["algorithm"] == "implicit_precomp_gemm");
  }
  CHECK(parts == std::set<std::string>{"backward_weight", "forward"});
}

TEST_CASE("plan of a GPU's experiment counts the memory of the GPU, or says which part only a GPU can report") {
  const Scratch folder;
  const std::string file = experiment_in(folder);
  const std::string model = R"(model={"type": "layers", "layers": [{"type": "conv2d", "out": 4, "bias": true},
      {"type": "batch_norm"}, {"type": "relu"}, {"type": "flatten"}, {"type": "linear", "out": 5}]})";
  for (const char* const set : {"head.logits=sharded", "head.logits=fused", "tf32=true", "train.dtype=bf16"}) {
    CAPTURE(set);
    const Called planned = call({"plan", file, "--json", "--set", model, "--set", set});
    REQUIRE(planned.code == 0);
    // Before the note, warnings name the keys of the file's model that this one replaces.
    const std::string note = planned.err.substr(std::min(planned.err.find("device cuda:"), planned.err.size()));
    CHECK(note == (has_gpu() ? ""
                             : "device cuda: without a GPU here, cuDNN's workspaces are not counted: the "
                               "convolutions of a rank may take up to 512 MiB\n"));
    if (!has_gpu()) continue;
    const Called ran = call({"run", file, "--json", "--out", (folder / set).string(), "--set", model, "--set", set});
    REQUIRE(ran.code == 0);
    const nlohmann::json expected = nlohmann::json::parse(ran.out)["variants"][0]["ranks"];
    const nlohmann::json ranks = nlohmann::json::parse(planned.out)["variants"][0]["ranks"];
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(ranks[rank]["peak_bytes"] == expected[rank]["peak_bytes"]);
      CHECK(expected[rank]["reserved_bytes"] >= expected[rank]["peak_bytes"]["total"]);
    }
  }
}

TEST_CASE("a run on a GPU without a GPU, or in a program without CUDA, reports this and writes nothing") {
  if (has_gpu()) return;
  const Scratch folder;
  const std::string out = (folder / "out").string();
  const Called called = call({"run", experiment_in(folder), "--out", out});
  CHECK(called.code == 2);
  const std::optional<std::string> absence = cuda_absence();
  if (!absence) {
    CHECK(called.err.starts_with("heddle: device cuda: "));
  } else {
    CHECK(called.err == "heddle: device cuda: this program was built without CUDA: " + *absence + "\n");
    CHECK(absence->ends_with("; where CUDA 12.8 or newer and cuDNN 9 are installed, ./heddle setup cuda builds it in"));
    CHECK(call({"--version"}).out.ends_with("; without cuda: " + *absence + ")\n"));
  }
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("an invalid LOCAL_RANK is reported by the process that has it") {
  const EnvironmentVariable rank("RANK", "1");
  const EnvironmentVariable size("WORLD_SIZE", "2");
  const EnvironmentVariable host("MASTER_ADDR", "127.0.0.1");
  const EnvironmentVariable port("MASTER_PORT", "29500");
  for (const char* const place : {"-1", "first", "1 ", ""}) {
    const EnvironmentVariable local("LOCAL_RANK", place);
    const Called called = call({"run", "none.json"});
    CHECK(called.code == 2);
    CHECK(called.err == fmt::format("heddle: LOCAL_RANK: expected a number from 0 on, got '{}'\n", place));
  }
}

}  // namespace
}  // namespace heddle::test
