// Builds a model of the native format from its configuration and weights.
#ifndef HEED_ENGINE_MODELS_NATIVE_H_
#define HEED_ENGINE_MODELS_NATIVE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/families/family.h"
#include "engine/models/model.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights.h"

namespace heed {

// FOLDER/config.json, an object.
absl::StatusOr<Json> ReadModelConfig(const std::string& folder);

// A folder as the native format would have it.
struct LoadedCheckpoint {
  std::unique_ptr<Weights> weights;
  NativeModel model;
  const TensorView* view() const { return model.tensors ? &*model.tensors : nullptr; }
};
// `drawn`: as in LoadOptions.
absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& folder, const Weights* drawn = nullptr);

// As LoadModel. The model keeps what it needs of the weights; of Weights::Of() it reads the embeddings where
// they are. `view`: gives the tensors the names and forms of the native format; null: they have them.
absl::StatusOr<std::unique_ptr<const Model>> NewNativeModel(const Json& config, const Weights& weights,
                                                            const LoadOptions& options,
                                                            const TensorView* view = nullptr);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_NATIVE_H_
