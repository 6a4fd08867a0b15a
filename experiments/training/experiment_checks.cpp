#include "experiments/training/experiment_checks.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/run_plan.h"
#include "layers/head/head_checks.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

/// The parts of a batch that batch norms of vectors normalise separately; 0 without such layers. They see only one
/// value per channel and sample.
std::int64_t vector_norm_groups(const ModelSpec& model, std::int64_t dp, std::int64_t micro_batches) {
  std::int64_t groups = 0;
  for (const ModelSpec::Application& application : model.applications())
    if (const Shape& sample = model.sample(application.inputs[0]); sample.numel() == sample.back())
      groups = std::max(groups, application.layer->norm_groups(dp, micro_batches));
  return groups;
}

/// Whether a text may be part of the names of parameters.
bool is_plain_name(std::string_view name) {
  constexpr std::size_t max_size = 100;
  return !name.empty() && name.size() <= max_size && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// The text of an error in a model: the key says already that it is the model's.
std::string without_model(std::string text) {
  constexpr std::string_view prefix = "model: ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text;
}

/// Returns what `action` returns. Its InputErrors become errors of this key.
template <class Action>
auto located(const std::string& pointer, const Action& action) {
  try {
    return action();
  } catch (const InputError& error) {
    throw KeyError(pointer, pointer == "/model" ? without_model(error.what()) : error.what());
  }
}

template <class... Args>
[[noreturn]] void refuse(const std::string& pointer, fmt::format_string<Args...> format, Args&&... args) {
  throw KeyError(pointer, fmt::format(format, std::forward<Args>(args)...));
}

/// The model with its frozen parameters. Checks that the patterns of train.freeze and train.lr_factors match
/// parameters.
ModelSpec frozen(const Experiment& e, ModelSpec model) {
  std::vector<std::string> names = model.parameter_names();
  located("/train/freeze", [&] { model.freeze(e.train.freeze); });
  for (std::size_t set = 0; set < e.heads(); ++set) names.push_back(head_name(e, set) + ".weight");
  for (std::size_t i = 0; i < e.train.lr_factors.size(); ++i)
    located(fmt::format("/train/lr_factors/{}/pattern", i),
            [&] { check_pattern(e.train.lr_factors[i].pattern, names); });
  return model;
}

/// Checks that the layers of the model have the depths by which their learning rates decay.
void check_layer_decay(const Experiment& e, const ModelSpec& model) {
  const double decay = e.train.optimizer.layer_decay;
  if (decay == 1 || model.blocks() > 0) return;
  refuse("/train/optimizer/layer_decay",
         "expected 1, got {}: the model has no blocks, by which depth is counted (vision transformers, ResNets, "
         "ResNeXts, iResNets and MobileFaceNets have blocks)",
         decay);
}

/// Checks that the schedule keeps activations that could be offloaded.
void check_offload(const Experiment& e) {
  if (e.pipeline.offload == Offload::never) return;
  if (e.train.forward_only)
    refuse("/pipeline/offload", "expected \"never\" with train.forward_only: a forward pass keeps no activations");
  if (!keeps_activations(e.pipeline.recompute))
    refuse("/pipeline/offload",
           "expected \"never\" with pipeline.recompute {}: it keeps no activations that could be offloaded (\"sqrt\" "
           "does)",
           name_of(e.pipeline.recompute));
}

/// Checks that the parts of the heads' work are exchanges between all stages that wait for nothing else.
void check_head_work(const Experiment& e) {
  const HeadWork work = e.pipeline.head_work;
  if (work == HeadWork::at_once) return;
  constexpr const char* key = "/pipeline/head_work";
  if (e.train.forward_only) refuse(key, "expected \"at_once\" with train.forward_only: a forward pass has no loss");
  for (std::size_t set = 0; set < e.heads(); ++set) {
    const HeadConfig& head = e.head_of(set);
    const std::string name = key_of(e, "head", set);
    if (head.is_replicated()) refuse(key, "{} needs {}.parallel \"sharded\"", name_of(work), name);
    if (!head.is_everywhere()) refuse(key, "{} needs pp in {}.over", name_of(work), name);
    if (const std::string lacks = lacks_for_parts(head, work, e.precision().wide()); !lacks.empty())
      refuse(key, "{} needs {}.{}", name_of(work), name, lacks);
  }
}

/// Checks that the model can be made for these images, placed on this mesh and cut into its stages, and that it has the
/// layers that are to be recomputed.
void check_model(const Experiment& e) {
  const Schedule schedule = located("/pipeline", [&] { return schedule_of(e); });
  const ModelSpec model = located("/model", [&] { return make_model(e.model, image_shape(e.data)); });
  const ModelSpec trained = frozen(e, model);
  check_layer_decay(e, model);
  (void)located("/model", [&] { return cut_of(trained, e, placement_of(trained, e, mesh_of(e)), schedule); });
  (void)located("/pipeline/recompute_layers", [&] { return with_recomputed_layers(model, e.pipeline); });
  if (const std::int64_t groups = vector_norm_groups(model, e.mesh.dp, e.train.micro_batches);
      groups > 0 && e.train.batch / groups < 2)
    refuse("/train/batch",
           "expected at least {}, got {}: the model's batch norm needs two samples in each part of the "
           "batch, and there are dp * micro_batches = {} parts",
           2 * groups, e.train.batch, groups);
}

/// Checks that the transport moves the memory of the device.
void check_transport(const Experiment& e) {
  const std::string_view device = name_of(e.device);
  const TransportType& transport = transport_type(e.transport);
  if (transport.moves_memory_of(device)) return;
  std::vector<std::string> others;
  for (const TransportType& other : transport_types())
    if (other.moves_memory_of(device)) others.push_back(fmt::format("\"{}\"", other.name));
  refuse("/transport", "expected {} with device {}: {}", fmt::join(others, " or "), device, transport.restriction);
}

/// Checks that the options of 16-bit types agree with train.dtype.
void check_types(const Experiment& e) {
  const TrainConfig& train = e.train;
  const DType weights = train.optimizer.weights;
  if (size_of(weights) == 2 && train.dtype != weights)
    refuse("/train/optimizer/weights",
           "expected \"f32\"{} with train.dtype {}: {} weights are multiplied with {} activations",
           size_of(train.dtype) == 2 ? fmt::format(" or \"{}\"", name_of(train.dtype)) : "", name_of(train.dtype),
           name_of(weights), name_of(weights));
  if (train.sets_loss_scale && train.dtype != DType::f16)
    refuse("/train/loss_scale", "expected none with train.dtype {}: only f16 has a loss scale", name_of(train.dtype));
}

/// `/data`, or with several sets `/data/1`.
std::string pointer_of(const Experiment& e, const char* key, std::size_t set) {
  return e.heads() == 1 ? fmt::format("/{}", key) : fmt::format("/{}/{}", key, set);
}

/// Checks that several data sets have different names, divide a batch, and give the network the same kind of images.
void check_several_sets(const Experiment& e) {
  const auto at = [](const char* key, std::size_t set, const char* field) {
    return fmt::format("/{}/{}/{}", key, set, field);
  };
  const DataConfig& first = e.data;
  for (std::size_t set = 0; set < e.heads(); ++set) {
    const DataConfig& data = e.data_of(set);
    if (!is_plain_name(data.name))
      refuse(at("data", set, "name"),
             "expected a name of letters, digits, _ and -, as there are several data sets, got \"{}\"", data.name);
    for (std::size_t other = 0; other < set; ++other)
      if (e.data_of(other).name == data.name)
        refuse(at("data", set, "name"), "expected another name than that of data.{}, got \"{}\"", other, data.name);
    if (image_shape(data) != image_shape(first))
      refuse(pointer_of(e, "data", set), "expected images of the same channels, height and width as those of data.0");
    const PreprocessingConfig& preprocessing = data.preprocessing;
    if (preprocessing.colour != first.preprocessing.colour || preprocessing.mean != first.preprocessing.mean ||
        preprocessing.scale != first.preprocessing.scale)
      refuse(at("data", set, "preprocessing"),
             "expected the colour, mean and scale of data.0: the network takes the images of all sets");
    if (data.loader.threads != first.loader.threads || data.loader.prefetch != first.loader.prefetch)
      refuse(at("data", set, "loader"), "expected the loader of data.0: one loader reads the images of all sets");
    if (e.head_of(set).loss_every != e.head.loss_every)
      refuse(at("head", set, "loss_every"), "expected {}, that of head.0, got {}", e.head.loss_every,
             e.head_of(set).loss_every);
    if (e.mesh.pp > 1 && e.head_of(set).is_everywhere() != e.head.is_everywhere())
      refuse(at("head", set, "over"),
             "expected pp in {} as in head.0: either the ranks of all stages take part in the loss, or "
             "only those of the last stage",
             e.head.is_everywhere() ? "it" : "none");
  }
  const std::int64_t period = e.shares().period();
  const std::int64_t below = e.train.batch / period * period;
  if (e.train.batch == below) return;
  refuse("/train/batch", "expected a multiple of {}, the sum of the data sets' shares, such as {}, got {}", period,
         below > 0 ? fmt::format("{} or {}", below, below + period) : fmt::format("{}", period), e.train.batch);
}

void check_data(const Experiment& e) {
  if (e.further_data.size() != e.further_heads.size())
    refuse("/head", "expected one head for each of {} data set{}, got {}", 1 + e.further_data.size(),
           e.further_data.empty() ? "" : "s", e.heads());
  for (std::size_t set = 0; set < e.heads(); ++set) {
    located(pointer_of(e, "data", set), [&] { check(e.data_of(set)); });
    const HeadConfig& head = e.head_of(set);
    if (const auto people = known_classes(e.data_of(set)); people && head.classes < *people)
      refuse(pointer_of(e, "head", set) + "/classes", "expected at least the data's {} people, got {}", *people,
             head.classes);
  }
  if (e.heads() > 1)
    check_several_sets(e);
  else if (e.data.share != 1)
    refuse("/data/share", "expected 1, got {}: a single data set has all samples of each batch", e.data.share);
}

void check_heads(const Experiment& e) {
  for (std::size_t set = 0; set < e.heads(); ++set)
    located(pointer_of(e, "head", set), [&] {
      const HeadConfig& head = e.head_of(set);
      check(head, e.train.optimizer, e.precision().wide());
      check_split(head, mesh_of(e).size(head.class_axes()));
    });
}

/// `/train/batch` as `train.batch`.
std::string dotted(std::string_view pointer) {
  std::string key(pointer.substr(1));
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

}  // namespace

KeyError::KeyError(std::string pointer, const std::string& text)
    : InputError(fmt::format("{}: {}", dotted(pointer), text)), pointer_(std::move(pointer)), text_(text) {}

void check(const Experiment& e) {
  check_types(e);
  if (e.mesh.dp * e.mesh.pp * e.mesh.tp > max_ranks)
    refuse("/mesh", "expected at most {} ranks, got {} x {} x {}", max_ranks, e.mesh.dp, e.mesh.pp, e.mesh.tp);
  if (e.clock == ClockType::virtual_time && e.threads > 1)
    refuse("/threads", "expected 1, got {}: a virtual clock sees the CPU time of a rank's own thread only", e.threads);
  const auto ranks = static_cast<std::size_t>(mesh_of(e).size());
  const auto check_number = [ranks](std::string_view pointer, std::string_view what, std::size_t number) {
    if (number > ranks)
      refuse(std::string(pointer), "expected at most {} {}{}, one for each rank, got {}", ranks, what,
             ranks == 1 ? "" : "s", number);
  };
  check_number("/ranks/speed", "speed", e.ranks.speed.size());
  check_number("/ranks/memory_budget", "number", e.ranks.memory_budget.size());
  check_data(e);
  check_offload(e);
  check_head_work(e);
  check_model(e);
  located("/evaluation", [&] { check_evaluation(e); });
  check_heads(e);
  if (e.train.optimizer.type == OptimizerType::sgd && e.train.optimizer.nesterov && e.train.optimizer.momentum == 0)
    refuse("/train/optimizer/momentum", "expected a momentum > 0, got 0: Nesterov's method looks ahead along it");
}

void check_device(const Experiment& e) {
  check_transport(e);
  if (e.device != DeviceType::cuda) {
    if (e.tf32)
      refuse("/tf32", "expected false with device {}: TF32 is the arithmetic of a GPU's tensor cores",
             name_of(e.device));
    return;
  }
  for (std::size_t set = 0; set < e.heads(); ++set)
    if (const ExtensionMargin* const margin = e.head_of(set).margin.extension.margin; margin != nullptr)
      refuse(
          pointer_of(e, "head", set) + "/margin/type",
          "expected a margin of Heddle's own with device cuda, got \"{}\" of an extension, whose function is the CPU's",
          margin->name);
  if (e.clock == ClockType::virtual_time)
    refuse("/clock", "expected \"wall\" with device cuda: a virtual clock sees only the CPU");
}

}  // namespace heddle
