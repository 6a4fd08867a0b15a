#include "experiments/export/state_dict.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/export/saved_tensor.h"

namespace heddle {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* running_variance = ".running_var";

std::string config_json(const TrainedModel& model, const Json& experiment) {
  const ImageShape& image = model.preprocessing.image();
  const PreprocessingConfig& steps = model.preprocessing.config();
  Json config;
  config["model_type"] = experiment.at("model").at("type");
  config["embedding_size"] = model.embedding;
  config["image_size"] = {image.height, image.width};
  config["num_channels"] = image.channels;
  config["preprocessing"] = {{"crop", steps.crop},
                             {"colour", name_of(steps.colour)},
                             {"rescale_factor", 1.0 / 255},
                             {"mean", steps.mean},
                             {"scale", steps.scale}};
  config["trained_steps"] = model.checkpoint.steps;
  config["model"] = experiment.at("model");
  return config.dump(2) + "\n";
}

/// The tensors of one file, in its order.
class StateDict {
 public:
  StateDict(const TrainedModel& model, std::vector<SavedTensor> head) : model_(model), head_(std::move(head)) {
    for (const InferenceTensor& tensor : model.graph.tensors()) {
      entries_.push_back({tensor.name, DType::f32, tensor.shape});
      if (const auto norm = batch_norm_of(tensor.name))
        entries_.push_back({*norm + ".num_batches_tracked", DType::i64, Shape{}});
    }
    for (const SavedTensor& tensor : head_) entries_.push_back({tensor.name(), DType::f32, tensor.shape()});
  }

  void write(const std::filesystem::path& target) const {
    SafetensorsWriter writer(target, entries_, {{"format", "pt"}});
    for (const InferenceTensor& tensor : model_.graph.tensors()) {
      writer.write(std::as_bytes(std::span(model_.elements.at(tensor.name))));
      if (batch_norm_of(tensor.name)) writer.write(std::as_bytes(std::span(&model_.checkpoint.steps, 1)));
    }
    for (const SavedTensor& tensor : head_)
      tensor.read([&writer](std::span<const float> rows) { writer.write(std::as_bytes(rows)); });
    writer.commit();
  }

 private:
  /// The batch norm whose last tensor this is; PyTorch's state dict then has the number of its steps.
  static std::optional<std::string> batch_norm_of(const std::string& tensor) {
    if (!tensor.ends_with(running_variance)) return {};
    return tensor.substr(0, tensor.size() - std::string_view(running_variance).size());
  }

  const TrainedModel& model_;
  std::vector<SavedTensor> head_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace

void write_state_dict(const TrainedModel& model, const std::string& experiment, bool with_head,
                      const std::filesystem::path& folder) {
  const CheckpointFiles files(model.checkpoint.path());
  const StateDict state(model, with_head ? saved_heads(files) : std::vector<SavedTensor>());
  make_folder(folder);
  state.write(folder / "model.safetensors");
  write_file_atomically(folder / "config.json", config_json(model, Json::parse(experiment)));
}

}  // namespace heddle
