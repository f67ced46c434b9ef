// No exception ends the server. We throw none, but the allocator does, and so do libraries: what was thrown
// ends the one thing that was being done.
#ifndef HEED_SERVER_CAUGHT_H_
#define HEED_SERVER_CAUGHT_H_

#include <functional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace heed {

// Runs `body`. What it throws is told to `failed`, if there is one, and becomes the status:
// RESOURCE_EXHAUSTED for want of memory, else INTERNAL. Throws nothing itself, whatever `failed` does.
absl::Status Caught(absl::FunctionRef<void()> body, const std::function<void(std::string_view what)>& failed);

}  // namespace heed

#endif  // HEED_SERVER_CAUGHT_H_
