// The dynamic loss scale of training in f16, whose smallest number is 6e-8: the gradient of the loss is multiplied by a
// scale, by which the parameters' gradients are divided again (Micikevicius et al., "Mixed precision training", ICLR
// 2018). Rules and names are those of PyTorch's GradScaler.
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
  std::int64_t growth_interval = 2000;  // consecutive good steps
};
void describe(Describer& d, LossScaleConfig& config);

class LossScale {
 public:
  explicit LossScale(const LossScaleConfig& config) : config_(config), scale_(config.init_scale) {}

  double scale() const { return scale_; }
  /// The number of steps that were skipped since training began.
  std::int64_t skipped_steps() const { return skipped_steps_; }
  /// Called after a step. `overflowed`: a gradient was not finite, and the step is skipped; all ranks pass the same
  /// value. RankFailed if no scale helps: it has fallen below 1e-4, fairseq's bound.
  void end_step(bool overflowed);

  /// The state that a resumed run needs, such as `65536 12 3`: the scale, the good steps since it changed and the
  /// number of skipped steps.
  std::string to_text() const;
  /// Restores what to_text gave; InputError if the text is malformed.
  void set(std::string_view text);

 private:
  LossScaleConfig config_;
  double scale_;
  std::int64_t good_steps_ = 0;
  std::int64_t skipped_steps_ = 0;
};

}  // namespace heddle
