#include "socket_option.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>

namespace native {

namespace {

bool Read(int domain, int level, int option, Bytes* value, Failure* failure) {
  const int fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failure->Set("open socket", errno);
  auto length = static_cast<socklen_t>(value->size());
  const int error = getsockopt(fd, level, option, value->data(), &length) == 0 ? 0 : errno;
  close(fd);
  if (error != 0) return failure->Set("getsockopt", error);
  value->Resize(length);
  return true;
}

}  // namespace

Napi::Value SocketOption(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  constexpr int kMax = std::numeric_limits<int>::max();
  const auto domain = ReadInt(env, info[0], "domain", 0, kMax);
  if (!domain) return Napi::Value();
  const auto level = ReadInt(env, info[1], "level", 0, kMax);
  if (!level) return Napi::Value();
  const auto option = ReadInt(env, info[2], "option", 0, kMax);
  if (!option) return Napi::Value();
  if (!info[3].IsTypedArray()) {
    Napi::TypeError::New(env, "value must be a Uint8Array").ThrowAsJavaScriptException();
    return Napi::Value();
  }
  Bytes value;
  Failure failure;
  if (!CopyBytes(info[3].As<Napi::TypedArray>(), &value)) {
    failure.Set("copy", ENOMEM);
  } else if (Read(*domain, *level, *option, &value, &failure)) {
    return Napi::Value(env, ToUint8Array(env, &value));
  }
  MakeError(env, failure).ThrowAsJavaScriptException();
  return Napi::Value();
}

}  // namespace native
