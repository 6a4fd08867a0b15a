#include "experiments/export/state_dict.h"

#include <map>
#include <memory>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/export/saved_tensor.h"
#include "experiments/training/checkpoints/class_names.h"
#include "framework/description/printable.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* running_variance = ".running_var";

/// What `config.json` says about the names of the classes, and the files beside it that have them.
struct Labels {
  Json config = Json::object();
  std::map<std::string, std::string> files;  // text by name
};

/// `id2label` and `label2id`. If several classes have one name, the first of them has it in `label2id`.
Json labels_json(const std::vector<std::string>& names) {
  Json::object_t names_of;
  Json::object_t ids_of;
  std::unordered_set<std::string> known;
  // Appended to the end: to insert would search for the key among all others.
  for (std::size_t id = 0; id < names.size(); ++id) {
    const std::string name = valid_utf8(names[id]);
    names_of.emplace_back(std::to_string(id), name);
    if (known.insert(name).second) ids_of.emplace_back(name, id);
  }
  return {{"id2label", std::move(names_of)}, {"label2id", std::move(ids_of)}};
}

Labels head_labels(const Experiment& saved, const CheckpointFiles& files, std::size_t max_labels) {
  Labels labels;
  for (std::size_t set = 0; set < saved.heads(); ++set) {
    std::string text = ClassNames::read_text(files.folder(), files.identity(), saved, set);
    const std::vector<std::string> names = ClassNames::of_text(text);
    if (names.empty()) continue;
    Json described;
    if (names.size() <= max_labels) {
      described = labels_json(names);
    } else {
      const std::string file = ClassNames::file_of(saved, set);
      labels.files[file] = std::move(text);
      described["class_names"] = file;
    }
    if (saved.heads() == 1)
      labels.config = std::move(described);
    else
      labels.config["heads"][saved.data_of(set).name] = std::move(described);
  }
  return labels;
}

Json config_json(const TrainedModel& model, const Json& experiment) {
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
  return config;
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

  /// Writes the file up to `finish`.
  std::unique_ptr<SafetensorsWriter> write(const std::filesystem::path& target) const {
    auto file = std::make_unique<SafetensorsWriter>(target, entries_, SafetensorsMetadata{{"format", "pt"}});
    SafetensorsWriter& writer = *file;
    for (const InferenceTensor& tensor : model_.graph.tensors()) {
      writer.write(std::as_bytes(std::span(model_.elements.at(tensor.name))));
      if (batch_norm_of(tensor.name)) writer.write(std::as_bytes(std::span(&model_.checkpoint.steps, 1)));
    }
    // Where the model ends with a flattened image, the columns of a head are in its order.
    const InferenceTensor columns{"", {model_.embedding}, model_.graph.embedding_image()};
    std::vector<float> torch;
    for (const SavedTensor& tensor : head_)
      tensor.read([&](std::span<const float> rows) {
        if (!columns.image || !tensor.name().ends_with(".weight")) return writer.write(std::as_bytes(rows));
        torch.resize(rows.size());
        columns.to_torch(rows, torch);
        writer.write(std::as_bytes(std::span<const float>(torch)));
      });
    writer.finish();
    return file;
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

void write_state_dict(const TrainedModel& model, const Experiment& saved, const std::string& experiment,
                      const StateDictOptions& options, const std::filesystem::path& folder) {
  const CheckpointFiles files(model.checkpoint.path());
  Json config = config_json(model, Json::parse(experiment));
  Labels labels;
  if (options.with_head) labels = head_labels(saved, files, options.max_labels);
  config.update(labels.config);
  const StateDict state(model, options.with_head ? saved_heads(files) : std::vector<SavedTensor>());
  make_folder(folder);
  // All files are complete before the first one appears, so that no weights stay beside the names of other classes.
  const std::unique_ptr<SafetensorsWriter> tensors = state.write(folder / "model.safetensors");
  std::vector<std::unique_ptr<AtomicFile>> texts;
  const auto add_text = [&](const std::string& name, std::string_view text) {
    texts.push_back(std::make_unique<AtomicFile>(folder / name));
    texts.back()->write(text);
    texts.back()->finish();
  };
  for (const auto& [name, text] : labels.files) add_text(name, text);
  add_text("config.json", config.dump(2) + "\n");
  tensors->commit();
  for (const std::unique_ptr<AtomicFile>& text : texts) text->commit();
}

}  // namespace heddle
