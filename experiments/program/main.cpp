#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include <execinfo.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "experiments/program/command_line.h"

namespace {

std::atomic<bool> has_ended = false;

/// The launcher could not tell the exit code of an interrupted run, 128 + signal, from death by this signal.
void report_interruption(const char* pipe) {
  [[maybe_unused]] const auto written = ::write(std::atoi(pipe), "interrupted\n", 12);
}

/// libgomp exits with EXIT_FAILURE where the system starts no thread for it, and says so. Nothing else here does.
void explain_exit_of_libgomp(int status, void* /*unused*/) {
  if (status != EXIT_FAILURE || has_ended) return;
  std::cerr
      << "heddle: a library has ended the process, perhaps because the system cannot start the computing threads: "
         "a limit (ulimit -v, ulimit -u) or OMP_STACKSIZE"
      << std::endl;
  std::_Exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  // The launcher supervises this process. If the launcher is killed, the kernel ends this process.
  const char* const launcher = std::getenv("HEDDLE_SUPERVISOR");
  const bool is_supervised = launcher != nullptr && launcher == std::to_string(::getppid());
  if (is_supervised) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::on_exit(explain_exit_of_libgomp, nullptr);
  // If the caller closed a standard stream, the next file to be opened would take its number and receive its output.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  // A file that passes the size limit (ulimit -f) makes a write fail, as a full disk does, instead of ending the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  // The C library loads what unwinds the stack when it first needs it, and aborts if it cannot. Where an exception says
  // that the memory is used up, that would be too late.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  const int code = heddle::run_command_line(argc, argv,
                                            {.out = std::cout,
                                             .err = std::cerr,
                                             .terminal = heddle::terminal_of(STDERR_FILENO),
                                             .end_at_once = [](int status) { std::_Exit(status); },
                                             .out_terminal = heddle::terminal_of(STDOUT_FILENO)});
  if (const char* pipe = std::getenv("HEDDLE_SUPERVISOR_PIPE"); is_supervised && pipe != nullptr && code > 128)
    report_interruption(pipe);
  has_ended = true;
  return code;
}
