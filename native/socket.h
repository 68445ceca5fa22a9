// A netlink socket and its transactions, in plain POSIX: no JavaScript here, and of message formats only the header
// (struct nlmsghdr), NLMSG_ERROR and NLMSG_DONE (linux/netlink.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bytes.h"
#include "failure.h"

namespace netlink {

using native::Bytes;
using native::Failure;

struct Options {
  int protocol = 0;
  std::string netns;       // path of a network namespace, empty: the one of the process
  int send_buffer = 0;     // bytes, 0: the kernel's default
  int receive_buffer = 0;  // bytes, 0: the kernel's default
  int fd = -1;             // an open datagram socket to adopt in place of opening one
};

struct Counters {
  std::atomic<uint64_t> sends{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> messages{0};
  std::atomic<uint64_t> system_calls{0};  // of transactions: send, recv, recvmsg, poll
};

// One transaction's input. `segments` are byte lengths that cut `bytes`: each is one datagram.
struct Request {
  Bytes bytes;
  Bytes segments;  // of uint32_t
  int deadline_ms = 0;  // without progress: a segment taken or a reply received

  size_t segment_count() const { return segments.size() / sizeof(uint32_t); }
  uint32_t segment(size_t index) const { return reinterpret_cast<const uint32_t*>(segments.data())[index]; }
};

// Shared by the JavaScript object and the transaction in flight; the descriptor is closed with the last of the two.
class Socket {
 public:
  // Empty on failure. An adopted descriptor belongs to the socket once it was found to be a datagram socket.
  static std::shared_ptr<Socket> Open(const Options& options, Failure* failure);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Sends the segments one after the other, each when the one before was answered, and appends every reply to `reply`
  // except success ACKs without attributes. Blocks; one call at a time, from any thread.
  bool Transact(const Request& request, Bytes* reply, Failure* failure);

  // Becomes a member of a multicast group: from now on its reports queue up. For sockets without transactions.
  bool Join(uint32_t group, Failure* failure);

  // Blocks until the kernel reports something, then appends what there is, up to about kReportBytes, to `reports`. Fails
  // with ENOBUFS where reports were lost (the socket goes on), and with ECANCELED after Cancel().
  bool NextReports(Bytes* reports, Failure* failure);

  // Ends the transaction in flight with ECANCELED, from any thread. The descriptor lives until the last owner is gone.
  void Cancel();

  // Outlives the socket: a closed one can still be asked.
  std::shared_ptr<const Counters> counters() const { return counters_; }
  uint32_t port() const { return port_; }
  int send_buffer() const { return send_buffer_; }
  int receive_buffer() const { return receive_buffer_; }

 private:
  struct Segment;

  Socket(int fd, int wake) : fd_(fd), wake_(wake) {}
  bool Configure(const Options& options, Failure* failure);
  bool Drain(int64_t deadline, Failure* failure);
  bool Send(const Segment& segment, int64_t deadline, Failure* failure);
  bool Collect(const Segment& segment, int64_t patience, Bytes* reply, Failure* failure);
  bool Receive(const Segment& segment, int64_t deadline, Bytes* reply, size_t* received, Failure* failure);
  bool Wait(short events, int64_t deadline, const char* operation, size_t sent, Failure* failure);

  const int fd_;
  const int wake_;
  uint32_t port_ = 0;
  int send_buffer_ = 0;
  int receive_buffer_ = 0;
  Bytes overflow_;
  std::atomic<bool> cancelled_{false};
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
};

}  // namespace netlink
