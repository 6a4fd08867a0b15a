// The streams of one call of the program.
#pragma once

#include <functional>
#include <ostream>

#include "experiments/results/progress.h"

namespace heddle {

/// Results go to `out`, notes and progress to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;  // the terminal of err
  /// Ends the program although some of its threads never end. Set by main, which alone may exit.
  std::function<void(int code)> end_at_once = [](int) {};
  Terminal out_terminal{};
};

}  // namespace heddle
