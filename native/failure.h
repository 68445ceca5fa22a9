#pragma once

#include <cstddef>

namespace native {

// What stopped an operation: the step (English, for the error's text), the errno, and how many segments had been handed
// to the kernel by then: above zero, effects may exist whose replies the caller will never see.
struct Failure {
  const char* operation = nullptr;
  int error = 0;
  size_t sent = 0;

  bool Set(const char* step, int code, size_t segments = 0) {
    operation = step;
    error = code;
    sent = segments;
    return false;
  }
};

}  // namespace native
