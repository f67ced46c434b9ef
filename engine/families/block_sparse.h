// BigBird's attention, which BigBird-Pegasus' encoder has too.
#ifndef HEED_ENGINE_FAMILIES_BLOCK_SPARSE_H_
#define HEED_ENGINE_FAMILIES_BLOCK_SPARSE_H_

#include <cstdint>

#include "engine/families/family.h"

namespace heed {

// The native attention of all layers: attention_type, block_size and num_random_blocks. transformers, when it
// evaluates, takes block 0 for every random one, and reads texts of up to (5 + 2 num_random_blocks)
// block_size tokens as "original_full" does.
Json BlockSparseAttention(JsonFields& fields, int64_t max_positions);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_BLOCK_SPARSE_H_
