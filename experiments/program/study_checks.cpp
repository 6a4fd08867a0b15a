#include "experiments/program/study_checks.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/training/experiment_checks.h"
#include "framework/backends/backend.h"
#include "framework/error.h"
#include "models/models.h"

namespace heddle {

namespace {

/// Calls `check` of a variant; its error then names the place in the file.
void check_variant(const StudyVariant& member, void (*check)(const Experiment&)) {
  try {
    check(member.root);
  } catch (const KeyError& error) {
    fail<InputError>("{}: {}", member.document.where(error.pointer()), error.text());
  }
}

/// The experiment must be possible on each mesh that an elastic job may take.
void check_meshes(StudyVariant member) {
  const std::vector<MeshConfig> meshes = member.root.elastic.meshes;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    member.root.mesh = meshes[i];
    try {
      check_variant(member, check);
    } catch (const InputError& error) {
      fail<InputError>("elastic.meshes[{}]: {}", i, error.what());
    }
  }
}

/// Resolves the choices that are left to the machine: a different machine might choose differently, and give different
/// bits.
void settle(Experiment& experiment, bool is_bf16_fast) {
  const bool is_gpu = experiment.device == DeviceType::cuda;
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    HeadConfig& head = experiment.head_of(set);
    const bool is_bf16 = product_type(head, experiment.precision().wide(), is_bf16_fast || is_gpu) == DType::bf16;
    head.product_type = is_bf16 ? ProductType::bf16 : ProductType::f32;
    if (is_gpu && head.tile == 0) head.tile = std::max<std::int64_t>(rows_of_gpu_tile / head.sub_centres, 1);
  }
}

}  // namespace

void warn_of_unread_pixels(Study<Experiment>& study) {
  for (const StudyVariant& member : study.variants) {
    ImageShape image;
    try {
      image = image_shape(member.root.data);
    } catch (const InputError&) {
      continue;  // `check` reports it
    }
    const ImageShape read = pixels_read(member.root.model, image);
    const bool is_whole = read.height == image.height && read.width == image.width;
    if (is_whole || read.height == 0 || read.width == 0) continue;  // the model itself refuses smaller images
    std::string warning = fmt::format(
        "model.patch: {} x {} of the {} x {} pixels of an image are read, because the others do not fill a patch",
        read.height, read.width, image.height, image.width);
    if (std::ranges::count(study.warnings, warning) == 0) study.warnings.push_back(std::move(warning));
  }
}

bool is_bf16_fast_here() {
  static const bool is_fast = make_backend("cpu")->linear_algebra().is_bf16_fast();
  return is_fast;
}

Study<Experiment> checked(Study<Experiment> study, bool is_bf16_fast) {
  for (StudyVariant& member : study.variants) {
    check_variant(member, check_device);
    check_variant(member, check);
    check_meshes(member);
    resolve_paths(member.root);
  }
  for (StudyVariant& member : study.variants) settle(member.root, is_bf16_fast);
  warn_of_unread_pixels(study);
  return study;
}

void prepare_plan(StudyVariant& member) {
  check_variant(member, check);
  Experiment& experiment = member.root;
  resolve_paths(experiment);
  settle(experiment, is_bf16_fast_here());
  if (experiment.device != DeviceType::plan) experiment.planned = experiment.device;
  experiment.device = DeviceType::plan;
}

}  // namespace heddle
