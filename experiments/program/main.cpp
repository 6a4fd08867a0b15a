#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "experiments/program/command_line.h"

int main(int argc, char** argv) {
  // The launcher supervises this process. If the launcher is killed, the kernel ends this process.
  if (const char* launcher = std::getenv("HEDDLE_SUPERVISOR"); launcher && launcher == std::to_string(::getppid()))
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // If the caller closed a standard stream, the next file to be opened would take its number and receive its output.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  // A file that passes the size limit (ulimit -f) makes a write fail, as a full disk does, instead of ending the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  return heddle::run_command_line(argc, argv,
                                  {std::cout, std::cerr, heddle::terminal_of(STDERR_FILENO),
                                   [](int code) { std::_Exit(code); }, heddle::terminal_of(STDOUT_FILENO)});
}
