#include "experiments/program/interruption_signals.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <unistd.h>

namespace heddle {

namespace {

// A signal handler has no other way to its data.
Interruption current;
std::atomic<const char*> current_then = nullptr;

void write_error(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_signal(int signal) {
  if (!current.is_heeded || current.signal != 0) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);  // takes effect when this function returns
    return;
  }
  current.signal = signal;
  const char* const then = current_then;
  if (then == nullptr) return;
  const int error = errno;
  write_error("\nheddle: SIG");
  write_error(::sigabbrev_np(signal));
  write_error(": ");
  write_error(then);
  write_error("; a second signal ends it at once\n");
  errno = error;
}

}  // namespace

InterruptionSignals::InterruptionSignals(const std::set<int>& signals, const char* then) {
  set_then(then);
  current.signal = 0;
  current.is_heeded = false;
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
    handled_.insert(signal);
  }
}

InterruptionSignals::~InterruptionSignals() {
  for (const int signal : handled_) std::signal(signal, SIG_DFL);
}

void InterruptionSignals::set_then(const char* then) {
  current_then = then;
}

Interruption& InterruptionSignals::interruption() {
  return current;
}

}  // namespace heddle
