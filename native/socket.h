// A netlink socket and its transactions, without JavaScript. Of the message formats, this code knows only struct
// nlmsghdr, NLMSG_ERROR and NLMSG_DONE (linux/netlink.h), and the limits of a batch (linux/netfilter/nfnetlink.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bytes.h"
#include "clock.h"
#include "failure.h"

namespace netlink {

using native::Bytes;
using native::Deadline;
using native::Failure;

struct Options {
  int protocol = 0;
  std::string netns;       // path of a network namespace, empty: that of the process
  int send_buffer = 0;     // bytes, 0: the kernel's default
  int receive_buffer = 0;  // bytes, 0: the kernel's default
  int fd = -1;             // an open datagram socket to adopt instead of opening one
};

struct Counters {
  std::atomic<uint64_t> sends{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> messages{0};
  std::atomic<uint64_t> system_calls{0};  // of transactions: send, recv, recvmsg, poll
};

// One transaction's input. `segments` are byte lengths that divide `bytes` into datagrams.
struct Request {
  Bytes bytes;
  Bytes segments;       // of uint32_t
  int deadline_ms = 0;  // maximum time without a segment sent or a reply received

  size_t segment_count() const { return segments.size() / sizeof(uint32_t); }
  uint32_t segment(size_t index) const { return reinterpret_cast<const uint32_t*>(segments.data())[index]; }
};

// Shared by the JavaScript object and the transaction in flight; the last owner closes the descriptor.
class Socket {
 public:
  // Returns nullptr on failure. The socket takes ownership of `options.fd`, even if Open fails later, unless the
  // descriptor is refused because it is not a datagram socket: then the caller must close it.
  static std::shared_ptr<Socket> Open(const Options& options, Failure* failure);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Sends each segment after the replies to the previous one, and appends every reply to `reply` except success ACKs
  // without attributes. Blocks; one call at a time, from any thread.
  bool Transact(const Request& request, Bytes* reply, Failure* failure);

  // Joins a multicast group; its messages are queued from now on. For sockets without transactions.
  bool Join(uint32_t group, Failure* failure);

  // Blocks until multicast messages arrive, then appends those queued, up to about kReportBytes, to `reports`. Fails
  // with ENOBUFS if messages were lost. The queue has then been emptied and later messages are complete, so the caller
  // must read the current state now. Fails with ECANCELED after Cancel().
  bool NextReports(Bytes* reports, Failure* failure);

  // Ends the transaction in flight with ECANCELED. May be called from any thread. Does not close the descriptor.
  void Cancel();

  // Remains readable after the socket is closed.
  std::shared_ptr<const Counters> counters() const { return counters_; }
  uint32_t port() const { return port_; }
  int send_buffer() const { return send_buffer_; }
  int receive_buffer() const { return receive_buffer_; }

 private:
  struct Segment;

  Socket(int fd, int wake) : fd_(fd), wake_(wake) {}
  bool Configure(const Options& options, Failure* failure);
  bool Drain(Deadline deadline, Failure* failure);
  bool Send(const Segment& segment, Deadline deadline, Failure* failure);
  bool Collect(const Segment& segment, Deadline deadline, Bytes* reply, Failure* failure);
  bool Receive(const Segment& segment, Deadline* deadline, Bytes* reply, size_t* received, Failure* failure);
  bool Wait(short events, Deadline* deadline, const char* operation, size_t sent, Failure* failure);

  const int fd_;
  const int wake_;
  uint32_t port_ = 0;
  int send_buffer_ = 0;
  int receive_buffer_ = 0;
  // Only this protocol has batches.
  bool netfilter_ = false;
  Bytes overflow_;
  // NextReports has received ENOBUFS but not yet returned it.
  bool overrun_ = false;
  std::atomic<bool> cancelled_{false};
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
};

}  // namespace netlink
