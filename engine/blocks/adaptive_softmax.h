// A language model's head of clusters of tokens (Grave et al. 2017): the frequent tokens and a number for
// each cluster of rarer ones share a softmax, and the tokens of such a cluster have one of their own, which
// may read a narrower row:
//   log p(token) = log p(cluster) + log p(token in the cluster)
#ifndef HEED_ENGINE_BLOCKS_ADAPTIVE_SOFTMAX_H_
#define HEED_ENGINE_BLOCKS_ADAPTIVE_SOFTMAX_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/blocks/row_block.h"
#include "engine/blocks/token_clusters.h"
#include "engine/weights/weights.h"

namespace heed {

// Const and thread-safe.
class AdaptiveSoftmax {
 public:
  // Of rows of `in` numbers. Tensors: scope/I.weight [tokens, width], with 0 a row more for each other
  // cluster behind the tokens', I.bias where present; I.projection.weight [width, in], which may be missing
  // where the width is `in`, and I.projection.bias where present.
  static absl::StatusOr<AdaptiveSoftmax> Load(const WeightScope& scope, int64_t in,
                                              const std::vector<TokenCluster>& clusters, Precision precision);

  // in: [rows, in] in the activation type. out: [rows, tokens()] f32, the logarithms of probabilities.
  // `between`, `shares`: [rows, hidden()] f32 each, of no meaning afterwards. All members of the block's team
  // call it; the last thing is a barrier.
  void Run(RowBlock& block, const Rows& in, const Rows& between, const Rows& shares, const Rows& out) const;

  int64_t tokens() const { return tokens_; }
  int64_t hidden() const;  // widest of what it keeps of a row on the way
  int64_t bytes() const;
  double multiply_adds() const;  // of a row
  Precision precision() const { return clusters_.front().weights.precision(); }

 private:
  struct Cluster {
    int64_t begin = 0, tokens = 0;
    PackedWeights weights{};
    PackedWeights projection{};  // of no weights if there is none
  };
  static void Multiply(RowBlock& block, const Cluster& cluster, const Rows& in, const Rows& between,
                       const Rows& out);

  std::vector<Cluster> clusters_;
  int64_t tokens_ = 0;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_ADAPTIVE_SOFTMAX_H_
