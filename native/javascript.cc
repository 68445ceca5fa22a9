#include "javascript.h"

#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <string>

namespace native {

namespace {

// Replies below this size are copied: an external ArrayBuffer costs more than the copy.
constexpr size_t kCopyBelow = 4096;

void FreeBlock(napi_env, void* data, void*) { free(data); }

}  // namespace

Napi::Error MakeError(Napi::Env env, const Failure& failure) {
  const std::string text = std::string(failure.operation) + ": errno " + std::to_string(failure.error);
  Napi::Error error = Napi::Error::New(env, text);
  error.Set("operation", Napi::String::New(env, failure.operation));
  error.Set("errno", Napi::Number::New(env, failure.error));
  error.Set("sent", Napi::Number::New(env, static_cast<double>(failure.sent)));
  return error;
}

std::optional<int> ReadInt(Napi::Env env, const Napi::Value& value, const char* name, int low, int high) {
  if (env.IsExceptionPending()) return std::nullopt;
  if (value.IsNumber()) {
    const double number = value.As<Napi::Number>().DoubleValue();
    if (number >= low && number <= high && number == std::floor(number)) return static_cast<int>(number);
  }
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  const std::string text = std::string(name) + " must be a whole number from " + range;
  Napi::TypeError::New(env, text).ThrowAsJavaScriptException();
  return std::nullopt;
}

bool CopyBytes(const Napi::TypedArray& array, Bytes* bytes) {
  const size_t length = array.ByteLength();
  if (length == 0) return true;
  if (!bytes->Reserve(length)) return false;
  void* data = nullptr;
  if (napi_get_typedarray_info(array.Env(), array, nullptr, nullptr, &data, nullptr, nullptr) != napi_ok) return false;
  if (data == nullptr) return false;
  memcpy(bytes->data(), data, length);
  bytes->Resize(length);
  return true;
}

napi_value ToUint8Array(Napi::Env env, Bytes* bytes) {
  const size_t size = bytes->size();
  napi_value buffer = nullptr;
  if (size >= kCopyBelow) {
    uint8_t* const block = bytes->Release();
    if (napi_create_external_arraybuffer(env, block, size, FreeBlock, nullptr, &buffer) != napi_ok) {
      free(block);
      return nullptr;
    }
  } else {
    void* data = nullptr;
    if (napi_create_arraybuffer(env, size, &data, &buffer) != napi_ok) return nullptr;
    if (size > 0) memcpy(data, bytes->data(), size);
  }
  napi_value array = nullptr;
  if (napi_create_typedarray(env, napi_uint8_array, size, buffer, 0, &array) != napi_ok) return nullptr;
  return array;
}

}  // namespace native
