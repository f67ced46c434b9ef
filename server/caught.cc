#include "server/caught.h"

#include <exception>
#include <new>

#include "server/error.h"

namespace heed {
namespace {

void Tell(std::string_view what, const std::function<void(std::string_view what)>& failed) {
  try {
    if (failed) failed(what);
  } catch (...) {  // nobody is left to be told
  }
}

}  // namespace

absl::Status Caught(absl::FunctionRef<void()> body,
                    const std::function<void(std::string_view what)>& failed) {
  try {
    body();
    return absl::OkStatus();
  } catch (const std::bad_alloc& e) {
    Tell(e.what(), failed);
    return Error(ErrorReason::kOutOfMemory, "the server has no memory left for this call");
  } catch (const std::exception& e) {
    Tell(e.what(), failed);
  } catch (...) {
    Tell("an unknown exception", failed);
  }
  return Error(ErrorReason::kModelError, "the server has failed on this call");
}

}  // namespace heed
