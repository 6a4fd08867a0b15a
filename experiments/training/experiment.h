// One experiment: what a JSON file describes. Each field is described once: those of the data, the model, the head, the
// evaluation, the optimizer, its learning rate, its loss scale and its averages beside their structs, all others in
// experiment.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/data_config.h"
#include "experiments/training/evaluation/evaluation_config.h"
#include "framework/backends/backend.h"
#include "framework/description/enum_table.h"
#include "framework/optimizers/learning_rate.h"
#include "framework/optimizers/loss_scale.h"
#include "framework/optimizers/optimizer.h"
#include "framework/optimizers/weight_averages.h"
#include "framework/tensors/batch_shares.h"
#include "framework/tensors/dtype.h"
#include "layers/head/head.h"
#include "layers/precision.h"
#include "models/models.h"
#include "parallel/communicator/link_model.h"
#include "parallel/pipeline/passes/offload.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class Describer;

enum class DeviceType { cpu, cuda, plan };
template <>
inline constexpr auto enum_names<DeviceType> = enum_table<DeviceType>({
    {DeviceType::cpu, "cpu"},
    {DeviceType::cuda, "cuda"},
    {DeviceType::plan, "plan"},
});

enum class ClockType { wall, virtual_time };
template <>
inline constexpr auto enum_names<ClockType> = enum_table<ClockType>({
    {ClockType::wall, "wall"},
    {ClockType::virtual_time, "virtual"},
});

/// Whether convolutions on the CPU use Winograd's method.
enum class WinogradUse { automatic, off };
template <>
inline constexpr auto enum_names<WinogradUse> = enum_table<WinogradUse>({
    {WinogradUse::automatic, "auto"},
    {WinogradUse::off, "off"},
});

/// The state that ranks with equal copies of the parameters shard.
enum class ShardedState { none, optimizer };
template <>
inline constexpr auto enum_names<ShardedState> = enum_table<ShardedState>({
    {ShardedState::none, "none"},
    {ShardedState::optimizer, "optimizer"},
});

struct MeshConfig {
  std::int64_t dp = 1;
  std::int64_t pp = 1;
  std::int64_t tp = 1;
  bool operator==(const MeshConfig&) const = default;
};

/// How the stages along pp execute a step.
struct PipelineConfig {
  std::string schedule = "1f1b";  // a name of schedule_types(), or csv
  std::string file;               // of the schedule csv
  std::int64_t chunks = 0;        // stages of each rank; 0: default_chunks()
  Recompute recompute = Recompute::never;
  std::vector<std::string> recompute_layers{};  // names, in which `*` stands for any text
  Offload offload = Offload::never;
  Receives receives = Receives::at_use;
  HeadWork head_work = HeadWork::at_once;
  bool predict = true;  // whether run_variant predicts the step time
};

/// The differences between ranks: speed and jitter on a virtual clock, and the memory that each may hold.
struct RanksConfig {
  std::vector<double> speed;  // one per rank; missing ones are 1
  double jitter = 0;
  std::vector<std::int64_t> memory_budget;  // one per rank; missing ones are Experiment::memory_budget

  double speed_of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return at < speed.size() ? speed[at] : 1;
  }
  /// The speed of the slowest of these ranks.
  double slowest_of(const std::vector<int>& ranks) const {
    double slowest = speed_of(ranks.front());
    for (const int rank : ranks) slowest = std::min(slowest, speed_of(rank));
    return slowest;
  }
};

/// How a job goes on when some of its processes have ended (run --elastic).
struct ElasticConfig {
  std::vector<MeshConfig> meshes{};  // for fewer ranks, the preferred one first
  std::int64_t restarts = 3;
  double wait = 5;  // seconds
};

struct ClipConfig {
  double norm = 0;   // 0: none
  double value = 0;  // 0: none
  bool head = true;  // whether the gradients of the head count in the norm and are bounded

  bool needs_norm_of_heads() const { return norm > 0 && head; }
};

/// A factor of the learning rate for some parameters.
struct LearningRateFactor {
  std::string pattern;  // a name, in which `*` stands for any text
  double factor = 1;
};

/// A signal that, beside SIGINT and SIGTERM, ends a run with a checkpoint.
enum class SaveSignal { none, usr1, usr2 };
template <>
inline constexpr auto enum_names<SaveSignal> =
    enum_table<SaveSignal>({{SaveSignal::none, "none"}, {SaveSignal::usr1, "USR1"}, {SaveSignal::usr2, "USR2"}});

struct TrainConfig {
  std::int64_t batch = 64;
  std::int64_t micro_batches = 1;
  std::int64_t steps = 100;
  bool forward_only = false;
  DType dtype = DType::f32;      // a floating-point type
  bool sets_loss_scale = false;  // whether the experiment has the key
  LossScaleConfig loss_scale{};  // for f16
  OptimizerConfig optimizer;
  LearningRateConfig schedule;
  ClipConfig clip;
  std::vector<std::string> freeze{};             // names of parameters that are not trained, with `*`
  std::vector<LearningRateFactor> lr_factors{};  // the last one that matches a parameter decides
  bool averages_weights = false;                 // whether the experiment has the key ema
  EmaConfig ema{};
  ShardedState shard = ShardedState::none;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;  // the gradients that are summed together
  bool save = true;
  std::int64_t save_every = 0;  // 0: at the end only
  std::int64_t keep = 1;        // checkpoints
  bool async_save = true;
  SaveSignal save_signal = SaveSignal::none;
  std::int64_t check_replicas = 0;  // steps between comparisons; 0: none
};

struct Experiment {
  std::string name;
  DeviceType device = DeviceType::cpu;
  DeviceType planned = DeviceType::cpu;  // the device whose bytes plan counts; set by the command, not in the file
  std::string transport = "threads";     // a name of transport_types()
  ClockType clock = ClockType::wall;
  LinkModel links;
  RanksConfig ranks;
  DeviceProfile profile;
  MeshConfig mesh;
  ElasticConfig elastic;
  PipelineConfig pipeline;
  std::int64_t seed = 1;
  std::int64_t threads = 0;  // of each rank; 0: cores / ranks, at least 1
  WinogradUse winograd = WinogradUse::automatic;
  bool tf32 = false;               // f32 is multiplied on a GPU's tensor cores
  std::int64_t memory_budget = 0;  // bytes of each rank, see budget_of; 0: no bound
  double timeout = 600;            // seconds that a wait may last
  std::string data_folder;         // see resolve_paths
  DataConfig data;
  ModelConfig model;
  HeadConfig head;
  // If several data sets, each with its own head, train one backbone: all but the first of them.
  std::vector<DataConfig> further_data{};
  std::vector<HeadConfig> further_heads{};
  TrainConfig train;
  bool evaluate = false;
  EvaluationConfig evaluation;

  /// The bytes that a rank may hold; 0: no bound.
  std::int64_t budget_of(int rank) const;
  /// The smallest of the budgets of the first `count` ranks; 0 if none has one.
  std::int64_t min_budget(int count) const;

  /// Whether times come from models instead of the wall clock, as they always do on plan.
  bool is_virtual_time() const { return clock == ClockType::virtual_time || device == DeviceType::plan; }
  /// The precision of the model; the head computes in its `wide()`.
  Precision precision() const;
  /// The number of heads, which is that of data sets.
  std::size_t heads() const { return 1 + further_heads.size(); }
  const DataConfig& data_of(std::size_t set) const { return set == 0 ? data : further_data[set - 1]; }
  DataConfig& data_of(std::size_t set) { return set == 0 ? data : further_data[set - 1]; }
  const HeadConfig& head_of(std::size_t set) const { return set == 0 ? head : further_heads[set - 1]; }
  HeadConfig& head_of(std::size_t set) { return set == 0 ? head : further_heads[set - 1]; }
  /// How batches are divided over the data sets.
  BatchShares shares() const;
  bool has_loss_scale() const { return train.dtype == DType::f16 && !train.forward_only; }
};

void describe(Describer& d, Experiment& experiment);

/// Opens the data sets of an experiment, as one if there are several (experiments/data/several_sets.h).
std::shared_ptr<const Dataset> open_datasets(const Experiment& experiment);

/// The key of a data set, or of its head, in messages: `data`, or `data.1` if there are several.
std::string key_of(const Experiment& experiment, std::string_view key, std::size_t set);

/// The name of a head, with which the names of its parameters begin: `head`, or `head.NAME` if there are several.
std::string head_name(const Experiment& experiment, std::size_t set);

/// The paths of files and folders that the experiment reads: of the data, of the evaluation sets and of the weights.
std::vector<std::string*> paths_of(Experiment& experiment);

/// Puts `data_folder` before these paths if they are relative, and empties it.
void resolve_paths(Experiment& experiment);

/// The mesh of a configuration, with this number of copies of each pipeline stage.
Mesh mesh_of(const MeshConfig& config, int copies = 1);
/// The mesh of an experiment, with as many copies of each stage as its schedule has.
Mesh mesh_of(const Experiment& experiment);

/// The positions of a micro-batch's samples in the global batch, for all data-parallel ranks together. The batch is
/// divided into sample groups, micro-batch by micro-batch and within each rank by rank along dp. The division is
/// that of one rank with dp * micro_batches micro-batches, also where these do not divide the batch; the first
/// micro-batch is as large as any.
IndexRange micro_batch_samples(const Experiment& experiment, const Mesh& mesh, std::int64_t index);

}  // namespace heddle
