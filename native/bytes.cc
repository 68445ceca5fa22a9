#include "bytes.h"

#include <stdlib.h>

namespace native {

namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;

}  // namespace

Bytes::~Bytes() { free(data_); }

bool Bytes::Reserve(size_t extra) {
  if (extra <= capacity_ - size_) return true;
  if (extra > kMaxBytes - size_) return false;
  size_t capacity = capacity_ * 2 > size_ + extra ? capacity_ * 2 : size_ + extra;
  if (capacity > kMaxBytes) capacity = kMaxBytes;
  void* grown = realloc(data_, capacity);
  if (grown == nullptr) return false;
  data_ = static_cast<uint8_t*>(grown);
  capacity_ = capacity;
  return true;
}

void Bytes::Recycle(size_t keep) {
  size_ = 0;
  if (capacity_ <= keep) return;
  free(data_);
  data_ = nullptr;
  capacity_ = 0;
}

uint8_t* Bytes::Release() {
  uint8_t* block = data_;
  if (size_ > 0 && size_ < capacity_) {
    void* cut = realloc(data_, size_);
    if (cut != nullptr) block = static_cast<uint8_t*>(cut);
  }
  data_ = nullptr;
  size_ = capacity_ = 0;
  return block;
}

}  // namespace native
