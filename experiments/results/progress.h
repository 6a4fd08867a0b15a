// One line on a terminal that is rewritten in place: step, loss, accuracy, images per second, time left. Off a terminal
// nothing is written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "experiments/training/measurements/result.h"
#include "parallel/communicator/rank_clock.h"

namespace heddle {

/// The abilities of an output stream.
struct Terminal {
  bool is_terminal = false;
  bool colour = false;
  int columns = 80;
};
/// The abilities of a descriptor, from its kind and size and from the variables NO_COLOR and TERM.
Terminal terminal_of(int descriptor);

class Progress {
 public:
  Progress(std::ostream& out, Terminal terminal, std::function<double()> now = steady_seconds)
      : out_(out), terminal_(terminal), now_(std::move(now)) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Steps first_step .. steps-1 follow, each of `batch` images.
  void begin(std::string label, std::int64_t first_step, std::int64_t steps, std::int64_t batch);
  /// After a step. Draws at most ten times a second, and always the last step.
  void step(const StepRecord& record);
  /// Draws a text instead, for a phase without steps: `evaluating`.
  void show(const std::string& text);
  /// The same at most ten times a second, for a text that changes more often. It is made only if it is drawn.
  void update(const std::function<std::string()>& text);
  /// Removes the line, so that other text can be written.
  void clear();

 private:
  bool is_due(double now) const;
  void draw(const std::string& text);

  std::ostream& out_;
  Terminal terminal_;
  std::function<double()> now_;
  std::string label_;
  std::int64_t first_step_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t batch_ = 0;
  double begun_ = 0;             // the time of `begin`
  double waited_ = 0;            // seconds of steps in which rank 0 waited for images, since begin
  std::string accuracy_;         // on the first set, by the last evaluation
  std::optional<double> drawn_;  // when the line was drawn last; absent before the first time
  std::size_t width_ = 0;        // characters of the line that may not be blank
};

}  // namespace heddle
