// A model's folder to a model: config.json says which family reads it.

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/large_blocks.h"
#include "engine/base/status.h"
#include "engine/families/generation_config.h"
#include "engine/families/legacy_names.h"
#include "engine/families/mask_token.h"
#include "engine/families/sentence_modules.h"
#include "engine/models/model.h"
#include "engine/models/native.h"
#include "engine/weights/weights.h"

namespace heed {

constexpr int64_t kMaxConfigBytes = 4 << 20;

absl::StatusOr<Json> ReadModelConfig(const std::string& folder) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(folder, "config.json", kMaxConfigBytes));
  ASSIGN_OR_RETURN(Json config, ParseJson(WithoutPythonNumbers(text), "config.json"));
  if (!config.is_object()) return Invalid("config.json is not an object");
  return config;
}

absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& folder, const Weights* drawn) {
  LoadedCheckpoint loaded;
  ASSIGN_OR_RETURN(const Json config, ReadModelConfig(folder));
  ASSIGN_OR_RETURN(const SentenceModules modules, ReadSentenceModules(folder));
  ASSIGN_OR_RETURN(loaded.weights, Weights::Load(folder, modules.folders()));
  TakeTodaysNames(*loaded.weights);
  if (drawn != nullptr) RETURN_IF_ERROR(loaded.weights->Add(*drawn));
  ASSIGN_OR_RETURN(loaded.model, ReadCheckpoint(config, *loaded.weights));
  RETURN_IF_ERROR(modules.Apply(loaded.model));
  RETURN_IF_ERROR(TakeGenerationConfig(folder, loaded.model));
  RETURN_IF_ERROR(TakeMaskToken(folder, loaded.model));
  return loaded;
}

absl::StatusOr<std::unique_ptr<const Model>> LoadModel(const std::string& folder,
                                                       const LoadOptions& options) {
  ASSIGN_OR_RETURN(LoadedCheckpoint loaded, LoadCheckpoint(folder, options.drawn));
  auto model = NewNativeModel(loaded.model.config, *loaded.weights, options, loaded.view());
  loaded.weights.reset();
  LargeBlocks::Clear();  // tensors as they were stored do not come again
  return model;
}

}  // namespace heed
