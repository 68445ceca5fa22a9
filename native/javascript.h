// Conversion of values from and to JavaScript.
#pragma once

// Throwing fails while an environment is being torn down; that must not abort the process.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#include <napi.h>

#include <optional>

#include "bytes.h"
#include "failure.h"

namespace native {

// Returns an Error with `operation` (string), `errno` (positive) and `sent` (segments sent before the failure).
Napi::Error MakeError(Napi::Env env, const Failure& failure);

// Returns an integer in [low, high]; otherwise nullopt, with a TypeError or the getter's own exception pending.
std::optional<int> ReadInt(Napi::Env env, const Napi::Value& value, const char* name, int low, int high);

// Returns false if allocation fails or the array's buffer is detached.
bool CopyBytes(const Napi::TypedArray& array, Bytes* bytes);

// Moves the block to a Uint8Array, without a copy if it is large. Returns nullptr with an exception pending on failure.
napi_value ToUint8Array(Napi::Env env, Bytes* bytes);

}  // namespace native
