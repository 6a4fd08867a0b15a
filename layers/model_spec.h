// A model before it is built: a list of layer applications in topological order, each naming its inputs by index. Value
// 0 is the model's input, value i + 1 the output of application i. A residual branch is a value that is used twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/layer_spec.h"

namespace heddle {

/// InputError if the pattern matches none of the names. It shows one that is similar.
void check_pattern(const std::string& pattern, std::span<const std::string> names);

/// The placement that the user requests for a layer. A planner that places automatically ignores it.
struct PlacementRequest {
  Parallel kind = Parallel::data;
  std::optional<Axis> over{};       // tp if the mesh has several ranks there, else dp
  std::optional<Parallel> other{};  // along the other axis; if empty: data, or as the layers beside it
};

class ModelSpec {
 public:
  struct Application {
    std::string name;
    LayerSpecPointer layer;
    std::vector<int> inputs;
    std::optional<PlacementRequest> request{};
    std::optional<int> stage{};  // the pipeline stage, if the user names one
    bool recomputed = false;     // in the backward pass, rather than kept
    int depth = 0;               // 0 before the first block, i in the i-th of b blocks, b + 1 after the last
    std::size_t parameters = 0;  // the number of the layer's parameters
    std::uint32_t streams = 0;   // the number of random streams that building the layer takes
  };

  /// `sample`: the shape of one sample, e.g. [height, width, channels].
  explicit ModelSpec(const Shape& sample);

  /// Appends an application and returns the index of its output. InputError names the layer if its inputs do not fit.
  int apply(std::string name, LayerSpecPointer layer, std::vector<int> inputs);
  /// Appends a layer that reads the last value.
  int then(std::string name, LayerSpecPointer layer);
  /// Begins a block, of a transformer or with a residual: the layers that are applied next belong to it.
  void begin_block() { depth_ = ++blocks_; }
  /// The layers that are applied next come after all blocks.
  void end_blocks() { depth_ = blocks_ + 1; }
  /// The number of blocks; 0 for a model that is not made of blocks.
  int blocks() const { return blocks_; }
  /// The depth of an application, counted from the end: 0 after the last block, 1 in it, blocks() + 1 before the
  /// first.
  int depth_from_end(const Application& application) const { return blocks_ + 1 - application.depth; }
  /// Places all applications whose names match, where `*` stands for any text. InputError if there are none.
  void place(std::string_view pattern, const PlacementRequest& request);
  /// Recomputes the values of all matching applications in the backward pass.
  void recompute(std::string_view pattern);
  void clear_requests();
  /// Does not train the parameters whose names match: they get no gradient. InputError if a pattern matches none.
  void freeze(const std::vector<std::string>& patterns);
  /// The names of all parameters, in model order.
  std::vector<std::string> parameter_names() const;
  /// Sets the stage of the layer that makes a value; if empty, it is that of the layer before it.
  void name_stage(int value, std::optional<int> stage) {
    applications_[static_cast<std::size_t>(value) - 1].stage = stage;
  }

  const std::vector<Application>& applications() const { return applications_; }
  int last_value() const { return static_cast<int>(applications_.size()); }
  /// Shape of value `index` in training for one sample, without the leading dimension of the samples.
  const Shape& sample(int index) const { return samples_[static_cast<std::size_t>(index)]; }
  /// The same in evaluation, where no tokens are masked.
  const Shape& evaluation_sample(int index) const { return evaluation_samples_[static_cast<std::size_t>(index)]; }
  /// The shape for this number of samples, in training or in evaluation.
  Shape shape(int index, std::int64_t samples, bool in_training = true) const;
  /// Whether a value depends on parameters that are trained, so that its gradient is wanted.
  bool has_gradient(int index) const { return has_gradient_[static_cast<std::size_t>(index)]; }
  /// Whether any of its layer's parameters is trained.
  static bool trains_parameters(const Application& application);
  /// Whether the gradient of an input is wanted.
  bool gives_gradient(const Application& application) const;
  /// The number of random streams that building all layers takes.
  std::uint32_t streams() const;
  /// The parts of a batch that batch norms normalise separately: the most of any layer; 0 without batch norms.
  std::int64_t norm_groups(std::int64_t dp, std::int64_t micro_batches) const;
  /// Shapes of an application's inputs in training for this number of samples.
  std::vector<Shape> input_shapes(const Application& application, std::int64_t samples) const;

 private:
  /// The applications whose names match.
  std::vector<Application*> matching(std::string_view pattern);
  Shape evaluation_output_of(const Application& application) const;
  /// Whether the output of an application has a gradient, if its inputs have those that are known.
  bool has_output_gradient(const Application& application) const;

  std::vector<Application> applications_;
  std::vector<Shape> samples_;
  std::vector<Shape> evaluation_samples_;
  std::vector<bool> has_gradient_;
  int blocks_ = 0;
  int depth_ = 0;  // of the layers that are applied next
};

}  // namespace heddle
