#include "experiments/training/planning/run_plan.h"

#include <algorithm>

#include "experiments/training/planning/model_layout.h"
#include "framework/description/text.h"
#include "framework/files/atomic_file.h"
#include "parallel/pipeline/schedule_csv.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/validation.h"

namespace heddle {

namespace {

Schedule schedule_of_file(const Experiment& experiment) {
  const PipelineConfig& pipeline = experiment.pipeline;
  Schedule schedule = from_csv(read_file(pipeline.file, max_csv_bytes), pipeline.file);
  if (schedule.size() != experiment.mesh.pp)
    fail<InputError>("{}: expected a row for each of mesh.pp = {} ranks, got {}", pipeline.file, experiment.mesh.pp,
                     schedule.size());
  if (schedule.micro_batches != experiment.train.micro_batches)
    fail<InputError>("{}: expected train.micro_batches = {} micro-batches, got {}", pipeline.file,
                     experiment.train.micro_batches, schedule.micro_batches);
  if (schedule.copies() > 1)
    fail<InputError>("{}: expected one copy of each stage: the two copies of chimera and dualpipe are trained by name",
                     pipeline.file);
  if (is_forward_only(schedule) && !experiment.train.forward_only)
    fail<InputError>("{}: has no backward, so that it cannot train", pipeline.file);
  const std::int64_t stages = experiment.mesh.pp * std::max<std::int64_t>(pipeline.chunks, 1);
  if (pipeline.chunks > 0 && schedule.stages() != stages)
    fail<InputError>("{}: expected mesh.pp * pipeline.chunks = {} stages, got {}", pipeline.file, stages,
                     schedule.stages());
  return schedule;
}

Schedule computing_of(const Experiment& experiment) {
  const PipelineConfig& pipeline = experiment.pipeline;
  if (pipeline.schedule == "csv") {
    if (pipeline.file.empty()) fail<InputError>("pipeline.file: the schedule csv needs a file");
    return schedule_of_file(experiment);
  }
  if (!pipeline.file.empty())
    fail<InputError>("pipeline.file: only the schedule csv is read from a file, this one is {}", pipeline.schedule);
  return make_schedule(pipeline.schedule, shape_of(experiment));
}

}  // namespace

ModelSpec with_recomputed_layers(ModelSpec model, const PipelineConfig& pipeline) {
  if (pipeline.recompute_layers.empty()) return model;
  if (pipeline.recompute == Recompute::sqrt)
    fail<InputError>("expected none, because pipeline.recompute = sqrt recomputes all layers");
  for (const std::string& pattern : pipeline.recompute_layers) model.recompute(pattern);
  return model;
}

RunPlan::RunPlan(std::shared_ptr<const ModelSpec> spec, std::shared_ptr<const ModelPlacement> placements,
                 std::shared_ptr<const ValueForms> known_forms)
    : model(std::move(spec)),
      placement(std::move(placements)),
      forms(known_forms ? std::move(known_forms) : std::make_shared<ValueForms>(*model, *placement)) {}

ScheduleShape shape_of(const Experiment& experiment) {
  const PipelineConfig& pipeline = experiment.pipeline;
  const int chunks = pipeline.chunks > 0 ? static_cast<int>(pipeline.chunks) : default_chunks(pipeline.schedule);
  return {.ranks = static_cast<int>(experiment.mesh.pp),
          .micro_batches = static_cast<int>(experiment.train.micro_batches),
          .chunks = chunks};
}

LossForm loss_form_of(HeadWork work) {
  if (work == HeadWork::at_once) return LossForm::on_all;
  return work == HeadWork::two_exchanges ? LossForm::in_two_exchanges : LossForm::in_one_exchange;
}

Schedule schedule_of(const Experiment& experiment) {
  Schedule schedule = computing_of(experiment);
  if (is_forward_only(schedule)) return with_communication(std::move(schedule), experiment.pipeline.receives);
  const LossForm loss =
      experiment.head.is_everywhere() ? loss_form_of(experiment.pipeline.head_work) : LossForm::on_last_stage;
  schedule = with_recompute(std::move(schedule), experiment.pipeline.recompute);
  if (has_offload(schedule)) check(schedule, experiment.pipeline.file);  // what is recomputed cannot be offloaded
  schedule = with_offload(std::move(schedule), experiment.pipeline.offload);
  return with_communication(with_loss(std::move(schedule), loss), experiment.pipeline.receives);
}

std::shared_ptr<const RunPlan> plan_run(const Experiment& experiment, const std::shared_ptr<const ModelSpec>& model,
                                        const Mesh& mesh, const std::vector<double>& seconds) {
  auto placement = std::make_shared<ModelPlacement>(placement_of(*model, experiment, mesh));
  Schedule schedule = schedule_of(experiment);
  const std::vector<int> rank_of = schedule.rank_of;
  if (mesh.size(Axis::copies) != schedule.copies())
    fail<InputError>("mesh: expected {}, as many as pipeline.schedule {} has, got {}",
                     counted(schedule.copies(), "copy of each stage", "copies of each stage"),
                     experiment.pipeline.schedule, mesh.size(Axis::copies));
  StageCut cut = cut_of(*model, experiment, *placement, schedule, seconds);
  auto recomputed = std::make_shared<ModelSpec>(with_recomputed_layers(*model, experiment.pipeline));
  auto plan = std::make_shared<RunPlan>(std::move(recomputed), std::move(placement));
  plan->cut = std::move(cut);
  plan->has_sqrt_segments = experiment.pipeline.recompute == Recompute::sqrt;
  const bool has_backward = !is_forward_only(schedule);
  plan->training = make_program(std::move(schedule));
  if (experiment.train.forward_only)
    plan->forward = has_backward ? make_program(forward_only(rank_of, static_cast<int>(experiment.train.micro_batches)))
                                 : plan->training;
  // Twice as many as ranks keep all of them busy two thirds of the time.
  plan->embedding_batches = experiment.mesh.pp == 1 ? 1 : 2 * static_cast<int>(experiment.mesh.pp);
  if (experiment.evaluate) plan->embedding = make_program(forward_only(rank_of, plan->embedding_batches));
  return plan;
}

}  // namespace heddle
