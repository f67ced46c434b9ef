// generation_config.json, which transformers writes beside a checkpoint that generates.
#ifndef HEED_ENGINE_FAMILIES_GENERATION_CONFIG_H_
#define HEED_ENGINE_FAMILIES_GENERATION_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "engine/families/family.h"

namespace heed {

// Takes the ids of tokens that begin and end a text, which hold instead of config.json's. Nothing if the
// folder has no such file; its other keys are engine/generation/generation_defaults.h's.
absl::Status TakeGenerationConfig(const std::string& folder, NativeModel& model);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_GENERATION_CONFIG_H_
