// Names of the first days, which transformers takes for today's whatever the family: files converted from
// TensorFlow (the published bert-base-uncased is one) call a layer norm's weight and bias "LayerNorm.gamma"
// and "LayerNorm.beta".
#ifndef HEED_ENGINE_FAMILIES_LEGACY_NAMES_H_
#define HEED_ENGINE_FAMILIES_LEGACY_NAMES_H_

#include "engine/weights/weights.h"

namespace heed {

// Gives such tensors today's names. One whose new name another tensor has keeps its own, so that it is
// refused as one too many.
void TakeTodaysNames(Weights& weights);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_LEGACY_NAMES_H_
