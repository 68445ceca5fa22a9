// The destination of a TCP connection before rules of this node translated it.
#pragma once

#include "javascript.h"

namespace native {

// originalDestination(fd: number): Uint8Array. The address (4 or 16 bytes) and the port (2 bytes), both in network byte
// order. Throws the Error of MakeError: ENOENT if connection tracking does not know the connection, ENOPROTOOPT if it is
// not loaded, EAFNOSUPPORT if the descriptor is no socket of IPv4 or IPv6.
Napi::Value OriginalDestination(const Napi::CallbackInfo& info);

}  // namespace native
