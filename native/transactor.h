// Runs the transactions of one socket on a thread of its own. A transaction may wait for the kernel until its deadline;
// on libuv's thread pool, it would delay DNS look-ups and file reads.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "javascript.h"
#include "socket.h"

namespace netlink {

// All public methods belong to the JavaScript thread.
class Transactor : public std::enable_shared_from_this<Transactor> {
 public:
  Transactor() = default;
  Transactor(const Transactor&) = delete;
  Transactor& operator=(const Transactor&) = delete;

  bool busy() const { return socket_ != nullptr; }

  // Starts a transaction that is described by copies of both arrays; not while busy. Returns a promise of the reply, or
  // an empty value with an exception pending. The first call starts the thread.
  Napi::Value Run(Napi::Env env, std::shared_ptr<Socket> socket, const Napi::TypedArray& bytes,
                  const Napi::TypedArray& segments, int deadline_ms);

  // Ends the thread after the transaction in flight. No transaction may follow.
  void End();

 private:
  // What the thread-safe function holds, so that the thread outlives neither the environment nor this object.
  using Holder = std::shared_ptr<Transactor>;

  static void OnDone(Napi::Env env, Napi::Function, Holder* holder, void*);
  static void OnFinalize(Napi::Env, void*, Holder* holder);
  static void* ThreadMain(void* self);

  using Function = Napi::TypedThreadSafeFunction<Holder, void, OnDone>;

  bool Start(Napi::Env env, Failure* failure);
  void Loop();
  void Settle(Napi::Env env);
  void RecycleBuffers();

  // While a transaction is in flight, the thread owns these; otherwise the JavaScript thread does.
  std::shared_ptr<Socket> socket_;
  Request request_;
  Bytes reply_;
  Failure failure_;
  bool done_ = false;

  std::optional<Napi::Promise::Deferred> deferred_;
  Function function_;
  pthread_t thread_{};
  bool started_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool pending_ = false;  // guarded by mutex_
  bool ended_ = false;    // guarded by mutex_
};

// Returns a promise that is rejected with an Error of MakeError.
Napi::Promise Rejected(Napi::Env env, const Failure& failure);

}  // namespace netlink
