#include "experiments/training/experiment.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "experiments/data/several_sets.h"
#include "framework/description/describe.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/transports/transports.h"

namespace heddle {

static void describe(Describer& d, MeshConfig& c) {
  d.field("dp", c.dp, between(1, 1024), "ranks along the data axis");
  d.field("pp", c.pp, between(1, 1024), "ranks along the pipeline axis, each with its stages of the model");
  d.field("tp", c.tp, between(1, 1024), "ranks along the tensor axis, with consecutive numbers");
}

static void describe(Describer& d, ElasticConfig& c) {
  list(d, "meshes", c.meshes, between(0, 1000),
       "meshes for fewer ranks, the preferred one first; mesh is preferred to all of them");
  d.field("restarts", c.restarts, between(0, 1e6), "how often the job may restart");
  d.field("wait", c.wait, between(0, 3600),
          "seconds in which lost processes may come back before a smaller mesh is taken");
}

static void describe(Describer& d, LinkModel& c) {
  const Range latency = between(0, 1e6);
  const Range bandwidth = between(1, 1e18);
  d.field("latency", c.within_node.latency, latency, "seconds that every message takes, whatever its length");
  d.field("bandwidth", c.within_node.bandwidth, bandwidth, "bytes per second between two ranks of a node");
  d.field("host_latency", c.host.latency, latency,
          "seconds that every transfer of pipeline.offload takes, whatever its length");
  d.field("host_bandwidth", c.host.bandwidth, bandwidth,
          "bytes per second between a rank's memory and the host's, over a link that belongs to that rank alone, and "
          "carries one transfer at a time");
  d.field("ranks_per_node", c.ranks_per_node, between(0, 1e6),
          "number of ranks on each node; 0: all ranks are on one node");
  d.field("node_latency", c.between_nodes.latency, latency, "latency between ranks of different nodes");
  d.field("node_bandwidth", c.between_nodes.bandwidth, bandwidth, "bandwidth between ranks of different nodes");
}

static void describe(Describer& d, PipelineConfig& c) {
  std::vector<std::string_view> schedules;
  for (const ScheduleType& type : schedule_types()) schedules.push_back(type.name);
  schedules.emplace_back("csv");
  int index = static_cast<int>(std::find(schedules.begin(), schedules.end(), c.schedule) - schedules.begin());
  d.choice("schedule", index, schedules,
           "the order of each rank's actions (see heddle list schedules; heddle schedule NAME draws one); csv: read "
           "from a file");
  c.schedule = schedules[static_cast<std::size_t>(index)];
  d.field("file", c.file, "the file of the schedule csv, as PyTorch's pipelining writes it");
  d.field("chunks", c.chunks, between(0, 1024),
          "stages of each rank; 0: two or, if the schedule does not take two, the number nearest to it that it takes");
  choice(d, "recompute", c.recompute,
         "run a stage's forward again before its backward, and keep only its inputs: always, or except for the last "
         "micro-batch; sqrt: keep the inputs of about sqrt(n) segments of its n layers");
  d.field("recompute_layers", c.recompute_layers, between(0, 10000),
          "layers whose values are not kept for backward, but recomputed there; * stands for any text, as in layer1.*");
  choice(d, "offload", c.offload,
         "move what a micro-batch's backward needs to the host's memory after its forward, and back in time: of all "
         "micro-batches, or of the half of a rank's stages that wait longest (of one stage, every second micro-batch)");
  choice(d, "receives", c.receives, "when receives are posted: right before their use, or one action earlier");
  choice(d, "head_work", c.head_work,
         "how the work of a head on all stages is done: at_once, while all ranks wait for each other; or in parts, "
         "between which ranks compute forwards and backwards, with two exchanges or one between the last stage's "
         "forward and backward (for which the schedules 1f1b_plus_2 and 1f1b_plus_1 are made). Parts need head.logits "
         "fused and pp in head.over");
  d.field(
      "predict", c.predict,
      "whether the stages are measured in some steps before and after the run, on the virtual clock by all ranks and "
      "on a wall clock with the whole model on rank 0, to predict the step time");
}

static void describe(Describer& d, RanksConfig& c) {
  d.field("speed", c.speed, between(1e-6, 1e6), between(0, 1e6),
          "speed of each rank, relative to the machine or the profile; 1 for ranks past the end of the list");
  d.field("jitter", c.jitter, from_to_below(0, 1),
          "each stretch of computing between two calls of communicators takes 1 - jitter to 1 + jitter times as long");
  d.field("memory_budget", c.memory_budget, between(0, max_exact_integer), between(0, 1e6),
          "number of bytes that each rank may hold, 0: no limit; memory_budget for ranks past the end of the list");
}

static void describe(Describer& d, DeviceProfile& c) {
  const Range rate = between(1, 1e21);
  d.field("flops", c.flops_per_second, rate,
          "floating-point operations per second; the default is that of about one core");
  d.field("bandwidth", c.bytes_per_second, rate, "bytes of memory that kernels read and write per second");
}

static void describe(Describer& d, ClipConfig& c) {
  d.field("norm", c.norm, at_least(0), "bound on the norm of all gradients together; 0: none");
  d.field("value", c.value, at_least(0), "bound on each element of a gradient; 0: none");
  d.field(
      "head", c.head,
      "whether the gradients of the head count in the norm and are bounded; false: only those of the backbone, as in "
      "InsightFace's script");
}

static void describe(Describer& d, LearningRateFactor& c) {
  d.field(required("pattern"), c.pattern, "a parameter's name; * stands for any text, as in layer1.* or head.weight");
  d.field("factor", c.factor, above(0), "what the learning rate of these parameters is multiplied by");
}

static void describe(Describer& d, TrainConfig& c) {
  d.field("batch", c.batch, between(1, 1e6), "samples in each step, over all ranks and micro-batches");
  d.field("micro_batches", c.micro_batches, between(1, 1e6), "parts of the batch whose gradients are accumulated");
  d.field("steps", c.steps, between(1, 4e9), "optimizer steps");
  d.field("forward_only", c.forward_only, "a step is a forward pass in evaluation mode: nothing is trained or saved");
  constexpr std::array types{DType::f32, DType::f64, DType::bf16, DType::f16};
  choice(
      d, "dtype", c.dtype, types,
      "type of activations, of their gradients and of messages between stages and ranks. Weights have the same type, "
      "except that with bf16 and f16 they are f32 (mixed precision) unless optimizer.weights says otherwise. The "
      "head computes in f32 or f64");
  d.optional_object(
      "loss_scale", c.sets_loss_scale, [&c](Describer& inner) { describe(inner, c.loss_scale); },
      "the dynamic loss scale of dtype f16; left out: its defaults");
  describe_optimizer(d, "optimizer", c.optimizer);
  describe_learning_rate(d, "schedule", c.schedule);
  object(d, "clip", c.clip, "bounds on the gradients before the optimizer's step");
  d.field("freeze", c.freeze, between(0, 10000),
          "names of the backbone's parameters that are not trained; * stands for any text, as in layer1.*");
  list(d, "lr_factors", c.lr_factors, between(0, 10000),
       "factors of the learning rate for some parameters; the last one that matches a name decides");
  d.optional_object(
      "ema", c.averages_weights, [&c](Describer& inner) { describe(inner, c.ema); },
      "exponential moving averages of the backbone's weights and running statistics, which are evaluated and exported; "
      "left out: none");
  choice(d, "shard", c.shard, "optimizer: ranks with equal weights shard the optimizer's state and step (ZeRO-1)");
  d.field("bucket_bytes", c.bucket_bytes, between(1, 1e12),
          "size of the buckets in which gradients are summed over ranks during backward");
  d.field("save", c.save, "whether checkpoints are written; a run without them cannot be resumed");
  d.field("save_every", c.save_every, between(0, 1e12), "steps between checkpoints; 0: one at the end");
  d.field("keep", c.keep, between(1, 1e6), "the newest checkpoints that stay; older ones are removed");
  d.field("async_save", c.async_save,
          "a checkpoint is kept in the host's memory and written from there while the training goes on; needs as much "
          "memory of the host as the rank saves");
  d.field("check_replicas", c.check_replicas, between(0, 1e12),
          "steps between comparisons, by checksum, of weights and optimizer state that several ranks hold; a "
          "difference, such as a flipped bit, ends the run before it is saved; 0: no comparisons");
  choice(d, "save_signal", c.save_signal,
         "a signal that, like SIGINT and SIGTERM, ends the run after the current step with a checkpoint: for "
         "schedulers that send a different one as a warning");
}

static void describe_winograd(Describer& d, WinogradUse& use) {
  static constexpr FormerName former[] = {{"true", "auto"}, {"false", "off"}};
  Key key("winograd");
  key.former = former;
  choice(d, key, use,
         "auto: on the CPU, 3 x 3 convolutions in f32 use Winograd's method where it is faster; its rounding error is "
         "ten times that of direct ones, and a hundredth of TF32's; off: all convolutions are direct");
}

static void describe_transport(Describer& d, std::string& transport) {
  std::vector<std::string_view> names;
  std::vector<FormerName> former;
  for (const TransportType& type : transport_types()) {
    names.push_back(type.name);
    if (type.former_name) former.push_back({*type.former_name, type.name});
  }
  Key key("transport");
  key.former = former;
  auto index = static_cast<int>(std::find(names.begin(), names.end(), transport) - names.begin());
  d.choice(
      key, index, names,
      "how ranks communicate. threads: threads of one process. processes: one process per rank, started by mpirun -n "
      "4 ./heddle run FILE. nccl: the same with device cuda and one GPU per rank");
  transport = names[static_cast<std::size_t>(index)];
}

void describe(Describer& d, Experiment& c) {
  d.field(required("name"), c.name, "names the experiment and its results folder");
  choice(d, "device", c.device,
         "cpu; cuda: NVIDIA GPUs, with transport threads one GPU for all ranks; plan: counts bytes and FLOPs without "
         "computing");
  describe_transport(d, c.transport);
  choice(d, "clock", c.clock,
         "wall: real time; virtual: a rank takes the CPU time of its one thread, and a message the time that follows "
         "from links; plan always uses virtual time");
  object(d, "links", c.links, "the costs of messages, and of transfers to the host's memory, in virtual time");
  object(d, "ranks", c.ranks, "how the ranks differ, in virtual time and in memory");
  object(d, "profile", c.profile,
         "the device of each rank, for the times that plan models: a kernel takes the time of its operations or of its "
         "bytes, whichever is longer");
  object(d, "mesh", c.mesh, "the mesh of ranks");
  object(d, "elastic", c.elastic,
         "with run --elastic: how a job goes on when some of its processes have ended, from the newest checkpoint");
  object(d, "pipeline", c.pipeline, "how the stages along pp execute a step");
  d.field("seed", c.seed, between(0, max_exact_integer), "determines all random numbers");
  d.field("threads", c.threads, between(0, 1024), "computing threads of each rank; 0: cores / ranks, at least 1");
  describe_winograd(d, c.winograd);
  d.field("tf32", c.tf32,
          "with device cuda: products and convolutions of f32 on tensor cores, which use 10 of the 23 mantissa bits");
  Key memory_budget("memory_budget");
  memory_budget.integer = "a number of bytes";
  d.field(memory_budget, c.memory_budget, between(0, max_exact_integer),
          "number of bytes that a rank may hold; 0: no limit");
  d.field("timeout", c.timeout, Range{.minimum = 0, .maximum = 1e6, .excludes_minimum = true},
          "seconds after which a rank's wait for another one is an error");
  d.field("data_folder", c.data_folder,
          "folder to which paths of data, of evaluation sets and of model.weights are relative; empty: the current "
          "folder");
  // More sets than this would have a sample each in few batches.
  const Range sets = between(1, 64);
  object_or_list(d, "data", c.data, c.further_data, sets,
                 "the images to train and to test on; a list: several data sets that train one backbone, each with "
                 "the head at the same position in the list head");
  describe_model(d, c.model);
  object_or_list(d, required("head"), c.head, c.further_heads, sets,
                 "the classes and their loss; a list: one head for each data set");
  object(d, "train", c.train, "the training steps");
  d.optional_object(
      "evaluation", c.evaluate, [&c](Describer& inner) { describe(inner, c.evaluation); },
      "identification and verification, after training or every few steps; left out: none");
}

Precision Experiment::precision() const {
  const bool is_pure = size_of(train.dtype) == 2 && train.optimizer.weights == train.dtype;
  return is_pure ? Precision(train.dtype, train.dtype) : train.dtype;
}

std::int64_t Experiment::budget_of(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return at < ranks.memory_budget.size() ? ranks.memory_budget[at] : memory_budget;
}

std::int64_t Experiment::min_budget(int count) const {
  if (ranks.memory_budget.empty()) return memory_budget;
  std::int64_t smallest = 0;
  for (int rank = 0; rank < count; ++rank)
    if (const std::int64_t budget = budget_of(rank); budget > 0 && (smallest == 0 || budget < smallest))
      smallest = budget;
  return smallest;
}

BatchShares Experiment::shares() const {
  std::vector<std::int64_t> all{data.share};
  for (const DataConfig& set : further_data) all.push_back(set.share);
  return BatchShares(std::move(all));
}

std::shared_ptr<const Dataset> open_datasets(const Experiment& experiment) {
  const RandomKey key{static_cast<std::uint64_t>(experiment.seed)};
  if (experiment.further_data.empty()) return make_dataset(experiment.data, key);
  std::vector<SeveralSets::Part> parts;
  for (std::size_t set = 0; set < 1 + experiment.further_data.size(); ++set) {
    const DataConfig& config = experiment.data_of(set);
    try {
      parts.push_back({config.name, make_dataset(config, key_of_set(key, set))});
    } catch (const InputError& error) {
      const std::string_view text = error.what();
      const std::string place = key_of(experiment, "data", set);
      // A data set does not know that it is one of several, and calls its own keys data.KEY.
      if (text.starts_with("data.")) fail<InputError>("{}{}", place, text.substr(std::string_view("data").size()));
      fail<InputError>("{} ({}): {}", place, config.name, text);
    }
  }
  return std::make_shared<SeveralSets>(std::move(parts));
}

std::string key_of(const Experiment& experiment, std::string_view key, std::size_t set) {
  return experiment.heads() == 1 ? std::string(key) : fmt::format("{}.{}", key, set);
}

std::string head_name(const Experiment& experiment, std::size_t set) {
  return experiment.heads() == 1 ? "head" : "head." + experiment.data_of(set).name;
}

std::vector<std::string*> paths_of(Experiment& experiment) {
  std::vector<std::string*> paths = data_sets[experiment.data.type].paths(experiment.data);
  for (DataConfig& data : experiment.further_data)
    for (std::string* path : data_sets[data.type].paths(data)) paths.push_back(path);
  for (EvaluationSetConfig& set : experiment.evaluation.sets)
    for (std::string* path : set.paths()) paths.push_back(path);
  paths.push_back(&experiment.model.weights);
  std::erase_if(paths, [](const std::string* path) { return path->empty(); });
  return paths;
}

void resolve_paths(Experiment& experiment) {
  if (!experiment.data_folder.empty())
    for (std::string* path : paths_of(experiment))  // an absolute path stays as it is
      *path = (std::filesystem::path(experiment.data_folder) / *path).string();
  experiment.data_folder.clear();
}

Mesh mesh_of(const MeshConfig& config, int copies) {
  return Mesh(static_cast<int>(config.dp), static_cast<int>(config.pp), static_cast<int>(config.tp), copies);
}

Mesh mesh_of(const Experiment& experiment) {
  const PipelineConfig& pipeline = experiment.pipeline;
  // Where the ranks along pp cannot hold two copies, the schedule refuses them.
  const bool can_have_copies = experiment.mesh.pp % 2 == 0 && pipeline.schedule != "csv";
  return mesh_of(experiment.mesh, can_have_copies ? copies_of_stages(pipeline.schedule) : 1);
}

IndexRange micro_batch_samples(const Experiment& experiment, const Mesh& mesh, std::int64_t index) {
  const std::int64_t batch = experiment.train.batch;
  const std::int64_t ranks = mesh.size(Axis::dp);
  const std::int64_t groups = experiment.train.micro_batches * ranks;
  const std::int64_t begin = shard(batch, groups, index * ranks).begin;
  return {begin, shard(batch, groups, index * ranks + ranks - 1).end() - begin};
}

}  // namespace heddle
