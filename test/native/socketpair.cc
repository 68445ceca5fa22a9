// The other end of a socket, for tests: what the kernel would send, and what it never would. Calls block the JavaScript
// thread, which suits a test: the transaction under test runs on the thread pool meanwhile.
#include <dirent.h>
#include <errno.h>
#include <linux/netlink.h>
#include <napi.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace {

int Int(const Napi::CallbackInfo& info, size_t index) {
  return info[index].IsNumber() ? info[index].As<Napi::Number>().Int32Value() : -1;
}

Napi::Value Fail(Napi::Env env, const char* call) {
  Napi::Error::New(env, std::string(call) + ": " + strerror(errno)).ThrowAsJavaScriptException();
  return Napi::Value();
}

// pair(type: number): [fd, fd]
Napi::Value Pair(const Napi::CallbackInfo& info) {
  int fds[2];
  if (socketpair(AF_UNIX, Int(info, 0) | SOCK_CLOEXEC, 0, fds) != 0) return Fail(info.Env(), "socketpair");
  const Napi::Array result = Napi::Array::New(info.Env(), 2);
  result.Set(uint32_t{0}, Napi::Number::New(info.Env(), fds[0]));
  result.Set(uint32_t{1}, Napi::Number::New(info.Env(), fds[1]));
  return result;
}

// send(fd: number, bytes: Uint8Array): boolean. False where the queue is full.
Napi::Value Send(const Napi::CallbackInfo& info) {
  const Napi::Uint8Array bytes = info[1].As<Napi::Uint8Array>();
  const ssize_t sent = send(Int(info, 0), bytes.Data(), bytes.ByteLength(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN) return Fail(info.Env(), "send");
  return Napi::Boolean::New(info.Env(), sent >= 0);
}

// close(fd: number): void
Napi::Value Close(const Napi::CallbackInfo& info) {
  close(Int(info, 0));
  return info.Env().Undefined();
}

// receive(fd: number, timeoutMs: number): Uint8Array | undefined
Napi::Value Receive(const Napi::CallbackInfo& info) {
  pollfd fd{Int(info, 0), POLLIN, 0};
  if (poll(&fd, 1, Int(info, 1)) <= 0) return info.Env().Undefined();
  const ssize_t size = recv(fd.fd, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  if (size < 0) return Fail(info.Env(), "peek");
  Napi::Uint8Array bytes = Napi::Uint8Array::New(info.Env(), static_cast<size_t>(size));
  if (recv(fd.fd, bytes.Data(), bytes.ByteLength(), 0) < 0) return Fail(info.Env(), "receive");
  return bytes;
}

std::atomic<int> interruptions{0};

// interruptOthers(): number. Signals every thread of the process but this one, without SA_RESTART: system calls in which
// they wait end with EINTR. Answers how many threads have taken such signals since the process started.
Napi::Value InterruptOthers(const Napi::CallbackInfo& info) {
  struct sigaction action {};
  action.sa_handler = [](int) { interruptions += 1; };
  if (sigaction(SIGUSR2, &action, nullptr) != 0) return Fail(info.Env(), "sigaction");
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return Fail(info.Env(), "opendir");
  while (const dirent* entry = readdir(tasks)) {
    const auto thread = static_cast<pid_t>(atoi(entry->d_name));
    if (thread > 0 && thread != syscall(SYS_gettid)) syscall(SYS_tgkill, getpid(), thread, SIGUSR2);
  }
  closedir(tasks);
  return Napi::Number::New(info.Env(), interruptions);
}

// netlinkPair(): [fd, fd]. Two netlink sockets connected to each other: each hears the other as a process, not as the
// kernel. NETLINK_USERSOCK lets ordinary users do so.
Napi::Value NetlinkPair(const Napi::CallbackInfo& info) {
  const Napi::Array result = Napi::Array::New(info.Env(), 2);
  int fds[2];
  sockaddr_nl addresses[2]{};
  for (uint32_t i = 0; i < 2; i++) {
    addresses[i].nl_family = AF_NETLINK;
    auto* const address = reinterpret_cast<sockaddr*>(&addresses[i]);
    socklen_t length = sizeof(addresses[i]);
    fds[i] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
    if (fds[i] < 0 || bind(fds[i], address, length) != 0 || getsockname(fds[i], address, &length) != 0) {
      return Fail(info.Env(), "netlink socket");
    }
    result.Set(i, Napi::Number::New(info.Env(), fds[i]));
  }
  for (int i = 0; i < 2; i++) {
    const auto* const other = reinterpret_cast<sockaddr*>(&addresses[1 - i]);
    if (connect(fds[i], other, sizeof(addresses[0])) != 0) return Fail(info.Env(), "connect");
  }
  return result;
}

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  exports.Set("pair", Napi::Function::New<Pair>(env));
  exports.Set("send", Napi::Function::New<Send>(env));
  exports.Set("close", Napi::Function::New<Close>(env));
  exports.Set("receive", Napi::Function::New<Receive>(env));
  exports.Set("interruptOthers", Napi::Function::New<InterruptOthers>(env));
  exports.Set("netlinkPair", Napi::Function::New<NetlinkPair>(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(socketpair, Initialize)
