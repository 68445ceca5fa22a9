#include "socket_options.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>

#include "open_socket.h"

namespace native {

namespace {

bool Divides(const Napi::Uint32Array& lengths, size_t size) {
  size_t sum = 0;
  for (size_t i = 0; i < lengths.ElementLength(); i++) sum += lengths[i];
  return sum == size;
}

void ReadAll(int fd, int level, int option, const Napi::Uint32Array& lengths, uint8_t* value) {
  for (size_t i = 0; i < lengths.ElementLength(); value += lengths[i++]) {
    socklen_t length = lengths[i];
    if (getsockopt(fd, level, option, value, &length) != 0) memset(value, 0, lengths[i]);
  }
}

Napi::Value TypeError(Napi::Env env, const char* text) {
  Napi::TypeError::New(env, text).ThrowAsJavaScriptException();
  return Napi::Value();
}

}  // namespace

Napi::Value SocketOptions(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  std::string netns;
  if (info[0].IsString()) {
    netns = info[0].As<Napi::String>().Utf8Value();
  } else if (!info[0].IsUndefined()) {
    return TypeError(env, "netns must be a string");
  }
  int numbers[3];
  const char* const names[] = {"domain", "level", "option"};
  for (size_t i = 0; i < 3; i++) {
    const auto number = ReadInt(env, info[i + 1], names[i], 0, std::numeric_limits<int>::max());
    if (!number) return Napi::Value();
    numbers[i] = *number;
  }
  if (!info[4].IsTypedArray() || info[4].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    return TypeError(env, "values must be a Uint8Array");
  }
  if (!info[5].IsTypedArray() || info[5].As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array) {
    return TypeError(env, "lengths must be a Uint32Array");
  }
  auto values = info[4].As<Napi::Uint8Array>();
  const auto lengths = info[5].As<Napi::Uint32Array>();
  if (!Divides(lengths, values.ElementLength())) return TypeError(env, "lengths must divide values");
  Failure failure;
  const int fd = OpenSocket(netns, numbers[0], SOCK_DGRAM, 0, &failure);
  if (fd < 0) {
    MakeError(env, failure).ThrowAsJavaScriptException();
    return Napi::Value();
  }
  ReadAll(fd, numbers[1], numbers[2], lengths, values.Data());
  close(fd);
  return env.Undefined();
}

}  // namespace native
