// Preloaded into User-Mode Linux. Version 6.1 writes the extended registers of a traced process from a buffer of 2,696 bytes. The host's kernel
// refuses a buffer smaller than its full state, which has 11,008 bytes on a CPU with AMX, and User-Mode Linux ends at boot. This wrapper of
// ptrace pads that one call with the registers as they are. Every other call is forwarded as it is.
#include <dlfcn.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

namespace {

using Ptrace = long (*)(int request, pid_t pid, void* address, void* data);

Ptrace forward = nullptr;
// Not on the stack: those of User-Mode Linux are small. It traces from one thread only.
alignas(64) unsigned char state[64 * 1024];
// What the host's kernel wants, once known.
size_t full_size = 0;

// Found before main: User-Mode Linux has an allocator of its own, which dlsym must not meet later.
__attribute__((constructor)) void find_ptrace() { forward = reinterpret_cast<Ptrace>(dlsym(RTLD_NEXT, "ptrace")); }

// Whether `state` now holds what was given, followed by what the registers hold beyond it.
bool padded(pid_t pid, const iovec& given) {
  if (full_size != 0 && given.iov_len >= full_size) return false;
  iovec all = {state, sizeof(state)};
  if (forward(PTRACE_GETREGSET, pid, reinterpret_cast<void*>(NT_X86_XSTATE), &all) < 0) return false;
  full_size = all.iov_len;
  if (given.iov_len >= full_size) return false;
  std::memcpy(state, given.iov_base, given.iov_len);
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) long ptrace(__ptrace_request request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  const pid_t pid = va_arg(arguments, pid_t);
  void* const address = va_arg(arguments, void*);
  void* const data = va_arg(arguments, void*);
  va_end(arguments);

  if (request == PTRACE_SETREGSET && reinterpret_cast<uintptr_t>(address) == NT_X86_XSTATE && data != nullptr) {
    const int before = errno;
    const bool has_all = padded(pid, *static_cast<const iovec*>(data));
    errno = before;
    iovec all = {state, full_size};
    if (has_all) return forward(request, pid, address, &all);
  }
  return forward(request, pid, address, data);
}
