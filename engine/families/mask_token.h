// Which token of a masked language model stands for a masked one: config.json does not say it, the
// tokenizer's files do.
#ifndef HEED_ENGINE_FAMILIES_MASK_TOKEN_H_
#define HEED_ENGINE_FAMILIES_MASK_TOKEN_H_

#include <string>

#include "absl/status/status.h"
#include "engine/families/family.h"

namespace heed {

// Takes the id of "[MASK]" or "<mask>" from tokenizer.json's added tokens, else from vocab.txt. Nothing if
// there is none, or the model has no use for it.
absl::Status TakeMaskToken(const std::string& folder, NativeModel& model);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_MASK_TOKEN_H_
