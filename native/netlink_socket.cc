// The JavaScript class NetlinkSocket: checks its arguments, and runs transactions and the reading of multicast messages
// (socket.h) on threads of their own. Arguments of the wrong type throw; socket errors reject with the Error of
// MakeError (javascript.h).

#include <errno.h>
#include <pthread.h>

#include <limits>
#include <memory>
#include <new>
#include <string>

#include "javascript.h"
#include "original_destination.h"
#include "socket.h"
#include "socket_options.h"
#include "transactor.h"

namespace {

using native::Bytes;
using native::Failure;
using native::MakeError;
using native::ReadInt;
using native::ToUint8Array;
using netlink::Options;
using netlink::Rejected;
using netlink::Socket;
using netlink::Transactor;

bool ReadOptionalInt(Napi::Env env, const Napi::Object& object, const char* name, int* result) {
  const Napi::Value value = object.Get(name);
  if (env.IsExceptionPending()) return false;
  if (value.IsUndefined()) return true;
  const auto number = ReadInt(env, value, name, 0, std::numeric_limits<int>::max());
  if (number) *result = *number;
  return number.has_value();
}

bool ReadOptions(Napi::Env env, const Napi::Value& value, Options* options) {
  if (!value.IsObject()) {
    Napi::TypeError::New(env, "options must be an object").ThrowAsJavaScriptException();
    return false;
  }
  const Napi::Object object = value.As<Napi::Object>();
  if (!ReadOptionalInt(env, object, "fd", &options->fd)) return false;
  if (!ReadOptionalInt(env, object, "sndbuf", &options->send_buffer)) return false;
  if (!ReadOptionalInt(env, object, "rcvbuf", &options->receive_buffer)) return false;
  const Napi::Value netns = object.Get("netns");
  if (env.IsExceptionPending()) return false;
  if (!netns.IsUndefined()) {
    if (netns.IsString()) options->netns = netns.As<Napi::String>().Utf8Value();
    // A NUL would truncate the path.
    if (options->netns.empty() || options->netns.find('\0') != std::string::npos) {
      Napi::TypeError::New(env, "netns must be the path of a network namespace").ThrowAsJavaScriptException();
      return false;
    }
  }
  const Napi::Value protocol = object.Get("protocol");
  if (env.IsExceptionPending()) return false;
  if (options->fd >= 0 && protocol.IsUndefined()) return true;
  const auto number = ReadInt(env, protocol, "protocol", 0, 255);
  if (number) options->protocol = *number;
  return number.has_value();
}

// State shared by the thread that reads multicast messages and the callback that receives them.
struct Listener {
  std::shared_ptr<Socket> socket;
  pthread_t thread{};
  bool started = false;
};

struct Reports {
  Bytes bytes;
  int error = 0;
};

void CallListener(Napi::Env env, Napi::Function callback, Listener*, Reports* data) {
  const std::unique_ptr<Reports> reports(data);
  if (env == nullptr || callback.IsEmpty()) return;
  napi_value bytes = ToUint8Array(env, &reports->bytes);
  if (bytes == nullptr) {
    if (env.IsExceptionPending()) env.GetAndClearPendingException();
    reports->error = ENOMEM;
    bytes = env.Undefined();
  }
  callback.Call({bytes, Napi::Number::New(env, reports->error)});
}

using ListenerFunction = Napi::TypedThreadSafeFunction<Listener, Reports, CallListener>;

// With this many queued callbacks the reading thread blocks, and messages queue in the socket's receive buffer.
constexpr size_t kQueuedReports = 16;

struct ListenerThread {
  std::shared_ptr<Socket> socket;
  ListenerFunction function;
};

void* ReadReports(void* argument) {
  const std::unique_ptr<ListenerThread> own(static_cast<ListenerThread*>(argument));
  for (;;) {
    Failure failure;
    auto* reports = new (std::nothrow) Reports;
    if (reports == nullptr) break;
    const bool read = own->socket->NextReports(&reports->bytes, &failure);
    if (!read) reports->error = failure.error;
    if (!read && failure.error == ECANCELED) {
      delete reports;
      break;
    }
    if (own->function.BlockingCall(reports) != napi_ok) {
      delete reports;
      // The function has counted this thread out, and must not be used any more.
      return nullptr;
    }
    if (!read && failure.error != ENOBUFS) break;
  }
  own->function.Release();
  return nullptr;
}

// Called when the thread has released the function (or never started), or the environment is torn down.
void EndListener(Napi::Env, void*, Listener* listener) {
  listener->socket->Cancel();
  if (listener->started) pthread_join(listener->thread, nullptr);
  delete listener;
}

class NetlinkSocket : public Napi::ObjectWrap<NetlinkSocket> {
 public:
  static Napi::Function Define(Napi::Env env) {
    return DefineClass(env, "NetlinkSocket",
                       {
                           InstanceMethod("transact", &NetlinkSocket::Transact),
                           InstanceMethod("listen", &NetlinkSocket::Listen),
                           InstanceMethod("counters", &NetlinkSocket::Counters),
                           InstanceMethod("info", &NetlinkSocket::Info),
                           InstanceMethod("close", &NetlinkSocket::Close),
                       });
  }

  explicit NetlinkSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<NetlinkSocket>(info) {
    const Napi::Env env = info.Env();
    if (env.IsExceptionPending()) return;
    Options options;
    if (!ReadOptions(env, info[0], &options)) return;
    Failure failure;
    auto socket = Socket::Open(options, &failure);
    if (!socket) {
      MakeError(env, failure).ThrowAsJavaScriptException();
      return;
    }
    counters_ = socket->counters();
    port_ = socket->port();
    send_buffer_ = socket->send_buffer();
    receive_buffer_ = socket->receive_buffer();
    socket_ = std::move(socket);
  }

  // A transaction in flight goes on.
  ~NetlinkSocket() override { transactor_->End(); }

 private:
  // transact(request: Uint8Array, segments: Uint32Array, deadlineMs: number): Promise<Uint8Array>. Copies both arrays
  // before it returns.
  Napi::Value Transact(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    if (!info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
      Napi::TypeError::New(env, "request must be a Uint8Array").ThrowAsJavaScriptException();
      return Napi::Value();
    }
    if (!info[1].IsTypedArray() || info[1].As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array) {
      Napi::TypeError::New(env, "segments must be a Uint32Array").ThrowAsJavaScriptException();
      return Napi::Value();
    }
    const auto deadline = ReadInt(env, info[2], "deadlineMs", 1, std::numeric_limits<int>::max());
    if (!deadline) return Napi::Value();
    Failure failure;
    if (!socket_ || listening_ || transactor_->busy()) {
      failure.Set("send", socket_ ? EBUSY : EBADF);
      return Rejected(env, failure);
    }
    return transactor_->Run(env, socket_, info[0].As<Napi::TypedArray>(), info[1].As<Napi::TypedArray>(), *deadline);
  }

  // listen(groups: Uint32Array, callback: (reports: Uint8Array, errno: number) => void): void. Once per socket, instead
  // of transactions. errno ENOBUFS: messages were lost, more will follow; any other but 0: no more will follow.
  void Listen(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    if (!info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array ||
        !info[1].IsFunction()) {
      Napi::TypeError::New(env, "listen requires a Uint32Array and a function").ThrowAsJavaScriptException();
      return;
    }
    Failure failure;
    if (!socket_ || listening_ || transactor_->busy()) failure.Set("listen", socket_ ? EBUSY : EBADF);
    const auto groups = info[0].As<Napi::Uint32Array>();
    for (size_t i = 0; failure.error == 0 && i < groups.ElementLength(); i++) socket_->Join(groups[i], &failure);
    if (failure.error == 0) StartListener(env, info[1].As<Napi::Function>(), &failure);
    if (failure.error != 0) MakeError(env, failure).ThrowAsJavaScriptException();
  }

  void StartListener(Napi::Env env, const Napi::Function& callback, Failure* failure) {
    std::unique_ptr<Listener> own(new (std::nothrow) Listener{socket_});
    std::unique_ptr<ListenerThread> thread(new (std::nothrow) ListenerThread{socket_, {}});
    if (!own || !thread) {
      failure->Set("listen", ENOMEM);
      return;
    }
    thread->function = ListenerFunction::New(env, callback, "NetlinkReports", kQueuedReports, 1, own.get(), EndListener,
                                             static_cast<void*>(nullptr));
    if (env.IsExceptionPending()) return;
    // EndListener owns it from here on.
    Listener* const listener = own.release();
    ListenerFunction function = thread->function;
    // Does not keep the process alive.
    function.Unref(env);
    const int error = pthread_create(&listener->thread, nullptr, ReadReports, thread.get());
    if (error != 0) {
      // For example, the container's process limit is reached.
      failure->Set("start thread", error);
      function.Release();
      return;
    }
    listener->started = true;
    static_cast<void>(thread.release());
    listening_ = true;
  }

  Napi::Value Counters(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    const netlink::Counters& counters = *counters_;
    const Napi::Object object = Napi::Object::New(env);
    const auto set = [&](const char* name, uint64_t value) {
      object.Set(name, Napi::Number::New(env, static_cast<double>(value)));
    };
    set("sends", counters.sends);
    set("bytesSent", counters.bytes_sent);
    set("bytesReceived", counters.bytes_received);
    set("messages", counters.messages);
    set("systemCalls", counters.system_calls);
    return object;
  }

  Napi::Value Info(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    const Napi::Object object = Napi::Object::New(env);
    object.Set("port", Napi::Number::New(env, port_));
    object.Set("sendBuffer", Napi::Number::New(env, send_buffer_));
    object.Set("receiveBuffer", Napi::Number::New(env, receive_buffer_));
    return object;
  }

  // The transaction in flight rejects with ECANCELED. The descriptor is closed when that transaction releases it.
  Napi::Value Close(const Napi::CallbackInfo& info) {
    if (socket_) socket_->Cancel();
    socket_.reset();
    transactor_->End();
    return info.Env().Undefined();
  }

  std::shared_ptr<Socket> socket_;
  std::shared_ptr<Transactor> transactor_ = std::make_shared<Transactor>();
  bool listening_ = false;
  std::shared_ptr<const netlink::Counters> counters_;
  uint32_t port_ = 0;
  int send_buffer_ = 0;
  int receive_buffer_ = 0;
};

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  exports.Set("NetlinkSocket", NetlinkSocket::Define(env));
  exports.Set("originalDestination", Napi::Function::New<native::OriginalDestination>(env));
  exports.Set("socketOptions", Napi::Function::New<native::SocketOptions>(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(netlink_socket, Initialize)
