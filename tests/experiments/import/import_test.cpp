// `heddle import`: files of torch.save, which make_files.py wrote with PyTorch 2.15, become safetensors files.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "framework/files/safetensors.h"
#include "framework/tensors/host_elements.h"
#include "tests/support/devices.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

std::filesystem::path file(const char* name) {
  return source_folder() / "tests/experiments/import/files" / name;
}

Called import(const std::filesystem::path& from, const std::filesystem::path& to,
              const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"import", from.string(), "--out", to.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return call(arguments);
}

std::vector<double> values_of(const SafetensorsReader& reader, const std::string& name) {
  const std::size_t index = reader.index_of(name);
  const SafetensorsEntry& entry = reader.entries()[index];
  std::vector<std::byte> bytes(entry.bytes());
  reader.read(index, bytes);
  const std::vector<std::byte> wide = converted(bytes, entry.dtype, DType::f64);
  std::vector<double> values(wide.size() / sizeof(double));
  std::memcpy(values.data(), wide.data(), wide.size());
  return values;
}

/// What make_files.py puts into a tensor.
std::vector<double> expected(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = (static_cast<double>((7 * i) % 13) - 6) / 16;
  return values;
}

/// The error of a file that cannot be imported, and that nothing was written.
std::string error_of(const std::filesystem::path& from, const std::vector<std::string>& more = {}) {
  const Scratch folder;
  const Called called = import(from, folder / "out.safetensors", more);
  CHECK(called.code == 2);
  CHECK(folder.files() == 0);
  return called.err;
}

}  // namespace

TEST_CASE("a state dict that is nested and wrapped is found, and keeps types, shapes and elements") {
  for (const char* name : {"wrapped.pt", "deflated.pt"}) {
    CAPTURE(name);
    const Scratch folder;
    const std::string out = (folder / "out.safetensors").string();
    const Called imported = import(file(name), out);
    CAPTURE(imported.err);
    REQUIRE(imported.code == 0);
    CHECK(imported.out == fmt::format("{}: the state dict \"state_dict\" of torch.save\nremoved from the names: "
                                      "module.\n{}: 8 tensors, 5.17 KiB\n",
                                      file(name).string(), out));
    const SafetensorsReader reader(out);
    std::vector<std::string> tensors;
    for (const SafetensorsEntry& entry : reader.entries())
      tensors.push_back(entry.name + " " + to_string(entry.dtype, entry.shape));
    CHECK(tensors == std::vector<std::string>{"conv.weight f16[4,1,3,3]", "norm.weight f64[4]", "norm.bias bf16[4]",
                                              "norm.running_mean f32[4]", "norm.running_var f32[4]",
                                              "norm.num_batches_tracked i64[]", "fc.weight f32[5,256]",
                                              "fc.bias f32[5]"});
    CHECK(values_of(reader, "conv.weight") == expected(36));
    CHECK(values_of(reader, "norm.weight") == expected(4));
    CHECK(values_of(reader, "norm.bias") == expected(4));
    CHECK(values_of(reader, "fc.weight") == expected(5 * 256));  // stored as a transpose
    // An import of the result changes nothing.
    REQUIRE(import(out, folder / "again.safetensors").code == 0);
    CHECK(read_file(folder / "again.safetensors", 1 << 20) == read_file(out, 1 << 20));
  }
}

TEST_CASE("a tensor beside a state dict, such as the best accuracy, is not taken for the state dict") {
  const Scratch folder;
  const Called imported = import(file("best.pt"), folder / "out.safetensors");
  CAPTURE(imported.err);
  REQUIRE(imported.code == 0);
  CHECK(imported.out.find("the state dict \"state_dict\" of torch.save\n") != std::string::npos);
  CHECK(values_of(SafetensorsReader(folder / "out.safetensors"), "w") == expected(3));
}

TEST_CASE("of several state dicts one is chosen, and tensors may be chosen by their prefix") {
  const std::string two = file("two.pt").string();
  CHECK(error_of(two) == fmt::format("heddle: {}: has several state dicts, \"state_dict_backbone\" (1 tensor), "
                                     "\"state_dict_softmax_fc\" (1 tensor): choose one with --key\n",
                                     two));
  CHECK(error_of(two, {"--key", "x"}) ==
        fmt::format("heddle: {}: has no state dict \"x\": it has \"state_dict_backbone\" "
                    "(1 tensor), \"state_dict_softmax_fc\" (1 tensor)\n",
                    two));
  const std::string extra = file("extra_state.pt").string();
  CHECK(error_of(extra) == fmt::format("heddle: {}: has several state dicts, \"state_dict_backbone\" (2 tensors), "
                                       "\"state_dict_softmax_fc\" (1 tensor): choose one with --key\n",
                                       extra));
  const Scratch folder;
  REQUIRE(import(two, folder / "out.safetensors", {"--key", "state_dict_backbone"}).code == 0);
  CHECK(values_of(SafetensorsReader(folder / "out.safetensors"), "w") == expected(3));
  const std::string wrapped = file("wrapped.pt").string();
  const Called part = import(wrapped, folder / "norm.safetensors", {"--prefix", "module.norm."});
  CHECK(part.out.find("removed from the names: module.norm.\nleft out: 3 tensors with other names\n") !=
        std::string::npos);
  CHECK(values_of(SafetensorsReader(folder / "norm.safetensors"), "weight") == expected(4));
  CHECK(
      error_of(wrapped, {"--prefix", "x."}) ==
      fmt::format("heddle: {}: no tensor has a name that begins with \"x.\": the first one is \"module.conv.weight\"\n",
                  wrapped));
}

TEST_CASE("nothing is executed, and other files are refused with the reason") {
  const auto refused = [](const char* name, const std::string& why) {
    CHECK(error_of(file(name)) == fmt::format("heddle: {}{}\n", file(name).string(), why));
  };
  const std::string evil = error_of(file("evil.pt"));
  CHECK(evil.find("posix.system is not a function that state dicts are written with") != std::string::npos);
  refused("nan.pt", ": tensor \"w\" has an element that is nan");
  refused("bool.pt", ": tensor \"w\" is of type BoolStorage, which safetensors files of Heddle do not have");
  refused("list.pt", ": expected a state dict, got a list");
  refused("expanded.pt", ": tensor \"w\" repeats elements of its storage (expand): save its clone()");
  // Two floats, of which the deflated member has 4096 bytes.
  refused("oversized.pt", ": member \"oversized/data/0\" has 4096 bytes: expected at most 8");
  refused(
      "former.pt",
      ": was saved by a PyTorch before 1.6, or with _use_new_zipfile_serialization=False: load it there, and save it "
      "again with torch.save");
  CHECK(error_of(file("none.pt")).find("none.pt") != std::string::npos);
  const Scratch folder;
  CHECK(import(file("two.pt"), folder / "out.bin").err ==
        fmt::format("heddle: --out: expected a .safetensors file, got {}\n", (folder / "out.bin").string()));
}

TEST_CASE("a file that is cut off or has another byte is refused, wherever that is") {
  const std::string whole = read_file(file("wrapped.pt"), 1 << 20);
  const Scratch folder;
  const std::filesystem::path damaged = folder / "damaged.pt";
  const std::filesystem::path out = folder / "out.safetensors";
  REQUIRE(import(file("wrapped.pt"), out).code == 0);
  const std::string right = read_file(out, 1 << 20);
  int refused = 0;
  int tried = 0;
  for (std::size_t i = 0; i < whole.size(); i += test::is_sanitized ? 53 : 7) {
    CAPTURE(i);
    ++tried;
    write_file_atomically(damaged, whole.substr(0, i));
    CHECK(import(damaged, folder / "cut.safetensors").code == 2);
    std::string other = whole;
    other[i] = static_cast<char>(other[i] ^ 0x20);
    write_file_atomically(damaged, other);
    std::filesystem::remove(out);
    const Called called = import(damaged, out);
    refused += called.code == 2 ? 1 : 0;
    // Some bytes are padding, dates or names of members that are not read.
    if (called.code == 0) CHECK(read_file(out, 1 << 20) == right);
  }
  CHECK(refused > tried / 2);
  CHECK(!std::filesystem::exists(folder / "cut.safetensors"));
  write_file_atomically(damaged, whole.substr(0, 4000));
  CHECK(import(damaged, out).err ==
        fmt::format("heddle: {}: is not a valid zip file: it has no directory: the file is cut "
                    "off\n",
                    damaged.string()));
}

TEST_CASE("an imported file is what a training starts from, and a resumed one does not read it again") {
  const Scratch folder;
  const std::filesystem::path weights = folder / "start.safetensors";
  REQUIRE(import(file("wrapped.pt"), weights).code == 0);
  // A step this small leaves all weights as they are.
  const nlohmann::json patch = {{"model", {{"weights", weights.string()}}},
                                {"train", {{"optimizer", {{"lr", 1e-30}}}}}};
  const std::string results = train_small(folder / "", patch);
  REQUIRE(call({"export", results, "--format", "safetensors", "--out", (folder / "model").string()}).code == 0);
  const SafetensorsReader exported(folder / "model/model.safetensors");
  const SafetensorsReader imported(weights);
  for (const char* name : {"conv.weight", "norm.weight", "norm.bias", "fc.weight", "fc.bias"}) {
    CAPTURE(name);
    const std::vector<double> ours = values_of(exported, name);
    const std::vector<double> theirs = values_of(imported, name);
    REQUIRE(ours.size() == theirs.size());
    // A weight of zero moves by the step.
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(std::abs(ours[i] - theirs[i]) < 1e-25);
  }
  std::filesystem::remove(weights);
  const std::string experiment = (folder / "small.json").string();
  const Called resumed = call({"run", experiment, "--out", results, "--resume", "--set", "train.steps=5"});
  CAPTURE(resumed.err);
  CHECK(resumed.code == 0);
  const Called begun = call({"run", experiment, "--out", results, "--force"});
  CHECK(begun.code == 2);
  CHECK(begun.err.find(weights.string()) != std::string::npos);
  CHECK(call({"plan", experiment}).code == 0);
}

}  // namespace heddle::test
