// Starts a program and waits for its end, in plain POSIX: no JavaScript here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bytes.h"
#include "failure.h"

namespace native {

struct Command {
  // The first is the program: a path, or a name that is looked for in the PATH of `environment`.
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value", all that the program gets
  Bytes input;
  int deadline_ms = 0;
  size_t max_output = 0;  // bytes, of each of the two streams
};

struct Outcome {
  int status = -1;  // exit status; -1 where a signal ended it
  int signal = 0;   // that signal
  Bytes output;
  Bytes errors;
};

// Blocks until the program has ended and nobody holds its output open any more. A program that reads no input is no
// failure. On failure it is dead and reaped (what it had started itself may live on): ENOENT, there is no such program;
// ETIMEDOUT, the deadline; EFBIG, more output than allowed; any other errno, it could not be started or talked to.
bool Execute(const Command& command, Outcome* outcome, Failure* failure);

}  // namespace native
