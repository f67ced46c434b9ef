#include "engine/families/windows.h"

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {

Json WindowOf(JsonFields& fields, int64_t layer) {
  int64_t window = 512;
  if (fields.Raw("attention_window").is_array()) {
    const std::vector<int64_t> windows =
        fields.Ints("attention_window", layer + 1, kMostLayers, 1, kMostSize);
    if (layer < std::ssize(windows)) window = windows[layer];
  } else {
    window = Size(fields, "attention_window", window);
  }
  return {{"type", "sliding_window"}, {"window", window}};
}

void AddGlobalProducts(const std::string& of, const std::string& to, TensorView& tensors) {
  tensors.AddModule(to + "q_global", of + "query_global");
  tensors.AddModule(to + "k_global", of + "key_global");
  tensors.AddModule(to + "v_global", of + "value_global");
}

}  // namespace heed
