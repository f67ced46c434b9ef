// A model's folder to a model: config.json says which family reads it.

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/large_blocks.h"
#include "engine/base/status.h"
#include "engine/models/model.h"
#include "engine/models/native.h"
#include "engine/weights/weights.h"

namespace heed {

constexpr int64_t kMaxConfigBytes = 4 << 20;

absl::StatusOr<Json> ReadModelConfig(const std::string& folder) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(folder, "config.json", kMaxConfigBytes));
  ASSIGN_OR_RETURN(Json config, ParseJson(text, "config.json"));
  if (!config.is_object()) return Invalid("config.json is not an object");
  return config;
}

absl::StatusOr<std::unique_ptr<const Model>> LoadModel(const std::string& folder,
                                                       const LoadOptions& options) {
  ASSIGN_OR_RETURN(const Json config, ReadModelConfig(folder));
  auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return Invalid("config.json: model_type is missing");
  if (*type != "heed")
    return Invalid("config.json: model_type '", type->get<std::string>(), "' is not served; \"heed\" is");
  ASSIGN_OR_RETURN(std::unique_ptr<Weights> weights, Weights::Load(folder));
  auto model = NewNativeModel(config, *weights, options);
  weights.reset();
  LargeBlocks::Clear();  // tensors as they were stored do not come again
  return model;
}

}  // namespace heed
