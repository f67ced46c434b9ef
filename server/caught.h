// No exception ends the server. We throw none, but the allocator does, and so do libraries: what was thrown
// ends the one thing that was being done.
#ifndef HEED_SERVER_CAUGHT_H_
#define HEED_SERVER_CAUGHT_H_

#include <functional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace heed {

// Called with what an exception said, which is for us to read, not for clients.
using Failed = std::function<void(std::string_view what)>;

// What `body` returns. What it throws is told to `failed`, if there is one, and becomes a status with this
// sentence: OUT_OF_MEMORY for want of memory, else MODEL_ERROR. Throws nothing itself, whatever `failed`
// does.
absl::Status Caught(std::string_view sentence, absl::FunctionRef<absl::Status()> body, const Failed& failed);

}  // namespace heed

#endif  // HEED_SERVER_CAUGHT_H_
