// What a precision's rounding may do to a model, found from the model and not from how the engine fared: the
// same model computed in f32 with noise on its weights. A product's weights and what they are multiplied with
// are rounded alike, so noise of twice a rounding's amplitude, four times its variance, stands for the
// weights, the inputs and what attention rounds on the way. Where the data decide who meets, noise sends rows
// elsewhere as a rounding would.
#ifndef HEED_ENGINE_MODELS_ROUNDING_NOISE_H_
#define HEED_ENGINE_MODELS_ROUNDING_NOISE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/models/model.h"

namespace heed {

// As LoadModel in f32, of a native model, with uniform noise on the numbers of every matrix: within twice the
// mantissa's last place in bf16, within twice half a step of 255 from the row's least to its largest in int8
// (of embeddings, which are no product's, as in bf16). `drawn`: as in LoadOptions.
absl::StatusOr<std::unique_ptr<const Model>> LoadWithNoise(const std::string& folder, Precision precision,
                                                           int seed, const Weights* drawn = nullptr);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_ROUNDING_NOISE_H_
