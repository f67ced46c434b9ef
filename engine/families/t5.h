// Encoder-decoders with the layers of T5 and their names: what the families that share them have in common.
#ifndef HEED_ENGINE_FAMILIES_T5_H_
#define HEED_ENGINE_FAMILIES_T5_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/families/family.h"

namespace heed {

// What the configuration classes differ in, and the models. Defaults are T5's.
struct T5Kind {
  std::string_view type;  // model_type
  int64_t vocab_size = 32128, width = 512, d_ff = 2048, layers = 6, heads = 8;
  std::string feed_forward = "relu";
  std::string_view feed_forward_module = "DenseReluDense";
  bool tied = true;          // where config.json does not say
  bool bias_in_all = false;  // layers
};

// Keys of the shape, the tensors and the head: ConditionalGeneration, or EncoderModel, an encoder alone.
absl::StatusOr<NativeModel> ReadT5Kind(Checkpoint& checkpoint, const T5Kind& kind);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_T5_H_
