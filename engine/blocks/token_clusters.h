// Clusters of tokens that follow one another in the vocabulary, frequent ones first: each has rows of a width
// of its own (Grave et al. 2017; Baevski and Auli 2019).
#ifndef HEED_ENGINE_BLOCKS_TOKEN_CLUSTERS_H_
#define HEED_ENGINE_BLOCKS_TOKEN_CLUSTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace heed {

struct TokenCluster {
  int64_t tokens = 0, width = 0;
};

// The option `key`, [{"tokens", "width" (hidden_size)}, ...]: 64 at most, whose tokens are vocab_size
// together and whose widths are hidden_size at most. None if it is not given; what is wrong fails the fields.
std::vector<TokenCluster> ReadTokenClusters(const std::string& key, int64_t vocab_size, int64_t hidden_size,
                                            JsonFields& fields);

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_TOKEN_CLUSTERS_H_
