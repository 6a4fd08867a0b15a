#include "experiments/program/study_checks.h"

#include <algorithm>

#include "experiments/config/wording.h"
#include "experiments/training/layout/model_layout.h"
#include "experiments/training/layout/run_plan.h"
#include "framework/backends/backend.h"
#include "framework/error.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

/// Whether a batch norm would see only one value per channel and sample.
bool normalises_vectors(const ModelDescription& model) {
  return std::any_of(model.applications().begin(), model.applications().end(), [&](const auto& application) {
    return application.layer->type() == "batch_norm" &&
           model.sample(application.inputs[0]).numel() == model.sample(application.inputs[0]).back();
  });
}

/// What `make` gives; its errors name this place in the file.
template <class Make>
auto located(const StudyVariant& member, const char* pointer, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    fail<InputError>("{}: {}", member.document.where(pointer), error.what());
  }
}

/// Checks that the model can be made for these images, placed on this mesh and cut into its stages, and that it has the
/// layers that are to be recomputed.
void check_model(const StudyVariant& member) {
  const Experiment& e = member.root;
  const std::int64_t groups = (e.model.synchronized_norms ? 1 : e.mesh.dp) * e.train.micro_batches;
  const Schedule schedule = located(member, "/pipeline", [&] { return schedule_of(e); });
  const ModelDescription model = located(member, "/model", [&] {
    ModelDescription made = make_model(e.model, image_shape(e.data));
    (void)cut_of(made, e, plan_of(made, e, mesh_of(e)), schedule);
    return made;
  });
  (void)located(member, "/pipeline/recompute_layers", [&] { return with_recomputed_layers(model, e.pipeline); });
  if (normalises_vectors(model) && e.train.batch / groups < 2)
    fail<InputError>(
        "{}: expected at least {}, got {}: the model's batch norm needs two samples in each part of the "
        "batch, and there are dp * micro_batches = {} parts",
        member.document.where("/train/batch"), 2 * groups, e.train.batch, groups);
}

/// Checks that the transport moves the memory of the device.
void check_transport(const StudyVariant& member) {
  const std::string_view device = name_of(member.root.device);
  const TransportType& transport = transport_type(member.root.transport);
  if (transport.moves_memory_of(device)) return;
  std::vector<std::string> others;
  for (const TransportType& other : transport_types())
    if (other.moves_memory_of(device)) others.emplace_back(other.name);
  fail<InputError>("{}: expected {} with device {}: {}", member.document.where("/transport"), one_of_words(others),
                   device, transport.restriction);
}

/// Checks the options that only some devices have.
void check_device(const StudyVariant& member) {
  const Experiment& e = member.root;
  check_transport(member);
  if (e.device != DeviceType::cuda) {
    if (e.tf32)
      fail<InputError>("{}: expected false with device {}: TF32 is the arithmetic of a GPU's tensor cores",
                       member.document.where("/tf32"), name_of(e.device));
    return;
  }
  if (e.clock == ClockType::virtual_time)
    fail<InputError>("{}: expected \"wall\" with device cuda: a virtual clock sees only the CPU",
                     member.document.where("/clock"));
  if (e.winograd)
    fail<InputError>("{}: expected false with device cuda: cuDNN chooses its own algorithms",
                     member.document.where("/winograd"));
}

/// Checks that the options of 16-bit types agree with train.dtype.
void check_types(const StudyVariant& member) {
  const TrainConfig& train = member.root.train;
  if (train.optimizer.weights == DType::bf16 && train.dtype != DType::bf16)
    fail<InputError>("{}: expected \"f32\" with train.dtype {}: bf16 weights are multiplied with bf16 activations",
                     member.document.where("/train/optimizer/weights"), name_of(train.dtype));
  if (train.sets_loss_scale && train.dtype != DType::f16)
    fail<InputError>("{}: expected none with train.dtype {}: only f16 has a loss scale",
                     member.document.where("/train/loss_scale"), name_of(train.dtype));
}

/// Checks conditions that concern several fields.
void check(const StudyVariant& member) {
  const Experiment& e = member.root;
  check_types(member);
  if (e.mesh.dp * e.mesh.pp * e.mesh.tp > most_ranks)
    fail<InputError>("{}: expected at most {} ranks, got {} x {} x {}", member.document.where("/mesh"), most_ranks,
                     e.mesh.dp, e.mesh.pp, e.mesh.tp);
  if (e.clock == ClockType::virtual_time && e.threads > 1)
    fail<InputError>("{}: expected 1, got {}: a virtual clock sees the CPU time of a rank's own thread only",
                     member.document.where("/threads"), e.threads);
  const auto ranks = static_cast<std::size_t>(mesh_of(e).size());
  if (e.ranks.speed.size() > ranks)
    fail<InputError>("{}: expected at most {} speed{}, one for each rank, got {}",
                     member.document.where("/ranks/speed"), ranks, ranks == 1 ? "" : "s", e.ranks.speed.size());
  if (const auto identities = known_classes(e.data); identities && e.head.classes < *identities)
    fail<InputError>("{}: expected at least the data's {} identities, got {}", member.document.where("/head/classes"),
                     *identities, e.head.classes);
  check_model(member);
  (void)located(member, "/head", [&] {
    check(e.head, e.train.optimizer, e.precision().wide());
    return true;
  });
  if (e.train.optimizer.type == OptimizerType::sgd && e.train.optimizer.nesterov && e.train.optimizer.momentum == 0)
    fail<InputError>("{}: expected a momentum > 0, got 0: Nesterov's method looks ahead along it",
                     member.document.where("/train/optimizer/momentum"));
}

/// Resolves the choices that are left to the machine: a different machine might choose differently, and give different
/// bits.
void settle(Experiment& experiment, bool is_bf16_fast) {
  // The products of the thousand classes that fit into a CPU's cache end before a GPU's next launch.
  constexpr std::int64_t rows_of_gpu_tile = 32768;
  HeadConfig& head = experiment.head;
  const bool is_gpu = experiment.device == DeviceType::cuda;
  const bool is_bf16 = product_type(head, experiment.precision().wide(), is_bf16_fast || is_gpu) == DType::bf16;
  head.product_type = is_bf16 ? ProductType::bf16 : ProductType::f32;
  if (is_gpu && head.tile == 0) head.tile = std::max<std::int64_t>(rows_of_gpu_tile / head.sub_centres, 1);
}

}  // namespace

bool is_bf16_fast_here() {
  static const bool is_fast = make_backend("cpu")->linear_algebra().is_bf16_fast();
  return is_fast;
}

Study<Experiment> checked(Study<Experiment> study, bool is_bf16_fast) {
  for (const StudyVariant& member : study.variants) {
    check_device(member);
    check(member);
  }
  for (StudyVariant& member : study.variants) settle(member.root, is_bf16_fast);
  return study;
}

void prepare_plan(StudyVariant& member) {
  check(member);
  Experiment& experiment = member.root;
  settle(experiment, is_bf16_fast_here());
  if (experiment.device != DeviceType::plan) experiment.planned = experiment.device;
  experiment.device = DeviceType::plan;
}

}  // namespace heddle
