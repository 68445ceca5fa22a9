#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "clock.h"

namespace native {

namespace {

// What a pipe holds.
constexpr size_t kPart = 65536;
constexpr int64_t kFirstPauseNs = 100'000;
constexpr int64_t kLongestPauseNs = 20'000'000;

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }

  void Adopt(int fd) { fd_ = fd; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool open() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Streams {
  Descriptor input;
  Descriptor output;
  Descriptor errors;
};

// Killed and reaped with this object unless it was reaped before.
class Child {
 public:
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }

  bool Spawn(const Command& command, const std::string& path, const Streams& streams, Failure* failure);
  bool Await(int64_t deadline, int* status, Failure* failure);

 private:
  pid_t pid_ = 0;
};

std::string Folders(const Command& command) {
  for (const std::string& variable : command.environment) {
    if (variable.starts_with("PATH=")) return variable.substr(strlen("PATH="));
  }
  return {};
}

// Not posix_spawnp, which looks in the PATH of this process. An empty entry of PATH would be the current folder: no
// program is taken from there.
bool FindProgram(const Command& command, std::string* path, Failure* failure) {
  const std::string& name = command.arguments.front();
  *path = name;
  if (name.find('/') != std::string::npos) return true;
  int error = ENOENT;
  const std::string folders = Folders(command);
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    if (end > at) {
      *path = folders.substr(at, end - at) + '/' + name;
      struct stat found;
      if (stat(path->c_str(), &found) == 0) {
        if (S_ISREG(found.st_mode) && access(path->c_str(), X_OK) == 0) return true;
        error = EACCES;
      }
    }
    at = end + 1;
  }
  return failure->Set("find program", error);
}

bool OpenPipe(Descriptor* read_end, Descriptor* write_end, Failure* failure) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failure->Set("open pipe", errno);
  read_end->Adopt(ends[0]);
  write_end->Adopt(ends[1]);
  return true;
}

// The input is a socket, because only a socket can be written to without SIGPIPE.
bool OpenStreams(Streams* ours, Streams* theirs, Failure* failure) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failure->Set("open socket pair", errno);
  ours->input.Adopt(ends[0]);
  theirs->input.Adopt(ends[1]);
  return OpenPipe(&ours->output, &theirs->output, failure) && OpenPipe(&ours->errors, &theirs->errors, failure);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Not fork: it copies the page tables, and holds up every thread of a large process for as long. The new program runs on
// this process's memory until it is loaded, and only the calling thread waits for that.
bool Child::Spawn(const Command& command, const std::string& path, const Streams& streams, Failure* failure) {
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return failure->Set("start program", error);
  posix_spawnattr_t attributes;
  error = posix_spawnattr_init(&attributes);
  if (error != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return failure->Set("start program", error);
  }
  // Node holds 0, 1 and 2 open from its start, so none of ours is one of them. All others are closed on exec.
  const int ends[] = {streams.input.get(), streams.output.get(), streams.errors.get()};
  for (int fd = 0; fd < 3 && error == 0; fd++) error = posix_spawn_file_actions_adddup2(&actions, ends[fd], fd);
  sigset_t every;
  sigset_t none;
  sigfillset(&every);
  sigemptyset(&none);
  if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &every);
  if (error == 0) error = posix_spawnattr_setsigmask(&attributes, &none);
  if (error == 0) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  if (error == 0) {
    const std::vector<char*> arguments = Pointers(command.arguments);
    const std::vector<char*> environment = Pointers(command.environment);
    pid_t pid = 0;
    error = posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments.data(), environment.data());
    if (error == 0) pid_ = pid;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 || failure->Set("start program", error);
}

// A loop in place of a pidfd, which older kernels do not have: a program that closed its output has all but ended.
bool Child::Await(int64_t deadline, int* status, Failure* failure) {
  for (int64_t pause = kFirstPauseNs;; pause = std::min(pause * 2, kLongestPauseNs)) {
    const pid_t ended = waitpid(pid_, status, WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    if (ended != 0) {
      pid_ = 0;
      return ended > 0 || failure->Set("wait for program", errno);
    }
    if (NowMs() >= deadline) return failure->Set("wait for program", ETIMEDOUT);
    const timespec time = {0, pause};
    nanosleep(&time, nullptr);
  }
}

bool Feed(Descriptor* stream, const Bytes& input, size_t* written, Failure* failure) {
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const ssize_t sent = send(stream->get(), input.data() + *written, input.size() - *written, flags);
  if (sent >= 0) {
    *written += static_cast<size_t>(sent);
  } else if (errno == EPIPE || errno == ECONNRESET) {
    stream->Close();
  } else if (errno != EAGAIN && errno != EINTR) {
    return failure->Set("write to program", errno);
  }
  return true;
}

bool Drain(Descriptor* stream, size_t limit, Bytes* bytes, Failure* failure) {
  if (!bytes->Reserve(kPart)) return failure->Set("read from program", ENOMEM);
  const ssize_t got = read(stream->get(), bytes->data() + bytes->size(), kPart);
  if (got < 0) return errno == EAGAIN || errno == EINTR || failure->Set("read from program", errno);
  if (got == 0) stream->Close();
  bytes->Resize(bytes->size() + static_cast<size_t>(got));
  return bytes->size() <= limit || failure->Set("read from program", EFBIG);
}

bool Exchange(const Command& command, int64_t deadline, Streams* streams, Outcome* outcome, Failure* failure) {
  size_t written = 0;
  for (;;) {
    if (written == command.input.size()) streams->input.Close();
    pollfd polls[] = {{streams->input.get(), POLLOUT, 0},
                      {streams->output.get(), POLLIN, 0},
                      {streams->errors.get(), POLLIN, 0}};
    if (!streams->input.open() && !streams->output.open() && !streams->errors.open()) return true;
    const int64_t left = deadline - NowMs();
    if (left <= 0) return failure->Set("wait for program", ETIMEDOUT);
    if (poll(polls, 3, static_cast<int>(left)) < 0) {
      if (errno == EINTR) continue;
      return failure->Set("wait for program", errno);
    }
    const size_t limit = command.max_output;
    if (polls[0].revents != 0 && !Feed(&streams->input, command.input, &written, failure)) return false;
    if (polls[1].revents != 0 && !Drain(&streams->output, limit, &outcome->output, failure)) return false;
    if (polls[2].revents != 0 && !Drain(&streams->errors, limit, &outcome->errors, failure)) return false;
  }
}

}  // namespace

bool Execute(const Command& command, Outcome* outcome, Failure* failure) {
  const int64_t deadline = NowMs() + command.deadline_ms;
  std::string path;
  if (!FindProgram(command, &path, failure)) return false;
  Child child;
  Streams ours;
  {
    Streams theirs;
    if (!OpenStreams(&ours, &theirs, failure)) return false;
    if (!child.Spawn(command, path, theirs, failure)) return false;
  }
  int status = 0;
  if (!Exchange(command, deadline, &ours, outcome, failure)) return false;
  if (!child.Await(deadline, &status, failure)) return false;
  if (WIFEXITED(status)) outcome->status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome->signal = WTERMSIG(status);
  return true;
}

}  // namespace native
