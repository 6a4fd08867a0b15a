// What a rank keeps of its classes between steps: weights, biases and the optimizer's state for them, in the types that
// the experiment names. Rows outside a sample may defer steps (deferred_step_table.h); they catch up before they are
// used. Weights and biases of a replicated head are parameters, which the model's optimizer steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/class_rows.h"
#include "framework/optimizers/optimizer.h"
#include "layers/head/class_sample.h"
#include "layers/head/class_tiles.h"
#include "layers/head/deferred_step_table.h"
#include "layers/head/head_config.h"
#include "layers/parameter.h"
#include "parallel/rank.h"

namespace heddle {

/// The update of phase 2: it clamps each element to [-bound, bound] (0: no bound), multiplies it by `factor` and takes
/// a step.
struct HeadUpdate {
  std::int64_t step = 0;
  double learning_rate = 0;
  double bound = 0;
  double factor = 1;
};

class ClassState {
 public:
  /// `classes`: those of this rank; `dimension`: the size of an embedding; `name`: of the head.
  ClassState(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
             const IndexRange& classes, const Rank& rank, Construction& construction, const std::string& name);
  ClassState(const ClassState&) = delete;
  ClassState& operator=(const ClassState&) = delete;

  /// The step in which the classes are trained for the first time.
  void set_first_step(std::int64_t step) { first_step_ = step; }
  const IndexRange& classes() const { return classes_; }
  /// Rows may have deferred steps.
  ClassTable& weights() { return weights_.table; }
  /// [classes], or those of some rows; undefined if there are none.
  Tensor biases() const;
  Tensor biases_at(const Tensor& index) const;
  /// The parameters that the model's optimizer steps: the weight of a replicated head, and its biases.
  std::vector<Parameter*> parameters();
  /// The state of a sharded head, in which all rows are caught up; that of a replicated head is the optimizer's.
  std::vector<StateTensor> state();

  /// Steps the rows of a tile.
  void step(const ClassTile& tile, const ClassGradient& gradient, const HeadUpdate& update);
  /// With a dense gradient: add_gradient adds the gradient of a tile; step_all steps all rows by the sum and clears it.
  void add_gradient(const ClassTile& tile, const ClassGradient& gradient);
  void step_all(const HeadUpdate& update, std::int64_t tile_size);
  /// Steps all other rows with a gradient of zero.
  void step_unsampled(const ClassSample& sample, const HeadUpdate& update, std::int64_t tile_size);
  /// Called when a step has updated its rows: the other rows defer the step, if they may.
  void end_step(const HeadUpdate& update);
  /// These rows, or all rows, take the steps that they have deferred.
  void catch_up(const Tensor& index);
  void catch_up_all();
  /// Adds the sum of the squares of a tile's gradient, clamped to [-bound, bound], to an f64 element.
  void add_squared_gradient(const ClassTile& tile, const ClassGradient& gradient, double bound, Tensor& result) const;

 private:
  /// One row per class, or one per centre.
  struct Rows {
    std::string name;
    ParameterPart part;
    double weight_decay = 0;
    ClassTable table{};
    Tensor gradient{};  // dense; undefined: there is none
    std::optional<DeferredStepTable> deferred{};
  };

  void make_parameters(Construction& construction);
  void make_tables(Construction& construction);
  void make_state(Rows& rows, const std::optional<DType>& momentum);
  void for_each_table(const std::function<void(Rows&)>& body);
  ClassStep class_step(const Rows& rows, const HeadUpdate& update) const;
  /// Whether every step writes all rows, and can write them elsewhere (Storage::next).
  bool rewrites_all_rows() const;
  /// Steps some rows of a table, with the arguments of ClassRowKernels::step.
  void step_rows(Rows& rows, const ClassSelection& selection, const Tensor& values, const Tensor& inverse_norm,
                 const Tensor& products, const ClassStep& step) const;
  /// The biases of a tile.
  Tensor biases_of(const ClassTile& tile) const;

  const HeadConfig& config_;
  OptimizerConfig optimizer_;
  Device& device_;
  RandomKey key_;
  IndexRange classes_;
  DType dtype_;
  std::uint32_t stream_;
  std::int64_t first_step_ = 0;
  std::vector<Parameter> parameters_;  // of a replicated head
  Rows weights_;
  Rows biases_;  // rows of one element; the table is undefined if there are no biases
};

}  // namespace heddle
