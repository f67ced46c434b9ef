// Builds a model of the native format from its configuration and weights.
#ifndef HEED_ENGINE_MODELS_NATIVE_H_
#define HEED_ENGINE_MODELS_NATIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/models/model.h"
#include "engine/weights/weights.h"

namespace heed {

// As LoadModel, from parts that are in memory already.
absl::StatusOr<std::unique_ptr<const Model>> NewNativeModel(const Json& config,
                                                            std::unique_ptr<Weights> weights,
                                                            const LoadOptions& options);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_NATIVE_H_
