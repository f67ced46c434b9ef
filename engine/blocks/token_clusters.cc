#include "engine/blocks/token_clusters.h"

#include <algorithm>

#include "engine/base/status.h"

namespace heed {

std::vector<TokenCluster> ReadTokenClusters(const std::string& key, int64_t vocab_size, int64_t hidden_size,
                                            JsonFields& fields) {
  constexpr int64_t kMostClusters = 64;
  std::vector<TokenCluster> clusters;
  const Json& all = fields.Raw(key);
  if (all.is_null()) return clusters;
  if (!all.is_array() || all.empty() || std::ssize(all) > kMostClusters) {
    fields.Fail(Cat(key, " is no list of 1 .. ", kMostClusters, " clusters"));
    return clusters;
  }
  int64_t tokens = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    JsonFields own(all[i], Cat(fields.Name(key), "[", i, "]"));
    clusters.push_back({.tokens = own.RequiredInt("tokens", 1, std::max<int64_t>(vocab_size, 1)),
                        .width = own.Int("width", hidden_size, 1, hidden_size)});
    tokens += clusters.back().tokens;
    fields.Fail(own.Finish());
  }
  if (tokens != vocab_size) fields.Fail(Cat(key, ": ", tokens, " tokens, where vocab_size is ", vocab_size));
  return clusters;
}

}  // namespace heed
