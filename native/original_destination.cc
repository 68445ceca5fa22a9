#include "original_destination.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <limits>

namespace native {

namespace {

// SO_ORIGINAL_DST (linux/netfilter_ipv4.h) and IP6T_SO_ORIGINAL_DST (linux/netfilter_ipv6/ip6_tables.h).
constexpr int kOriginalDestination = 80;

bool Copy(const void* address, size_t length, in_port_t port, Bytes* bytes) {
  if (!bytes->Reserve(length + sizeof(port))) return false;
  memcpy(bytes->data(), address, length);
  memcpy(bytes->data() + length, &port, sizeof(port));
  bytes->Resize(length + sizeof(port));
  return true;
}

bool Read(int fd, Bytes* bytes, Failure* failure) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return failure->Set("getsockname", errno);
  const sa_family_t family = address.ss_family;
  if (family != AF_INET && family != AF_INET6) return failure->Set("getsockname", EAFNOSUPPORT);
  const int level = family == AF_INET ? SOL_IP : SOL_IPV6;
  length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getsockopt(fd, level, kOriginalDestination, &address, &length) != 0)
    return failure->Set("SO_ORIGINAL_DST", errno);
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  const bool copied = family == AF_INET ? Copy(&v4.sin_addr, sizeof(v4.sin_addr), v4.sin_port, bytes)
                                        : Copy(&v6.sin6_addr, sizeof(v6.sin6_addr), v6.sin6_port, bytes);
  return copied || failure->Set("copy", ENOMEM);
}

}  // namespace

Napi::Value OriginalDestination(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto fd = ReadInt(env, info[0], "fd", 0, std::numeric_limits<int>::max());
  if (!fd) return Napi::Value();
  Bytes bytes;
  Failure failure;
  if (!Read(*fd, &bytes, &failure)) {
    MakeError(env, failure).ThrowAsJavaScriptException();
    return Napi::Value();
  }
  return Napi::Value(env, ToUint8Array(env, &bytes));
}

}  // namespace native
