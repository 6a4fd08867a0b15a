#include "experiments/results/progress.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

#include "experiments/results/accuracy_tables.h"
#include "experiments/results/table.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

constexpr double seconds_between_draws = 0.1;

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

Terminal terminal_of(int descriptor) {
  Terminal terminal{.is_terminal = ::isatty(descriptor) == 1};
  if (!terminal.is_terminal) return terminal;
  const char* const kind = std::getenv("TERM");
  terminal.colour = !is_set("NO_COLOR") && kind != nullptr && std::string_view(kind) != "dumb";
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  return terminal;
}

void Progress::begin(std::string label, std::int64_t first_step, std::int64_t steps, std::int64_t batch) {
  label_ = std::move(label);
  first_step_ = first_step;
  steps_ = steps;
  batch_ = batch;
  begun_ = now_();
  drawn_.reset();
  waited_ = 0;
  accuracy_.clear();
}

void Progress::step(const StepRecord& record) {
  if (!record.accuracies.empty())
    accuracy_ = fmt::format("  {} {} %", record.accuracies.front().first, percent(record.accuracies.front().second));
  waited_ += record.loader_wait.value_or(0);
  if (!terminal_.is_terminal) return;
  const double now = now_();
  const std::int64_t done = record.step + 1;
  if (done < steps_ && !is_due(now)) return;
  drawn_ = now;
  std::string text = fmt::format("step {}/{}", done, steps_);
  if (record.loss) text += fmt::format("  loss {:.4f}", *record.loss);
  text += accuracy_;
  if (now > begun_) {
    const double steps_per_second = static_cast<double>(done - first_step_) / (now - begun_);
    text += fmt::format("  {:.1f} images/s", steps_per_second * static_cast<double>(batch_));
    // By a virtual clock a run may wait longer than it takes.
    const double share = std::min(1.0, waited_ / (now - begun_));
    if (share >= 0.005) text += fmt::format("  loader wait {:.0f} %", 100 * share);
    if (done < steps_)
      text += fmt::format("  {} left", format_seconds(static_cast<double>(steps_ - done) / steps_per_second));
  }
  draw(text);
}

void Progress::show(const std::string& text) {
  if (terminal_.is_terminal) draw(text);
}

void Progress::update(const std::function<std::string()>& text) {
  if (!terminal_.is_terminal) return;
  const double now = now_();
  if (!is_due(now)) return;
  drawn_ = now;
  draw(text());
}

bool Progress::is_due(double now) const {
  return !drawn_ || now - *drawn_ >= seconds_between_draws;
}

void Progress::draw(const std::string& text) {
  // The last column stays free: a character there makes some terminals go on to the next line.
  const std::size_t room = static_cast<std::size_t>(std::max(terminal_.columns, 2)) - 1;
  std::string line = shorten(label_.empty() ? text : label_ + "  " + text, room);
  const std::size_t width = width_of(line);
  if (terminal_.colour && !label_.empty() && line.starts_with(label_))
    line = "\x1b[36m" + label_ + "\x1b[0m" + line.substr(label_.size());
  out_ << '\r' << line << std::string(width_ > width ? width_ - width : 0, ' ') << std::flush;
  width_ = std::max(width, width_);
}

void Progress::clear() {
  if (width_ > 0) out_ << '\r' << std::string(width_, ' ') << '\r' << std::flush;
  width_ = 0;
}

}  // namespace heddle
