// Values from JavaScript and to it, as every part of the addon takes and gives them.
#pragma once

// An environment that is being torn down refuses to throw; that must not end the process.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#include <napi.h>

#include <optional>

#include "bytes.h"
#include "failure.h"

namespace native {

// An Error that has `operation` (string), `errno` (positive) and `sent` (segments handed to the kernel by then).
Napi::Error MakeError(Napi::Env env, const Failure& failure);

// A whole number in [low, high]; otherwise empty, with a TypeError pending unless the value's getter threw its own.
std::optional<int> ReadInt(Napi::Env env, const Napi::Value& value, const char* name, int low, int high);

// False where memory does not allow it, or the array has lost its buffer.
bool CopyBytes(const Napi::TypedArray& array, Bytes* bytes);

// Hands the block over to a Uint8Array, without a copy if it is large; empty with an exception pending where the engine
// refuses.
napi_value ToUint8Array(Napi::Env env, Bytes* bytes);

}  // namespace native
