#include "experiments/training/prediction/ranks_profile.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>

#include "experiments/training/planning/model_layout.h"
#include "experiments/training/prediction/profiled_steps.h"
#include "experiments/training/prediction/stepped_elements.h"
#include "experiments/training/span_names.h"

namespace heddle {

namespace {

/// One step of all ranks, by world rank.
class StepOfRanks {
 public:
  StepOfRanks(const Experiment& experiment, const RunPlan& plan, std::span<const LayerMessages> layers,
              std::vector<const ProfiledStep*> ranks)
      : experiment_(experiment), plan_(plan), layers_(layers), mesh_(plan.placement->mesh), ranks_(std::move(ranks)) {}

  StageProfile profile() const {
    StageProfile profile;
    for (int stage = 0; stage < plan_.stages(); ++stage) {
      profile.first.push_back(stage_costs(stage, Counted::first));
      profile.later.push_back(stage_costs(stage, Counted::later));
      std::int64_t offloaded = 0;
      for (const ProfiledStep* const rank : ranks_)
        offloaded = std::max(offloaded, rank->spans.offloaded_bytes(stage, micro_batches()));
      profile.offloaded_bytes.push_back(offloaded);
    }
    profile.loss = loss();
    profile.head_weight = head(span_names::head_weight);
    profile.head_norm = head(span_names::head_norm);
    profile.optimizer = optimizer();
    profile.is_of_ranks = true;
    return profile;
  }

 private:
  std::int64_t micro_batches() const { return experiment_.train.micro_batches; }
  const ProfiledStep& step_of(int rank) const { return *ranks_[static_cast<std::size_t>(rank)]; }

  /// Ranks that compute the same actions at the same time and wait for each other: in layers that they share, in H, or
  /// at the latest when they sum the gradients. (In a forward pass, replicas do not wait, and the step is that of the
  /// slowest.)
  struct Group {
    SpanSamples spans;
    double speed = 1;  // of the slowest rank
  };
  std::vector<Group> groups_over(AxisSet axes) const {
    std::set<std::vector<int>> members;
    for (int rank = 0; rank < mesh_.size(); ++rank) members.insert(mesh_.ranks_over(axes, rank));
    std::vector<Group> groups;
    for (const std::vector<int>& ranks : members) {
      std::vector<const SpanSamples*> spans;
      for (const int rank : ranks) spans.push_back(&step_of(rank).spans);
      groups.push_back({SpanSamples::of_group(spans), experiment_.ranks.slowest_of(ranks)});
    }
    return groups;
  }

  /// The mean of the groups that have computed the stage: those of all its copies, and of one if nothing goes backward.
  StageCosts stage_costs(int stage, Counted counted) const {
    StageCosts result{.forward = 0, .backward_input = 0, .backward_weight = 0, .recompute = 0};
    constexpr std::array parts{&StageCosts::forward, &StageCosts::backward_input, &StageCosts::backward_weight,
                               &StageCosts::recompute};
    int groups = 0;
    for (const Group& group : replicas_) {
      if (group.spans.mean_of(ActionKind::forward, stage, micro_batches(), Counted::all) == 0) continue;
      const StageCosts costs = group.spans.stage_costs(stage, micro_batches(), counted);
      for (double StageCosts::*const part : parts) result.*part += costs.*part * group.speed;
      ++groups;
    }
    for (double StageCosts::*const part : parts) result.*part /= std::max(groups, 1);
    return result;
  }

  bool trains_head(int rank) const { return heddle::trains_head(experiment_, plan_, mesh_.coordinates(rank).pp); }
  /// A rank's part of a micro-batch is this part of what one replica's samples take with all classes.
  double head_part() const { return static_cast<double>(experiment_.mesh.dp) / mesh_.size(experiment_.head.axes()); }

  /// The ranks that share the classes wait in H for the last of them.
  double loss() const {
    AxisSet axes{Axis::dp, Axis::tp};  // and those of all heads, which H computes one after the other
    for (std::size_t i = 0; i < experiment_.heads(); ++i)
      experiment_.head_of(i).class_axes().for_each([&](Axis axis) { axes.insert(axis); });
    double all = 0;
    int counted = 0;
    for (const Group& group : groups_over(axes))
      for (int i = 0; i < micro_batches(); ++i) {
        const double seconds = group.spans.sum_of(to_string(Action{ActionKind::loss, plan_.stages() - 1, i}));
        if (seconds == 0) continue;  // of the other copy of the last stage, or of another stage
        all += seconds * group.speed;
        ++counted;
      }
    return counted == 0 ? 0 : all / counted / head_part();
  }

  /// What the slowest rank computes in the spans of this name, of one micro-batch and all classes: the next step waits
  /// for it.
  double head(const char* name) const {
    double most = 0;
    for (int rank = 0; rank < mesh_.size(); ++rank)
      if (trains_head(rank))
        most = std::max(most, step_of(rank).spans.computing_of(name) * experiment_.ranks.speed_of(rank));
    const double seen = static_cast<double>(micro_batches()) / (experiment_.head.is_everywhere() ? 1 : plan_.copies());
    return most / (seen * head_part());
  }

  double optimizer() const {
    double seconds = 0;
    double elements = 0;
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      seconds += step_of(rank).computing_update * experiment_.ranks.speed_of(rank);
      elements += stepped_elements(experiment_, plan_, layers_, mesh_.coordinates(rank).pp);
    }
    return elements > 0 ? seconds / elements * trained_elements(experiment_, plan_) : 0;
  }

  const Experiment& experiment_;
  const RunPlan& plan_;
  const std::span<const LayerMessages> layers_;
  const Mesh mesh_;
  const std::vector<const ProfiledStep*> ranks_;
  const std::vector<Group> replicas_ = groups_over({Axis::dp, Axis::tp});  // one for each rank along pp
};

}  // namespace

std::vector<StageProfile> profile_ranks(const Experiment& experiment, const Dataset& dataset, const RunPlan& plan) {
  const Experiment profiled = profiled_experiment(experiment);
  // Keeps the run's placements: on links that take no time, the planner would choose others.
  auto own = std::make_shared<RunPlan>(plan);
  own->training = make_program(schedule_of(profiled));
  const std::vector<std::vector<ProfiledStep>> ranks = run_profiled(profiled, dataset, own);
  const std::vector<LayerMessages> layers = layer_messages(profiled, plan);
  std::vector<StageProfile> profiles;
  for (std::size_t step = 0; step < ranks.front().size(); ++step) {
    std::vector<const ProfiledStep*> of_step;
    for (const std::vector<ProfiledStep>& of_rank : ranks) of_step.push_back(&of_rank[step]);
    profiles.push_back(StepOfRanks(profiled, *own, layers, std::move(of_step)).profile());
  }
  return profiles;
}

}  // namespace heddle
