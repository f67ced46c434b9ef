// How an architecture makes a stack: config.json's keys that are its own, and the tensors. stacks.def lists
// them; nothing else knows one by name.
#ifndef HEED_ENGINE_MODELS_STACK_RECIPE_H_
#define HEED_ENGINE_MODELS_STACK_RECIPE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/models/config.h"
#include "engine/models/stack.h"
#include "engine/models/table_schema.h"
#include "engine/models/transformer.h"
#include "engine/weights/weights.h"

namespace heed {

// What a recipe made.
struct LoadedStack {
  Stack stack;
  int layers = 0;  // of the model
  // Of the embeddings: the table of the answered rows' tokens, which a language model's head may be tied to,
  // and the bytes of all tables.
  Tensor tied{};
  int64_t embedding_bytes = 0;
  // What a request brings.
  InputRow input{};
  ImageInput image{};
  GlobalInput global_input{};
  std::vector<int64_t> id_limits{};
  TableSchema schema{};
  bool start_row = false;  // as ModelInfo has it
  int64_t channels = 1;    // of the image, where a decoder's tokens are one
  int64_t max_tokens = 0;  // the longest input, beside what attentions take; 0 = no limit
  // A head of its own; if it has no layers, they are what the configuration's head says.
  OutputHead head{};
};

// The keys that were read. Const and thread-safe.
class StackRecipe {
 public:
  virtual ~StackRecipe() = default;
  // Tensors are named as the oracle has them. INVALID_ARGUMENT names the option or the tensor.
  virtual absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                           Precision precision) const = 0;
};

// One line of stacks.def.
struct StackRecipeEntry {
  std::string name;  // of config.json's "architecture"
  // Reads its own keys, after those of the rows and their norms and before those of the head, whose defaults
  // it may change. What is wrong with them fails the fields.
  std::shared_ptr<const StackRecipe> (*read)(JsonFields& fields, ModelConfig& config);
};
const std::vector<StackRecipeEntry>& StackRecipes();

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_STACK_RECIPE_H_
