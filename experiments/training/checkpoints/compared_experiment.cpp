#include "experiments/training/checkpoints/compared_experiment.h"

#include <filesystem>

namespace heddle {

Experiment without_run_settings(Experiment experiment) {
  const Experiment defaults;
  experiment.name.clear();
  experiment.train.steps = defaults.train.steps;
  experiment.train.save = defaults.train.save;
  experiment.train.save_every = defaults.train.save_every;
  experiment.train.keep = defaults.train.keep;
  experiment.train.async_save = defaults.train.async_save;
  experiment.train.check_replicas = defaults.train.check_replicas;
  experiment.train.save_signal = defaults.train.save_signal;
  experiment.evaluate = defaults.evaluate;
  experiment.evaluation = defaults.evaluation;
  experiment.memory_budget = defaults.memory_budget;
  experiment.timeout = defaults.timeout;
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    experiment.head_of(set).loss_every = defaults.head.loss_every;
  // The weights are in the checkpoint; the name of their file shows with which the training began.
  experiment.model.weights = std::filesystem::path(experiment.model.weights).filename().string();
  experiment.data.loader = defaults.data.loader;
  for (DataConfig& data : experiment.further_data) data.loader = defaults.data.loader;
  experiment.transport = defaults.transport;
  experiment.clock = defaults.clock;
  experiment.links = defaults.links;
  experiment.ranks = defaults.ranks;
  experiment.elastic = defaults.elastic;
  experiment.pipeline.predict = defaults.pipeline.predict;
  experiment.profile = defaults.profile;
  return experiment;
}

Experiment without_layout(Experiment experiment) {
  const Experiment defaults;
  experiment.mesh = defaults.mesh;
  experiment.pipeline = defaults.pipeline;
  experiment.threads = defaults.threads;
  experiment.winograd = defaults.winograd;
  experiment.model.placements = defaults.model.placements;
  experiment.model.stages = defaults.model.stages;
  for (LayerConfig& layer : experiment.model.layers) {
    const LayerConfig blank;
    layer.parallel = blank.parallel;
    layer.over = blank.over;
    layer.stage = blank.stage;
    layer.recompute = blank.recompute;
  }
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    HeadConfig& head = experiment.head_of(set);
    head.parallel = defaults.head.parallel;
    head.logits = defaults.head.logits;
    head.stash = defaults.head.stash;
    head.tile = defaults.head.tile;
    head.over = defaults.head.over;
    head.split = defaults.head.split;
    head.sample.shards = defaults.head.sample.shards;
  }
  experiment.train.micro_batches = defaults.train.micro_batches;
  experiment.train.shard = defaults.train.shard;
  experiment.train.bucket_bytes = defaults.train.bucket_bytes;
  return experiment;
}

Experiment without_head(Experiment experiment) {
  const Experiment defaults;
  experiment.head = defaults.head;
  experiment.further_heads.clear();
  experiment.data = defaults.data;
  experiment.further_data.clear();
  return experiment;
}

Experiment without_people(Experiment experiment) {
  const Experiment defaults;
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    DataConfig data = defaults.data;
    data.name = experiment.data_of(set).name;
    data.share = experiment.data_of(set).share;
    experiment.data_of(set) = data;
    experiment.head_of(set).classes = defaults.head.classes;
  }
  return experiment;
}

Experiment without_places(Experiment experiment) {
  experiment.data_folder.clear();
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    DataConfig& data = experiment.data_of(set);
    for (std::string* path : data_sets[data.type].paths(data)) path->clear();
    data.image_folder.on_broken = {};
    data.image_list.on_broken = {};
    data.recordio.on_broken = {};
  }
  return experiment;
}

Experiment with_evaluation_of(Experiment reduced, const Experiment& whole) {
  reduced.name = whole.name;
  reduced.evaluate = whole.evaluate;
  reduced.evaluation = whole.evaluation;
  return reduced;
}

}  // namespace heddle
