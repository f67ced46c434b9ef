// Decoders with the layers of GPT-2 and their names.
#ifndef HEED_ENGINE_FAMILIES_GPT2_H_
#define HEED_ENGINE_FAMILIES_GPT2_H_

#include <string_view>

#include "engine/families/decoder.h"

namespace heed {

// Sizes that both spellings of config.json's keys may say: n_embd or hidden_size, and so on.
int64_t SizeOfEither(Checkpoint& checkpoint, std::string_view key, std::string_view other, int64_t fallback,
                     int64_t most);

// Keys of the shape, the tensors of embedding and norms. Neither head nor products yet. `activation`: where
// config.json has none.
Decoder ReadGpt2Decoder(Checkpoint& checkpoint, std::string_view activation);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_GPT2_H_
