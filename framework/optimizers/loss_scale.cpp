#include "framework/optimizers/loss_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr double min_scale = 1e-4;
constexpr double max_scale = 0x1p100;  // so that f32 gradients do not overflow

/// Takes the number with which the text begins, and a space after it, off the text. False if there is none.
template <class Number>
bool take(std::string_view& text, Number& number) {
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(stopped - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

}  // namespace

void describe(Describer& d, LossScaleConfig& c) {
  d.field("init_scale", c.init_scale, between(min_scale, max_scale), "the scale at the beginning of a run");
  d.field("growth_factor", c.growth_factor, at_least(1),
          "factor by which the scale is multiplied after growth_interval good steps");
  d.field("backoff_factor", c.backoff_factor,
          Range{.minimum = 0, .maximum = 1, .excludes_minimum = true, .excludes_maximum = true},
          "factor by which the scale is multiplied after an overflow");
  d.field("growth_interval", c.growth_interval, between(1, 4e9),
          "number of steps without an overflow after which the scale grows");
}

void LossScale::end_step(bool overflowed) {
  if (!overflowed) {
    if (++good_steps_ < config_.growth_interval) return;
    scale_ = std::min(scale_ * config_.growth_factor, max_scale);
    good_steps_ = 0;
    return;
  }
  ++skipped_steps_;
  good_steps_ = 0;
  scale_ *= config_.backoff_factor;
  if (scale_ < min_scale)
    fail<RankFailed>("gradients overflow however small the loss scale is, {} now: the training has diverged", scale_);
}

std::string LossScale::to_text() const {
  return fmt::format("{} {} {}", scale_, good_steps_, skipped_steps_);
}

void LossScale::set(std::string_view text) {
  std::string_view rest = text;
  LossScale read(config_);
  if (!take(rest, read.scale_) || !take(rest, read.good_steps_) || !take(rest, read.skipped_steps_) || !rest.empty() ||
      !(read.scale_ >= min_scale && read.scale_ <= max_scale) || read.good_steps_ < 0 || read.skipped_steps_ < 0)
    fail<InputError>("expected a loss scale and two counts of steps, got \"{}\"", text);
  *this = read;
}

}  // namespace heddle
