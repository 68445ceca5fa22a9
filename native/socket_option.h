// Options of the network namespace that are read at any socket of a family, such as the tables of iptables-legacy.
#pragma once

#include "javascript.h"

namespace native {

// socketOption(domain: number, level: number, option: number, value: Uint8Array): Uint8Array. Calls getsockopt(2) at a new
// datagram socket with a copy of `value`, and returns what the kernel has made of it. Throws the Error of MakeError.
Napi::Value SocketOption(const Napi::CallbackInfo& info);

}  // namespace native
