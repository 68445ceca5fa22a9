#include "socket.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <new>

#include "open_socket.h"

namespace netlink {

namespace {

// netlink_recvmsg() records the largest buffer it was given, up to this size, and sizes the next dump message by it.
constexpr size_t kDumpPart = 32768;
// Holds the rest of a larger datagram. Only an error that contains its request can be larger than kDumpPart.
constexpr size_t kOverflow = size_t{1} << 20;
// Multicast messages are passed on in blocks of about this many bytes.
constexpr size_t kReportBytes = 65536;

// Copies the header, because `at` may be unaligned.
nlmsghdr ReadHeader(const uint8_t* at) {
  nlmsghdr header;
  memcpy(&header, at, sizeof(header));
  return header;
}

// Sequence numbers wrap, so they are compared by signed difference, as in TCP.
bool Later(uint32_t sequence, uint32_t than) { return static_cast<int32_t>(sequence - than) > 0; }

bool IsDump(const nlmsghdr& header) { return (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP; }

// NLMSG_ERROR with errno 0 and no attributes: a bare success acknowledgement.
bool IsPlainAck(const nlmsghdr& header, const uint8_t* at) {
  int32_t error;
  if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_len < NLMSG_HDRLEN + sizeof(error)) return false;
  memcpy(&error, at + NLMSG_HDRLEN, sizeof(error));
  return error == 0 && (header.nlmsg_flags & NLM_F_ACK_TLVS) == 0;
}

bool SetBuffer(int fd, int force, int plain, int bytes) {
  if (bytes <= 0) return true;
  // The FORCE option ignores net.core.[rw]mem_max and needs CAP_NET_ADMIN.
  return setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)) == 0 ||
         setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes)) == 0;
}

int GetOption(int fd, int option) {
  int value = 0;
  socklen_t length = sizeof(value);
  return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

int OpenDescriptor(const Options& options, Failure* failure) {
  if (options.fd < 0) {
    return native::OpenSocket(options.netns, AF_NETLINK, SOCK_RAW, options.protocol, failure);
  }
  // A stream has no message boundaries.
  const int type = GetOption(options.fd, SO_TYPE);
  if (type == SOCK_RAW || type == SOCK_DGRAM || type == SOCK_SEQPACKET) return options.fd;
  failure->Set("adopt descriptor", type < 0 ? errno : EINVAL);
  return -1;
}

}  // namespace

// One datagram of the request. `first` and `last` are the sequence numbers of its first and last message: replies
// within that range belong to the segment, and the reply to `last` completes it.
struct Socket::Segment {
  const uint8_t* data = nullptr;
  size_t size = 0;
  size_t messages = 0;
  size_t index = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t end = 0;  // the sequence number of the last message; differs from `last` in a batch
  bool dump = false;
  // The kernel executes all messages or none (nfnetlink). It acknowledges neither the first nor the last message, so
  // `last` is the last one that requests an acknowledgement. An error of the whole batch is reported for `first`.
  bool batch = false;

  bool Owns(uint32_t sequence) const { return sequence - first <= last - first; }

  // Whether this reply is the last one.
  bool IsCompletedBy(const nlmsghdr& header, const uint8_t* at) const {
    if (header.nlmsg_type != NLMSG_ERROR && header.nlmsg_type != NLMSG_DONE) return false;
    if (header.nlmsg_seq == last) return true;
    return batch && header.nlmsg_seq == first && !IsPlainAck(header, at);
  }

  // Returns false unless the bytes are whole messages with sequence numbers ascending from `previous` (0: none yet),
  // and the last one requests an acknowledgement or is a dump. In a batch, any other message requests it.
  bool Parse(uint32_t previous, bool netfilter) {
    nlmsghdr header{};
    messages = 0;
    batch = false;
    uint32_t acknowledged = 0;
    for (size_t at = 0; at < size; at += NLMSG_ALIGN(header.nlmsg_len)) {
      if (size - at < NLMSG_HDRLEN) return false;
      header = ReadHeader(data + at);
      if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > size - at) return false;
      if (header.nlmsg_seq == 0) return false;
      if (previous != 0 && !Later(header.nlmsg_seq, previous)) return false;
      if (messages++ == 0) {
        first = header.nlmsg_seq;
        batch = netfilter && header.nlmsg_type == NFNL_MSG_BATCH_BEGIN;
      }
      if ((header.nlmsg_flags & NLM_F_ACK) != 0) acknowledged = header.nlmsg_seq;
      previous = header.nlmsg_seq;
    }
    end = previous;
    last = batch ? acknowledged : previous;
    dump = !batch && IsDump(header);
    if (batch) return header.nlmsg_type == NFNL_MSG_BATCH_END && acknowledged != 0;
    return messages > 0 && (dump || (header.nlmsg_flags & NLM_F_ACK) != 0);
  }
};

std::shared_ptr<Socket> Socket::Open(const Options& options, Failure* failure) {
  const int fd = OpenDescriptor(options, failure);
  if (fd < 0) return nullptr;
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    failure->Set("create eventfd", errno);
    close(fd);
    return nullptr;
  }
  auto* raw = new (std::nothrow) Socket(fd, wake);
  if (raw == nullptr) {
    failure->Set("allocate socket", ENOMEM);
    close(wake);
    close(fd);
    return nullptr;
  }
  std::shared_ptr<Socket> socket(raw);
  if (!socket->Configure(options, failure)) return nullptr;
  return socket;
}

Socket::~Socket() {
  close(fd_);
  close(wake_);
}

bool Socket::Configure(const Options& options, Failure* failure) {
  // Reserves only address space: pages are allocated on first use.
  if (!overflow_.Reserve(kOverflow)) return failure->Set("allocate socket", ENOMEM);
  netfilter_ = options.protocol == NETLINK_NETFILTER;
  if (options.fd < 0) {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return failure->Set("bind", errno);
    socklen_t length = sizeof(address);
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      return failure->Set("read socket address", errno);
    }
    port_ = address.nl_pid;
    // Kernels before 4.3, 4.12 and 4.20 each lack one of these: error replies are larger, have no text, or dumps are
    // not filtered. The decoders handle all three.
    const int on = 1;
    for (const int option : {NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK}) {
      setsockopt(fd_, SOL_NETLINK, option, &on, sizeof(on));
    }
  }
  if (!SetBuffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, options.send_buffer)) return failure->Set("set SO_SNDBUF", errno);
  if (!SetBuffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF, options.receive_buffer)) return failure->Set("set SO_RCVBUF", errno);
  send_buffer_ = GetOption(fd_, SO_SNDBUF);
  receive_buffer_ = GetOption(fd_, SO_RCVBUF);
  return true;
}

void Socket::Cancel() {
  cancelled_.store(true);
  // Fails only if the counter is at its maximum; the poller is awake then.
  [[maybe_unused]] const int ignored = eventfd_write(wake_, 1);
}

bool Socket::Join(uint32_t group, Failure* failure) {
  if (setsockopt(fd_, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) == 0) return true;
  return failure->Set("join multicast group", errno);
}

bool Socket::NextReports(Bytes* reports, Failure* failure) {
  Deadline never{Deadline::kNever};
  Deadline now{0};
  while (!overrun_ && reports->size() < kReportBytes) {
    size_t received = 0;
    // After the first message, read only those already queued.
    Deadline* const deadline = reports->size() > 0 ? &now : &never;
    if (!Receive(Segment{}, deadline, reports, &received, failure)) {
      overrun_ = failure->error == ENOBUFS;
      break;
    }
    reports->Resize(reports->size() + received);
  }
  if (reports->size() > 0) return true;
  if (!overrun_) return false;
  // After an overrun the kernel drops every message until the queue is empty, without another ENOBUFS
  // (NETLINK_S_CONGESTED in net/netlink/af_netlink.c). Reading the state before that could miss a change for good.
  overrun_ = false;
  return Drain(never, failure) && failure->Set("receive", ENOBUFS);
}

bool Socket::Transact(const Request& request, Bytes* reply, Failure* failure) {
  // Check the whole request before sending: a malformed request has no effect.
  Segment segment;
  size_t offset = 0;
  uint32_t previous = 0;
  for (size_t i = 0; i < request.segment_count(); i++) {
    segment.size = request.segment(i);
    if (segment.size > request.bytes.size() - offset) return failure->Set("check request", EINVAL);
    segment.data = request.bytes.data() + offset;
    if (!segment.Parse(previous, netfilter_)) return failure->Set("check request", EINVAL);
    previous = segment.end;
    offset += segment.size;
  }
  if (offset != request.bytes.size()) return failure->Set("check request", EINVAL);

  const Deadline deadline{request.deadline_ms};
  if (!Drain(deadline, failure)) return false;
  segment.data = request.bytes.data();
  for (size_t i = 0; i < request.segment_count(); i++) {
    segment.index = i;
    segment.size = request.segment(i);
    segment.Parse(0, netfilter_);
    if (!Send(segment, deadline, failure)) return false;
    if (!Collect(segment, deadline, reply, failure)) return false;
    segment.data += segment.size;
  }
  return true;
}

// Discards replies to an abandoned transaction, the rest of its dump (otherwise the kernel would refuse the next dump
// with EBUSY) and its ENOBUFS.
bool Socket::Drain(Deadline deadline, Failure* failure) {
  for (;;) {
    if (cancelled_.load()) return failure->Set("send", ECANCELED);
    uint8_t nothing;
    counters_->system_calls += 1;
    const ssize_t got = recv(fd_, &nothing, 0, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0) counters_->bytes_received += static_cast<uint64_t>(got);
    if (got == 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) return true;
    if (got < 0 && errno != EINTR && errno != ENOBUFS) return failure->Set("receive", errno);
    if (deadline.Left() <= 0) return failure->Set("send", ETIMEDOUT);
  }
}

bool Socket::Send(const Segment& segment, Deadline deadline, Failure* failure) {
  for (;;) {
    if (cancelled_.load()) return failure->Set("send", ECANCELED, segment.index);
    counters_->system_calls += 1;
    const ssize_t sent = send(fd_, segment.data, segment.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      counters_->sends += 1;
      counters_->bytes_sent += static_cast<uint64_t>(sent);
      counters_->messages += segment.messages;
      if (static_cast<size_t>(sent) == segment.size) return true;
      return failure->Set("send", EMSGSIZE, segment.index + 1);
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failure->Set("send", errno, segment.index);
    if (!Wait(POLLOUT, &deadline, "send", segment.index, failure)) return false;
  }
}

bool Socket::Wait(short events, Deadline* deadline, const char* operation, size_t sent, Failure* failure) {
  for (;;) {
    if (cancelled_.load()) return failure->Set(operation, ECANCELED, sent);
    const int64_t left = deadline->Left();
    if (left <= 0) return failure->Set(operation, ETIMEDOUT, sent);
    pollfd fds[2] = {{fd_, events, 0}, {wake_, POLLIN, 0}};
    const int64_t longest = std::numeric_limits<int>::max();
    counters_->system_calls += 1;
    const int ready = poll(fds, 2, static_cast<int>(left < longest ? left : longest));
    if (ready < 0 && errno != EINTR) return failure->Set(operation, errno, sent);
    // Return on POLLERR and POLLHUP too: the next send or receive returns the error.
    if (ready > 0 && fds[0].revents != 0) return true;
  }
}

// Reads one datagram to the end of `reply` and sets `received` to its size, or to 0 if it is not from the kernel.
bool Socket::Receive(const Segment& segment, Deadline* deadline, Bytes* reply, size_t* received, Failure* failure) {
  const size_t sent = segment.index + 1;
  for (;;) {
    if (!reply->Reserve(kDumpPart + NLMSG_ALIGNTO)) return failure->Set("receive", ENOMEM, sent);
    iovec vectors[2] = {{reply->data() + reply->size(), kDumpPart}, {overflow_.data(), kOverflow}};
    sockaddr_nl source{};
    msghdr message{};
    message.msg_name = &source;
    message.msg_namelen = sizeof(source);
    message.msg_iov = vectors;
    message.msg_iovlen = 2;
    counters_->system_calls += 1;
    const ssize_t got = recvmsg(fd_, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return failure->Set("receive", errno, sent);
      if (!Wait(POLLIN, deadline, "receive", sent, failure)) return false;
      continue;
    }
    counters_->bytes_received += static_cast<uint64_t>(got);
    if (message.msg_flags & MSG_TRUNC) return failure->Set("receive", EMSGSIZE, sent);
    const bool foreign = message.msg_namelen >= sizeof(source) && source.nl_family == AF_NETLINK && source.nl_pid != 0;
    *received = foreign ? 0 : static_cast<size_t>(got);
    if (!foreign && got == 0) return failure->Set("receive", EBADMSG, sent);
    if (*received > kDumpPart) {
      if (!reply->Reserve(*received + NLMSG_ALIGNTO)) return failure->Set("receive", ENOMEM, sent);
      memcpy(reply->data() + reply->size() + kDumpPart, overflow_.data(), *received - kDumpPart);
    }
    return true;
  }
}

bool Socket::Collect(const Segment& segment, Deadline deadline, Bytes* reply, Failure* failure) {
  const size_t sent = segment.index + 1;
  for (;;) {
    if (cancelled_.load()) return failure->Set("receive", ECANCELED, sent);
    size_t received = 0;
    if (!Receive(segment, &deadline, reply, &received, failure)) return false;
    uint8_t* const base = reply->data() + reply->size();
    size_t kept = 0;
    bool ours = false;
    bool complete = false;
    nlmsghdr header;
    // Checks the messages and compacts them in place; `kept` never exceeds `at`.
    for (size_t at = 0; at < received; at += NLMSG_ALIGN(header.nlmsg_len)) {
      if (received - at < NLMSG_HDRLEN) return failure->Set("receive", EBADMSG, sent);
      header = ReadHeader(base + at);
      if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > received - at) {
        return failure->Set("receive", EBADMSG, sent);
      }
      // Drops late replies to an abandoned transaction.
      if (!segment.Owns(header.nlmsg_seq)) continue;
      ours = true;
      if (segment.IsCompletedBy(header, base + at)) complete = true;
      if (IsPlainAck(header, base + at)) continue;
      const size_t aligned = NLMSG_ALIGN(header.nlmsg_len);
      memmove(base + kept, base + at, header.nlmsg_len);
      memset(base + kept + header.nlmsg_len, 0, aligned - header.nlmsg_len);
      kept += aligned;
    }
    reply->Resize(reply->size() + kept);
    if (complete) return true;
    // A dump may take any time while its messages arrive. Messages of others do not extend the deadline.
    if (ours) {
      deadline.Restart();
    } else if (deadline.Left() <= 0) {
      return failure->Set("receive", ETIMEDOUT, sent);
    }
  }
}

}  // namespace netlink
