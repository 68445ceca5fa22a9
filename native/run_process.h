#pragma once

#include "javascript.h"

namespace native {

// runProcess(argv: string[], env: string[], stdin: Uint8Array, deadlineMs: number, maxOutput: number):
// Promise<{ status, signal, stdout, stderr }>; see process.h. Wrong types throw; what goes wrong rejects with the Error of
// javascript.h, whose errno is one of those that process.h tells.
Napi::Value RunProcess(const Napi::CallbackInfo& info);

}  // namespace native
