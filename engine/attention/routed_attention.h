// Heads whose tokens meet in learned clusters (Roy et al. 2020); routing.cc says what that is.
//
// Rows that come whole: all are taken in and scored with the centroids, members are chosen for each cluster,
// the queries of a cluster attend to its keys, and a row's results are added up cluster by cluster. Rows that
// follow others, where each knows the tokens so far: one by one, the members kept up.
#ifndef HEED_ENGINE_ATTENTION_ROUTED_ATTENTION_H_
#define HEED_ENGINE_ATTENTION_ROUTED_ATTENTION_H_

#include <memory>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/gathered.h"
#include "engine/ops/gemm.h"

namespace heed {

struct RoutedOptions {
  int heads = 1;
  int64_t head_dim = 0;
  bool causal = false, strict = false, shared = true;
  int64_t clusters = 0, window = 0;
  double scale = 1;  // scores = scale * q'.k'

  int sets() const { return shared ? 1 : 2; }  // of members: keys that are queries, or keys and queries
  double choosing_cost() const { return static_cast<double>(sets() * clusters * head_dim); }  // of a row
  double pair_cost() const { return 2 * static_cast<double>(head_dim); }
};

class RoutedAttention : public Attention {
 public:
  enum { kQ, kV, kK };  // the products; no k if queries are keys
  // Rows whose steps are one task of each head.
  static constexpr int64_t kFewRows = kGrid / 2;
  // centroids: [heads, clusters, head_dim]
  RoutedAttention(const AttentionSetting& setting, const RoutedOptions& options,
                  std::vector<Product> products, const std::vector<float>& centroids);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const RoutedOptions& options() const { return options_; }
  const GatheredCore& core() const { return core_; }
  // Rows t to t', at most kGrid.
  void Norm(const Rows& rows, Matrix<float> normed, Scratch& scratch) const;
  // Scores of normed rows with the centroids of a head, none of them NaN: that is the lowest.
  void Score(int head, Matrix<float> normed, Matrix<float> scores, Scratch& scratch) const;
  // Whether members are found at all: an encoder of few tokens has no use for them.
  bool HasMembers(int64_t tokens) const { return options_.causal || tokens > options_.window; }
  // What the stages of one head hand on, and of how many heads at a time: half of them, or fewer, so that it
  // is less than what remains of them.
  int64_t WorkBytes(int64_t rows) const;
  int HeadsAtOnce(int64_t rows) const;
  int64_t ClusterRows() const;  // queries of a cluster in one task

 private:
  RoutedOptions options_;
  GatheredCore core_;
  std::vector<float> ones_;               // [head_dim]
  std::vector<PackedWeights> centroids_;  // of a head
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ROUTED_ATTENTION_H_
