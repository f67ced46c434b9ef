// "heed": the native format, as it is.
#include "engine/families/family.h"

namespace heed {

absl::StatusOr<NativeModel> ReadNativeFamily(Checkpoint& checkpoint) {
  return NativeModel{.config = checkpoint.config(), .tensors = std::nullopt};
}

}  // namespace heed
