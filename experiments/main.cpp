#include <iostream>

#include <unistd.h>

#include "experiments/command_line.h"

int main(int argc, char** argv) {
  return heddle::run_command_line(argc, argv, {std::cout, std::cerr, heddle::terminal_of(STDERR_FILENO)});
}
