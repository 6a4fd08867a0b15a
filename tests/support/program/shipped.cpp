#include "tests/support/program/shipped.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "framework/scalars/random.h"
#include "tests/support/program/program.h"

namespace heddle::test {

namespace {

using Json = nlohmann::json;

bool is_pipeline(const Json& experiment) {
  const auto has_stages = [](const Json& part) { return part.contains("mesh") && part["mesh"].contains("pp"); };
  if (has_stages(experiment)) return true;
  const Json variants = experiment.value("variants", Json::array());
  return std::any_of(variants.begin(), variants.end(),
                     [&](const Json& variant) { return has_stages(variant["patch"]); });
}

/// The maximum over all variants.
std::int64_t max_micro_batches(const Json& experiment) {
  const auto of = [](const Json& part) {
    return part.contains("train") ? part["train"].value("micro_batches", std::int64_t{1}) : 1;
  };
  std::int64_t most = of(experiment);
  for (const Json& variant : experiment.value("variants", Json::array())) most = std::max(most, of(variant["patch"]));
  return most;
}

}  // namespace

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "experiments"))
    if (entry.path().extension() == ".json" && entry.path().filename() != "experiment.schema.json")
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string experiment_file(const std::string& name) {
  return (source_folder() / "experiments" / (name + ".json")).string();
}

void write_faces(const std::filesystem::path& folder) {
  RandomStream draws({1}, Purpose::test, 0, 0);
  for (int person = 1; person <= 40; ++person) {
    const std::filesystem::path own = folder / fmt::format("s{}", person);
    std::filesystem::create_directories(own);
    for (int number = 1; number <= 10; ++number) {
      std::string pixels(92 * 112, '\0');
      for (char& pixel : pixels) pixel = static_cast<char>(draws.next_u32());
      std::ofstream(own / fmt::format("{}.pgm", number), std::ios::binary) << "P5\n92 112\n255\n" << pixels;
    }
  }
}

std::vector<std::string> cut_short(const std::string& file, const Json& experiment, const std::filesystem::path& faces,
                                   std::int64_t samples) {
  const bool has_stages = is_pipeline(experiment);
  const bool computes = experiment.value("device", "cpu") == "cpu";
  std::vector<std::string> options{file, "--json"};
  const auto set = [&options](const std::string& what) { options.insert(options.end(), {"--set", what}); };
  // On plan, every step is the same.
  set(fmt::format("train.steps={}", !computes ? 1 : has_stages ? 2 : 3));
  if (experiment["data"].is_array()) return options;  // small as it is
  // What equals what does not depend on the images' size or number; each pipeline's stages are also measured apart.
  const Json& image = experiment["data"]["image"];
  // Tokens are cut over ranks.
  const std::int64_t patch = experiment["model"].value("patch", std::int64_t{0});
  const std::int64_t size = patch > 0 ? 4 * patch : has_stages ? 8 : 16;
  if (computes && image[1] > size) set(fmt::format("data.image=[{},{},{}]", image[0].get<int>(), size, size));
  // Measuring the stages takes four times as long as these runs.
  if (has_stages && computes) set("pipeline.predict=false");
  // Batch norm needs two samples in a micro-batch.
  if (has_stages && computes) set(fmt::format("train.batch={}", samples * max_micro_batches(experiment)));
  // With two samples, normalization makes gradients so large that training diverges at the experiment's own rate.
  if (has_stages && computes) set("train.optimizer.lr=1e-6");
  // Studies of many sizes show the same with short embeddings and small batches.
  constexpr std::size_t many = 50;
  if (experiment.value("variants", Json::array()).size() > many)
    for (const char* change : {"model.embedding=32", "train.batch=64"}) set(change);
  // So many classes are for an idle machine.
  if (experiment["head"]["classes"] > 100'000 && computes) set("head.classes=20000");
  // An evaluation compares all faces with all.
  if (experiment["data"].value("identities", std::int64_t{0}) > 1000 && computes) set("data.identities=1000");
  if (experiment["data"]["type"] == "image_folder") set("data.path=" + faces.string());
  // The lists and pairs of people belong to photographs that do not ship.
  if (experiment["data"].value("split", "number") == "people")
    for (const char* change : {"data.split=number", "data.people=", "data.train_per_identity=5",
                               "data.preprocessing.crop=0", "evaluation.every=0", "evaluation.sets=[]"})
      set(change);
  return options;
}

Json patched(Json experiment, std::size_t variant) {
  if (!experiment.contains("variants")) return experiment;
  const Json patch = experiment["variants"][variant]["patch"];
  experiment.merge_patch(patch);
  return experiment;
}

bool is_cut_by_time(const Json& variant) {
  return variant["model"].contains("stages") && variant["model"]["stages"].value("by", "") == "time";
}

}  // namespace heddle::test
