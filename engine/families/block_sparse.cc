#include "engine/families/block_sparse.h"

#include <algorithm>

#include "engine/base/round.h"
#include "engine/families/parts.h"

namespace heed {

Json BlockSparseAttention(JsonFields& fields, int64_t max_positions) {
  if (fields.Choice("attention_type", {"block_sparse", "original_full"}) == "original_full")
    return {{"type", "full"}};
  const int64_t block = Size(fields, "block_size", 64),
                randoms = fields.Int("num_random_blocks", 3, 0, kMostLayers);
  return {{"type", "bigbird"},
          {"block_size", block},
          {"num_blocks", std::max<int64_t>(Quotient(max_positions, block), 3)},
          {"num_random_blocks", 0},
          {"first_block_count", 1 + randoms},
          {"full_up_to", (5 + 2 * randoms) * block}};
}

}  // namespace heed
