#pragma once

#include <cstddef>

namespace native {

// The failed step (for the error's text), its errno, and the number of segments sent before. If that is above zero,
// messages may have taken effect without a reply.
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
