#include "open_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace native {

namespace {

struct Opening {
  const std::string& netns;
  int domain;
  int type;
  int protocol;
  int fd;
  Failure failure;
};

void Open(Opening* opening) {
  opening->fd = socket(opening->domain, opening->type | SOCK_CLOEXEC, opening->protocol);
  if (opening->fd < 0) opening->failure.Set("open socket", errno);
}

void* OpenInNamespace(void* argument) {
  auto* opening = static_cast<Opening*>(argument);
  const int ns = open(opening->netns.c_str(), O_RDONLY | O_CLOEXEC);
  if (ns < 0) {
    opening->failure.Set("open network namespace", errno);
    return nullptr;
  }
  if (setns(ns, CLONE_NEWNET) != 0) {
    opening->failure.Set("enter network namespace", errno);
  } else {
    Open(opening);
  }
  close(ns);
  return nullptr;
}

}  // namespace

// A socket stays in the namespace in which it was opened, and setns(2) affects only the calling thread. So a temporary
// thread enters the namespace and opens the socket; all other threads stay in the namespace of the process.
int OpenSocket(const std::string& netns, int domain, int type, int protocol, Failure* failure) {
  Opening opening{netns, domain, type, protocol, -1, {}};
  if (netns.empty()) {
    Open(&opening);
  } else {
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, OpenInNamespace, &opening);
    if (error != 0) {
      failure->Set("start thread", error);
      return -1;
    }
    pthread_join(thread, nullptr);
  }
  if (opening.fd < 0) *failure = opening.failure;
  return opening.fd;
}

}  // namespace native
