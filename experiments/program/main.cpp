#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "experiments/program/command_line.h"

int main(int argc, char** argv) {
  // Started by the launcher, which watches over this process and would not be there to end it once it is killed itself.
  if (const char* launcher = std::getenv("HEDDLE_SUPERVISOR"); launcher && launcher == std::to_string(::getppid()))
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A stream that the caller closed: the next file to be opened would take its number, and get what was meant for it.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  // A file that passes the limit on sizes (ulimit -f) is a write that fails, as on a full disk, and not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  return heddle::run_command_line(argc, argv,
                                  {std::cout, std::cerr, heddle::terminal_of(STDERR_FILENO),
                                   [](int code) { std::_Exit(code); }, heddle::terminal_of(STDOUT_FILENO)});
}
