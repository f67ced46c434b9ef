// Longformer's attention, which LED's encoder has too.
#ifndef HEED_ENGINE_FAMILIES_WINDOWS_H_
#define HEED_ENGINE_FAMILIES_WINDOWS_H_

#include <cstdint>
#include <string>

#include "engine/families/family.h"

namespace heed {

// The native attention of a layer: attention_window is one number, or a list with one for each layer.
Json WindowOf(JsonFields& fields, int64_t layer);

// The products that global tokens have: those of the modules {query, key, value}_global under `of`.
void AddGlobalProducts(const std::string& of, const std::string& to, TensorView& tensors);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_WINDOWS_H_
