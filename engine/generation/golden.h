// Golden cases of sampling: FOLDER/{cases.json, cases.safetensors}, options with rows of logits and the
// probabilities after them: within 1e-5, and the same tokens left.
#ifndef HEED_ENGINE_GENERATION_GOLDEN_H_
#define HEED_ENGINE_GENERATION_GOLDEN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/golden.h"

namespace heed {

// All cases of a folder. An error if the folder cannot be read; a case that disagrees is a problem of it.
absl::StatusOr<std::vector<GoldenResult>> CheckSamplingCases(const std::string& folder);

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_GOLDEN_H_
