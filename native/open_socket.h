#pragma once

#include <string>

#include "failure.h"

namespace native {

// Opens a socket in the network namespace with this path, or in that of the process if it is empty. Returns -1 on failure.
int OpenSocket(const std::string& netns, int domain, int type, int protocol, Failure* failure);

}  // namespace native
