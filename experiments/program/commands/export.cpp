#include <CLI/CLI.hpp>

#include "experiments/export/onnx_model.h"
#include "experiments/export/state_dict.h"
#include "experiments/program/checkpoint_study.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/target_file.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct ExportCommand {
  std::filesystem::path checkpoint;  // a folder step-..., a folder that contains some, or a results folder
  std::string format;
  std::filesystem::path out;
  bool raw_weights = false;
  OnnxOptions onnx{};
  StateDictOptions state_dict{};
};

void check_options(const ExportCommand& command) {
  if (command.format == "onnx" && command.state_dict.with_head)
    fail<InputError>("--with-head: only for --format safetensors: an ONNX model ends with the embedding");
  if (command.format == "safetensors" && (command.onnx.takes_pixels || command.onnx.normalizes))
    fail<InputError>("{}: only for --format onnx: a state dict has no operators",
                     command.onnx.takes_pixels ? "--preprocessing" : "--normalize");
  if (command.format == "onnx" && std::filesystem::is_directory(command.out))
    fail<InputError>("{}: is a folder: expected a file, such as model.onnx", command.out.string());
  if (command.format == "onnx") check_ending("--out", command.out, {".onnx"});
  if (command.format == "safetensors") check_beside(command.out / "model.safetensors", command.out / "config.json");
}

void export_command(const ExportCommand& command, const Console& console) {
  check_options(command);
  const FoundCheckpoint checkpoint = find_checkpoint(command.checkpoint);
  const Study<Experiment> study = checkpoint_study(checkpoint, {}, nullptr);
  Experiment saved = study.variants.front().root;
  if (command.raw_weights) saved.train.averages_weights = false;
  const TrainedModel model = load_trained_model(saved, checkpoint);
  if (command.format == "onnx")
    write_onnx(model, command.onnx, command.out);
  else
    write_state_dict(model, saved, checkpoint_experiment(checkpoint), command.state_dict, command.out);
  console.out << fmt::format("{}: step {} of {}, {}{}, embeddings of {} features\n", command.out.string(),
                             checkpoint.steps, study.name, saved.train.averages_weights ? "averaged weights, " : "",
                             counted(static_cast<std::int64_t>(model.graph.tensors().size()), "tensor", "tensors"),
                             model.embedding);
}

}  // namespace

void add_export(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ExportCommand>();
  add_checkpoint_option(app, command->checkpoint);
  app.add_option("--format", command->format, "onnx: a model; safetensors: a folder with the state dict for PyTorch")
      ->check(CLI::IsMember({"onnx", "safetensors"}))
      ->required();
  app.add_option("--out", command->out, "the file of the ONNX model, or the folder of the state dict")->required();
  add_raw_weights_option(app, command->raw_weights);
  app.add_flag("--preprocessing", command->onnx.takes_pixels,
               "onnx: the input takes RGB pixels from 0 to 255, instead of what the network takes");
  app.add_flag("--normalize", command->onnx.normalizes, "onnx: embeddings have unit length");
  app.add_flag("--with-head", command->state_dict.with_head,
               "safetensors: also write the weights of the classes, and their names in config.json");
  app.callback([&call, command] { export_command(*command, call.console); });
}

}  // namespace heddle
