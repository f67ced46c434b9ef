#include "engine/families/gated_delta.h"

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {

DeltaHeads ReadDeltaHeads(JsonFields& fields, const DeltaHeads& defaults) {
  DeltaHeads heads{.key_heads = Size(fields, "linear_num_key_heads", defaults.key_heads),
                   .value_heads = Size(fields, "linear_num_value_heads", defaults.value_heads),
                   .key_dim = Size(fields, "linear_key_head_dim", defaults.key_dim),
                   .value_dim = Size(fields, "linear_value_head_dim", defaults.value_dim),
                   .kernel = Size(fields, "linear_conv_kernel_dim", defaults.kernel, 64)};
  if (heads.value_heads % heads.key_heads != 0) {
    fields.Fail(Cat("linear_num_value_heads: ", heads.value_heads,
                    " is no multiple of linear_num_key_heads: ", heads.key_heads));
  }
  return heads;
}

std::vector<bool> LinearLayers(Checkpoint& checkpoint, int64_t layers,
                               absl::FunctionRef<bool(int64_t)> rule) {
  JsonFields& fields = checkpoint.fields();
  const Json& types = fields.Raw("layer_types");
  std::vector<bool> linear(layers);
  if (types.is_null()) {
    for (int64_t i = 0; i < layers; ++i) linear[i] = rule(i);
    return linear;
  }
  if (!types.is_array() || std::ssize(types) != layers) {
    fields.Fail(Cat("layer_types: ", Shown(types), " is no list of ", layers, " layers"));
    return linear;
  }
  for (int64_t i = 0; i < layers; ++i) {
    linear[i] = types[i] == "linear_attention";
    if (!linear[i] && types[i] != "full_attention") {
      fields.Fail(Cat("layer_types[", i, "]: ", Shown(types[i]),
                      " is not served; full_attention and linear_attention are"));
    }
  }
  return linear;
}

Json DeltaAttention(const DeltaHeads& heads) {
  return {{"type", "gated_delta"},    {"num_heads", heads.value_heads}, {"num_key_heads", heads.key_heads},
          {"key_dim", heads.key_dim}, {"value_dim", heads.value_dim},   {"kernel", heads.kernel}};
}

}  // namespace heed
