#include <optional>

#include <CLI/CLI.hpp>

#include "experiments/export/embeddings.h"
#include "experiments/program/checkpoint_study.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/target_file.h"
#include "experiments/training/ranks/job_agreement.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct EmbedCommand {
  std::filesystem::path checkpoint;  // a folder step-..., a folder that contains some, or a results folder
  std::vector<std::filesystem::path> images;
  std::filesystem::path out;
  std::vector<std::string> sets;  // a.b=json
  bool raw_weights = false;
  bool flips = false;
  bool normalizes = false;
};

/// Embeds images on the ranks of the checkpoint's experiment, or on the processes of a job if there is one.
void embed_command(const EmbedCommand& command, const Console& console, Job* job) {
  FoundCheckpoint checkpoint;
  std::vector<std::string> files;
  std::optional<CheckpointModel> model;
  std::unique_ptr<EmbeddingsFile> out;
  std::int64_t dimension = 0;
  together(job, [&] {
    checkpoint = find_checkpoint(command.checkpoint);
    Experiment experiment = checkpoint_study(checkpoint, command.sets, job).variants.front().root;
    if (command.raw_weights) experiment.train.averages_weights = false;
    experiment.evaluation.sets.clear();
    experiment.evaluation.flip = command.flips;
    const bool writes = job == nullptr || job->rank() == 0;
    if (writes && command.out.extension() == ".npy") check_beside(command.out, names_beside(command.out));
    files = find_images(command.images);
    model.emplace(experiment, checkpoint);
    dimension = embedding_size(model->model());
    if (writes) out = open_embeddings(command.out, files, dimension);
  });
  embed_files(*model, files, command.normalizes, job,
              [&out](std::span<const float> embeddings) { out->append(embeddings); });
  if (!out) return;
  out->commit();
  console.out << fmt::format("{}: {}, embeddings of {} features by step {} of {}\n", command.out.string(),
                             counted(static_cast<std::int64_t>(files.size()), "image", "images"), dimension,
                             checkpoint.steps, checkpoint.folder.string());
}

}  // namespace

void add_embed(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<EmbedCommand>();
  add_checkpoint_option(app, command->checkpoint);
  app.add_option("IMAGES", command->images, "image files, and folders of images")->required();
  app.add_option(
         "--out", command->out,
         "FILE.npy: f32 [images, features], with the images' paths in FILE.txt; FILE.parquet: columns image and "
         "embedding, a list of f32; or FILE.csv")
      ->required();
  add_raw_weights_option(app, command->raw_weights);
  app.add_flag("--flip", command->flips, "add the embedding of the mirrored image, as evaluation.flip does");
  app.add_flag("--normalize", command->normalizes, "embeddings have unit length");
  add_set_option(app, command->sets).description("override one key of the checkpoint's experiment, as in mesh.dp=2");
  app.callback([&call, command] { embed_command(*command, call.console, call.join()); });
}

}  // namespace heddle
