#include "run_process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "process.h"

namespace native {

namespace {

constexpr int kMaxOutput = 1 << 29;

struct Run;
void Settle(Napi::Env env, Napi::Function, std::nullptr_t*, Run* data);
using SettleFunction = Napi::TypedThreadSafeFunction<std::nullptr_t, Run, Settle>;

struct Run {
  Run(Napi::Env env, std::unique_ptr<const Command> what)
      : command(std::move(what)), deferred(Napi::Promise::Deferred::New(env)) {}

  const std::unique_ptr<const Command> command;
  Outcome outcome;
  Failure failure;
  bool done = false;
  Napi::Promise::Deferred deferred;
  SettleFunction settle;
};

// Empty, with an exception pending, where the engine has no memory for the output.
napi_value MakeResult(Napi::Env env, Outcome* outcome) {
  const napi_value output = ToUint8Array(env, &outcome->output);
  if (output == nullptr) return nullptr;
  const napi_value errors = ToUint8Array(env, &outcome->errors);
  if (errors == nullptr) return nullptr;
  const Napi::Object result = Napi::Object::New(env);
  result.Set("status", Napi::Number::New(env, outcome->status));
  result.Set("signal", Napi::Number::New(env, outcome->signal));
  result.Set("stdout", output);
  result.Set("stderr", errors);
  return result;
}

void Settle(Napi::Env env, Napi::Function, std::nullptr_t*, Run* data) {
  const std::unique_ptr<Run> run(data);
  if (env == nullptr) return;
  if (run->done) {
    const napi_value result = MakeResult(env, &run->outcome);
    if (result != nullptr) {
      run->deferred.Resolve(result);
      return;
    }
    if (env.IsExceptionPending()) env.GetAndClearPendingException();
    run->failure.Set("read from program", ENOMEM);
  }
  run->deferred.Reject(MakeError(env, run->failure).Value());
}

void* RunInThread(void* argument) {
  std::unique_ptr<Run> run(static_cast<Run*>(argument));
  run->done = Execute(*run->command, &run->outcome, &run->failure);
  SettleFunction settle = run->settle;
  // Refused where the environment has gone: then the function is not ours to release any more either.
  if (settle.BlockingCall(run.get()) != napi_ok) return nullptr;
  static_cast<void>(run.release());
  settle.Release();
  return nullptr;
}

// A thread for each program, not one of libuv's four: those carry netlink, DNS and files, and a program may wait for a
// lock for seconds. Nobody joins it: the process may end before the program does. Signals go to the other threads.
int StartThread(Run* run) {
  pthread_attr_t attributes;
  const int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  pthread_t thread;
  const int created = pthread_create(&thread, &attributes, RunInThread, run);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return created;
}

// False with an exception pending. A NUL would cut a string short.
bool ReadStrings(Napi::Env env, const Napi::Value& value, const char* name, std::vector<std::string>* strings) {
  if (value.IsArray()) {
    const Napi::Array array = value.As<Napi::Array>();
    const uint32_t length = array.Length();
    for (uint32_t i = 0; i < length; i++) {
      const Napi::Value item = array.Get(i);
      if (env.IsExceptionPending()) return false;
      if (!item.IsString()) break;
      std::string text = item.As<Napi::String>().Utf8Value();
      if (text.find('\0') != std::string::npos) break;
      strings->push_back(std::move(text));
    }
    if (strings->size() == length) return true;
  }
  const std::string text = std::string(name) + " must be an array of strings without NUL";
  Napi::TypeError::New(env, text).ThrowAsJavaScriptException();
  return false;
}

bool ReadCommand(const Napi::CallbackInfo& info, Command* command) {
  const Napi::Env env = info.Env();
  if (!ReadStrings(env, info[0], "argv", &command->arguments)) return false;
  if (!ReadStrings(env, info[1], "env", &command->environment)) return false;
  if (command->arguments.empty() || command->arguments.front().empty()) {
    Napi::TypeError::New(env, "argv must begin with a program").ThrowAsJavaScriptException();
    return false;
  }
  const auto deadline = ReadInt(env, info[3], "deadlineMs", 1, std::numeric_limits<int>::max());
  if (!deadline) return false;
  const auto max_output = ReadInt(env, info[4], "maxOutput", 0, kMaxOutput);
  if (!max_output) return false;
  command->deadline_ms = *deadline;
  command->max_output = static_cast<size_t>(*max_output);
  if (!info[2].IsTypedArray() || info[2].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    Napi::TypeError::New(env, "stdin must be a Uint8Array").ThrowAsJavaScriptException();
    return false;
  }
  if (CopyBytes(info[2].As<Napi::TypedArray>(), &command->input)) return true;
  if (!env.IsExceptionPending()) Napi::Error::New(env, "stdin cannot be copied").ThrowAsJavaScriptException();
  return false;
}

}  // namespace

Napi::Value RunProcess(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto command = std::make_unique<Command>();
  if (!ReadCommand(info, command.get())) return Napi::Value();
  auto run = std::make_unique<Run>(env, std::move(command));
  run->settle = SettleFunction::New(env, "ProcessRun", 0, 1);
  if (env.IsExceptionPending()) return Napi::Value();
  const Napi::Promise promise = run->deferred.Promise();
  const int error = StartThread(run.get());
  if (error == 0) {
    static_cast<void>(run.release());
    return promise;
  }
  run->settle.Release();
  run->failure.Set("start thread", error);
  run->deferred.Reject(MakeError(env, run->failure).Value());
  return promise;
}

}  // namespace native
