// The layouts that a search considers: every way to train one experiment on a number of ranks that its model, its batch
// and the schedules permit. All of them train the same thing as the experiment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/layout_search/layout.h"
#include "layers/model_spec.h"

namespace heddle {

/// Changes that a search makes only if they are allowed, because they cost work or memory of the host, or change the
/// sums of the training.
enum class AllowedChange {
  recompute,      // more work for less memory
  offload,        // memory of the host in place of that of the ranks
  micro_batches,  // other sums of the same gradients
  norm_groups     // batch norms normalise other parts of the batch
};
template <>
inline constexpr auto enum_names<AllowedChange> = enum_table<AllowedChange>({
    {AllowedChange::recompute, "recompute"},
    {AllowedChange::offload, "offload"},
    {AllowedChange::micro_batches, "micro_batches"},
    {AllowedChange::norm_groups, "norm_groups"},
});
using AllowedChanges = std::set<AllowedChange>;

class LayoutSpace {
 public:
  /// `written` is on plan. InputError if no mesh of this number of ranks is possible, with the reason for each mesh.
  /// The checks of the experiment, which take longer, may refuse some of the layouts later.
  LayoutSpace(const Experiment& written, int ranks, const AllowedChanges& allowed);

  /// The experiment's own layout. Its mesh may have another number of ranks than those of the space.
  const Layout& written() const { return written_; }
  bool contains_written() const { return mesh_of(written_.mesh).size() == ranks_; }
  const std::vector<MeshConfig>& meshes() const { return meshes_; }
  /// Throws the InputError that no mesh trains the experiment. `reasons`: those of the meshes that seemed possible.
  [[noreturn]] void refuse_all(const std::map<std::string, std::string>& reasons) const;
  /// The layouts of the space that differ from this one in one option. Where they must, others follow: a mesh without
  /// stages has no schedule.
  std::vector<Layout> neighbours(const Layout& from, LayoutOption option) const;
  /// Every mesh with every number of micro-batches, schedule, recomputation and offloading; the other options are as
  /// written.
  const std::vector<Layout>& starts() const { return starts_; }
  /// Every mesh with every number of micro-batches under one schedule, 1f1b where it is possible.
  std::vector<Layout> starts_of_one_schedule() const;
  /// All layouts, or none if there are more than this number.
  std::vector<Layout> all(std::size_t max_layouts) const;
  /// The number of layouts, if the planner finds placements of its own for each of them.
  std::size_t size() const;

  /// The experiment with this layout. InputError if the planner finds no placements for it.
  Experiment experiment(const Layout& layout) const;
  /// The number of parts of the batch that batch norms normalise, if all layouts must keep it.
  std::optional<std::int64_t> fixed_norm_groups() const;
  /// The number of layers and other applications of the model.
  std::size_t applications() const { return model_.applications().size(); }

 private:
  struct Scheduled {
    std::string name;
    std::int64_t chunks = 1;
  };

  void add_meshes();
  void add_starts();
  /// Why no layout has this mesh; empty if one has.
  std::string refusal(const MeshConfig& mesh) const;
  std::vector<std::int64_t> micro_batches_of(const MeshConfig& mesh) const;
  const std::vector<Scheduled>& schedules_of(std::int64_t pp, std::int64_t micro_batches) const;
  std::vector<Recompute> recomputations() const;
  std::vector<Offload> offloads_of(const Layout& layout) const;
  std::vector<ShardedState> shards_of(const MeshConfig& mesh) const;
  std::vector<AxisSet> head_axes_of(const MeshConfig& mesh) const;
  std::vector<Logits> logits() const;
  std::vector<HeadWork> head_works_of(const Layout& layout) const;
  std::vector<CutChoice> cuts_of(const Layout& layout) const;
  std::vector<PlacementChoice> placements_of(Layout layout) const;
  /// Nothing unless the planner finds placements that share more than samples.
  const std::optional<std::vector<PlacementConfig>>& planned_placements(const Layout& layout) const;
  Experiment with_options(const Layout& layout) const;
  /// The layout with the options that its mesh, schedule and micro-batches permit, as close to it as possible.
  std::optional<Layout> fitted(Layout layout) const;

  Experiment experiment_;
  ModelSpec model_;
  AllowedChanges allowed_;
  Layout written_;
  std::vector<std::int64_t> micro_batches_;  // their possible numbers, the experiment's own first
  bool names_stages_ = false;
  int ranks_;
  std::vector<MeshConfig> meshes_;
  std::map<std::string, std::string> refusals_;  // of the other meshes
  std::vector<Layout> starts_;
  mutable std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Scheduled>> schedules_;
  mutable std::map<std::string, std::optional<std::vector<PlacementConfig>>> placements_;
};

}  // namespace heddle
