// For ptrace-xstate.test.ts: stops a child, writes its extended registers from a buffer that is too short and from a whole one, and prints what
// became of it as JSON. `intact`: xmm0 is what was written, every other byte what it was before.
#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

namespace {

constexpr size_t kRoom = 64 * 1024;
// Where XSAVE keeps xmm0.
constexpr size_t kXmm0 = 160;

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

long regset(__ptrace_request request, pid_t child, unsigned char* bytes, size_t& length) {
  iovec all = {bytes, length};
  const long result = ptrace(request, child, NT_X86_XSTATE, &all);
  length = all.iov_len;
  return result;
}

unsigned char before[kRoom], after[kRoom], given[kRoom];

// Writes `length` bytes of the state in `before`, with another xmm0.
void write_back(const char* name, pid_t child, size_t full, size_t length, unsigned char mark) {
  memcpy(given, before, full);
  memset(given + kXmm0, mark, 16);
  errno = 0;
  const long result = regset(PTRACE_SETREGSET, child, given, length);
  const int error = errno;
  size_t read = kRoom;
  if (regset(PTRACE_GETREGSET, child, after, read) < 0) fail("the registers cannot be read again");
  memset(before + kXmm0, mark, 16);
  printf("\"%s\":{\"result\":%ld,\"error\":\"%s\",\"intact\":%s},", name, result, strerrorname_np(error),
         read == full && memcmp(before, after, full) == 0 ? "true" : "false");
}

}  // namespace

int main() {
  const pid_t child = fork();
  if (child < 0) fail("no child");
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) < 0) fail("ptrace is not permitted here");
    // Components beyond the first ones are in use.
    if (__builtin_cpu_supports("avx")) asm volatile("vcmpps $15, %%ymm1, %%ymm1, %%ymm1" ::: "xmm1");
    if (__builtin_cpu_supports("avx512f")) asm volatile("vpternlogd $255, %%zmm31, %%zmm31, %%zmm31" ::: "memory");
    // Not by a call of the library, which may use these registers.
    asm volatile("int3");
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) < 0) fail("no word of the child");
  if (!WIFSTOPPED(status)) return 1;
  size_t full = kRoom;
  if (regset(PTRACE_GETREGSET, child, before, full) < 0) fail("ptrace is not permitted here");
  printf("{");
  write_back("short", child, full, full - 64, 0x5a);
  write_back("whole", child, full, full, 0xa5);
  size_t length = full - 64;
  errno = 0;
  const long nobody = regset(PTRACE_SETREGSET, getpid(), given, length);
  printf("\"nobody\":{\"result\":%ld,\"error\":\"%s\"}}\n", nobody, strerrorname_np(errno));
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
