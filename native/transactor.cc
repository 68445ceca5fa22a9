#include "transactor.h"

#include <errno.h>

#include <new>

namespace netlink {

namespace {

// Maximum size of the request and reply buffers that a socket keeps: new pages cost more than copying.
constexpr size_t kKeep = size_t{1} << 20;

}  // namespace

Napi::Promise Rejected(Napi::Env env, const Failure& failure) {
  const auto deferred = Napi::Promise::Deferred::New(env);
  deferred.Reject(native::MakeError(env, failure).Value());
  return deferred.Promise();
}

Napi::Value Transactor::Run(Napi::Env env, std::shared_ptr<Socket> socket, const Napi::TypedArray& bytes,
                            const Napi::TypedArray& segments, int deadline_ms) {
  Failure failure;
  if (!native::CopyBytes(bytes, &request_.bytes) || !native::CopyBytes(segments, &request_.segments)) {
    failure.Set("copy request", ENOMEM);
  } else if (!started_) {
    Start(env, &failure);
  }
  if (env.IsExceptionPending() || failure.error != 0) {
    RecycleBuffers();
    if (env.IsExceptionPending()) return Napi::Value();
    return Rejected(env, failure);
  }
  request_.deadline_ms = deadline_ms;
  failure_ = Failure{};
  socket_ = std::move(socket);
  deferred_.emplace(Napi::Promise::Deferred::New(env));
  const Napi::Promise promise = deferred_->Promise();
  // A transaction in flight keeps the process alive.
  function_.Ref(env);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_ = true;
  }
  changed_.notify_one();
  return promise;
}

void Transactor::End() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
}

bool Transactor::Start(Napi::Env env, Failure* failure) {
  auto* const holder = new (std::nothrow) Holder(shared_from_this());
  if (holder == nullptr) return failure->Set("start thread", ENOMEM);
  function_ = Function::New(env, "NetlinkTransaction", 0, 1, holder, OnFinalize, static_cast<void*>(nullptr));
  if (env.IsExceptionPending()) {
    delete holder;
    return false;
  }
  // OnFinalize owns the holder from here on.
  function_.Unref(env);
  const int error = pthread_create(&thread_, nullptr, ThreadMain, this);
  if (error != 0) {
    // For example, the container's process limit is reached.
    function_.Release();
    return failure->Set("start thread", error);
  }
  started_ = true;
  return true;
}

void* Transactor::ThreadMain(void* self) {
  static_cast<Transactor*>(self)->Loop();
  return nullptr;
}

void Transactor::Loop() {
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return pending_ || ended_; });
      if (!pending_) break;
      pending_ = false;
    }
    done_ = socket_->Transact(request_, &reply_, &failure_);
    // On napi_closing, the function has counted this thread out, and must not be used any more.
    if (function_.BlockingCall() != napi_ok) return;
  }
  function_.Release();
}

void Transactor::OnDone(Napi::Env env, Napi::Function, Holder* holder, void*) {
  // Without an environment, OnFinalize follows.
  if (env != nullptr) (*holder)->Settle(env);
}

// Called when the thread has released the function (or never started), or the environment is torn down.
void Transactor::OnFinalize(Napi::Env, void*, Holder* holder) {
  const std::unique_ptr<Holder> own(holder);
  Transactor& transactor = **own;
  if (!transactor.started_) return;
  if (transactor.socket_) transactor.socket_->Cancel();
  transactor.End();
  pthread_join(transactor.thread_, nullptr);
}

void Transactor::Settle(Napi::Env env) {
  function_.Unref(env);
  // Clear before the promise settles: its callback may start the next transaction at once.
  socket_.reset();
  const Napi::Promise::Deferred deferred = *deferred_;
  deferred_.reset();
  const size_t segments = request_.segment_count();
  napi_value reply = nullptr;
  if (done_) {
    reply = native::ToUint8Array(env, &reply_);
    if (env.IsExceptionPending()) env.GetAndClearPendingException();
    if (reply == nullptr) failure_.Set("receive", ENOMEM, segments);
  }
  const Failure failure = failure_;
  RecycleBuffers();
  if (reply != nullptr) {
    deferred.Resolve(reply);
  } else {
    deferred.Reject(native::MakeError(env, failure).Value());
  }
}

void Transactor::RecycleBuffers() {
  request_.bytes.Recycle(kKeep);
  request_.segments.Recycle(kKeep);
  reply_.Recycle(kKeep);
}

}  // namespace netlink
