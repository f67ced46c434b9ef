// Golden cases of beam search: those of a model's FOLDER/cases.safetensors that have beam_ids, with the texts
// and scores that the search must find.
#ifndef HEED_ENGINE_GENERATION_BEAM_GOLDEN_H_
#define HEED_ENGINE_GENERATION_BEAM_GOLDEN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/golden.h"
#include "engine/base/threads.h"

namespace heed {

// Of an encoder-decoder's folder, in f32: the same tokens, and scores within 1e-4. Of other models nothing.
absl::StatusOr<std::vector<GoldenResult>> CheckBeamCases(const std::string& folder, Threads& threads);

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_BEAM_GOLDEN_H_
