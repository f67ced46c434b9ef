#include "engine/models/stack_recipe.h"

namespace heed {

#define STACK(name, factory) \
  std::shared_ptr<const StackRecipe> factory(JsonFields& fields, ModelConfig& config);
#include "engine/models/stacks.def"
#undef STACK

const std::vector<StackRecipeEntry>& StackRecipes() {
#define STACK(name, factory) {name, factory},
  static const auto& entries = *new std::vector<StackRecipeEntry>{
#include "engine/models/stacks.def"
  };
#undef STACK
  return entries;
}

}  // namespace heed
