#include "server/caught.h"

#include <exception>
#include <new>

#include "server/error.h"

namespace heed {
namespace {

void Tell(std::string_view what, const Failed& failed) {
  try {
    if (failed) failed(what);
  } catch (...) {  // nobody is left to be told
  }
}

}  // namespace

absl::Status Caught(std::string_view sentence, absl::FunctionRef<absl::Status()> body, const Failed& failed) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    Tell("out of memory", failed);
    return Error(ErrorReason::kOutOfMemory, sentence, ": no memory is left");
  } catch (const std::exception& e) {
    Tell(e.what(), failed);
  } catch (...) {
    Tell("an unknown exception", failed);
  }
  return Error(ErrorReason::kModelError, sentence);
}

}  // namespace heed
