// Encoder-decoders: what their families have in common.
#ifndef HEED_ENGINE_FAMILIES_SEQ2SEQ_H_
#define HEED_ENGINE_FAMILIES_SEQ2SEQ_H_

#include <string>

#include "engine/families/family.h"

namespace heed {

// Head "lm". Its matrix is that of the decoder's embedding or lm_head.weight: transformers 4 goes by
// tie_word_embeddings (`tied` where config.json does not say), 5 takes lm_head.weight wherever the file has
// it.
void AddLanguageHead(Checkpoint& checkpoint, bool tied, NativeModel& model);

// embed.tokens.weight of a side ("encoder.", "decoder."; "" of an encoder alone), which the file has as
// PREFIXshared or as either side's embed_tokens: tied matrices appear at least once.
void AddSharedEmbedding(const Checkpoint& checkpoint, const std::string& prefix, const std::string& side,
                        TensorView& tensors);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_SEQ2SEQ_H_
