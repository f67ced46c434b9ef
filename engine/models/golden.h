// Golden cases of models: FOLDER/{config.json, model.safetensors, cases.safetensors}, compared with the
// engine every way a model's type allows (of an encoder-decoder, every way the target's): the whole sequence
// at once, in chunks, in small pieces, token by token, in a batch with all other cases, from a clone, and
// saved and restored midway. And the weights of attention, where a case has them.
#ifndef HEED_ENGINE_MODELS_GOLDEN_H_
#define HEED_ENGINE_MODELS_GOLDEN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/golden.h"
#include "engine/base/threads.h"
#include "engine/ops/gemm.h"

namespace heed {

// The bound of agreement: f32, every number within 1e-4 + 1e-4 * |expected|. bf16 and int8: the difference's
// root mean square and its largest, as shares of the expected output's root mean square, at most three times
// the most that draws of noise of the rounding's size do to the model in f32 (rounding_noise.h).
struct GoldenBound {
  double rms = 0, largest = 0;
};

// All cases of a folder. An error if the folder cannot be read or served; a case that cannot be run is a
// problem of it.
absl::StatusOr<std::vector<GoldenResult>> CheckModelCases(const std::string& folder, Precision precision,
                                                          Threads& threads);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_GOLDEN_H_
