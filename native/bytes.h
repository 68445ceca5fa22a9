#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// Bytes that grow with malloc's family and can be handed over as one block. Allocation failure is a value.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes();

  // Room for `extra` bytes after size(); false if memory (or the bound, 1 GiB) does not allow it.
  bool Reserve(size_t extra);
  void Resize(size_t size) { size_ = size; }
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  // Empties it, and keeps the block for the next use unless it is larger than `keep` bytes.
  void Recycle(size_t keep);
  // Gives the block, cut to size(), to the caller, who frees it with free(3).
  uint8_t* Release();

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace native
