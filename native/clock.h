#pragma once

#include <time.h>

#include <cstdint>
#include <limits>

namespace native {

// Returns the monotonic clock in milliseconds.
inline int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

// A time limit in milliseconds that begins when Left() is first called, so that work that never waits reads no clock:
// reading it costs a system call in some virtual machines.
class Deadline {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit Deadline(int64_t limit) : limit_(limit) {}

  int64_t Left() {
    const int64_t now = NowMs();
    if (end_ == kNotBegun) end_ = limit_ < kNever - now ? now + limit_ : kNever;
    return end_ - now;
  }

  void Restart() { end_ = kNotBegun; }

 private:
  static constexpr int64_t kNotBegun = -1;

  const int64_t limit_;
  int64_t end_ = kNotBegun;
};

}  // namespace native
