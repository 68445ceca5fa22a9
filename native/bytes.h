#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// A growable byte buffer on malloc, whose block can be released to the caller. Allocation failure is a return value.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes();

  // Reserves `extra` bytes after size(). Returns false if allocation fails or the limit of 1 GiB is exceeded.
  bool Reserve(size_t extra);
  void Resize(size_t size) { size_ = size; }
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  // Clears the buffer. Keeps the block for reuse unless it is larger than `keep` bytes.
  void Recycle(size_t keep);
  // Returns the block, shrunk to size(). The caller frees it with free(3).
  uint8_t* Release();

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace native
