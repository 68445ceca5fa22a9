#pragma once

#include <time.h>

#include <cstdint>

namespace native {

// Returns the monotonic clock in milliseconds.
inline int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

}  // namespace native
