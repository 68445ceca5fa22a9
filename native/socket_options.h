// Options that belong to a network namespace and are read at any of its sockets, such as the tables of iptables-legacy and
// the servers of IPVS.
#pragma once

#include "javascript.h"

namespace native {

// socketOptions(netns: string | undefined, domain: number, level: number, option: number, values: Uint8Array,
// lengths: Uint32Array). Calls getsockopt(2) at a new datagram socket for each of the values, whose lengths divide `values`. The
// kernel overwrites them; those that it refuses become zeros. Throws the Error of MakeError if there is no socket.
Napi::Value SocketOptions(const Napi::CallbackInfo& info);

}  // namespace native
