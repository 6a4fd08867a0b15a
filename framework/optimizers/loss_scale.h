// The dynamic loss scale of training in f16, whose smallest number is 6e-8: backward passes start with the loss'
// gradient times a scale, by which the parameters' gradients are divided again (Micikevicius et al., "Mixed precision
// training", ICLR 2018). Rules and names are those of PyTorch's GradScaler.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

class Describer;

struct LossScaleConfig {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // good steps in a row
};
void describe(Describer& d, LossScaleConfig& config);

class LossScale {
 public:
  explicit LossScale(const LossScaleConfig& config) : config_(config), scale_(config.init_scale) {}

  double scale() const { return scale_; }
  /// How many steps were not taken since the beginning.
  std::int64_t skipped_steps() const { return skipped_steps_; }
  /// After a step. `overflowed`: a gradient was not finite, and the step is skipped; all ranks say the same. RankFailed
  /// when no scale helps (it has come below 1e-4, fairseq's bound).
  void end_step(bool overflowed);

  /// All that a run needs to go on: `65536 12 3`, scale, good steps since it changed, steps skipped.
  std::string to_text() const;
  /// InputError if it is no such text.
  void set(std::string_view text);

 private:
  LossScaleConfig config_;
  double scale_;
  std::int64_t good_steps_ = 0;
  std::int64_t skipped_steps_ = 0;
};

}  // namespace heddle
