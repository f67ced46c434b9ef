// What one head of a sequence keeps whose tokens meet in clusters, and rows that follow others, where each
// knows the tokens so far: one by one, the clusters' members kept up.
#ifndef HEED_ENGINE_ATTENTION_ROUTED_HEAD_H_
#define HEED_ENGINE_ATTENTION_ROUTED_HEAD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/attention/cluster_members.h"
#include "engine/attention/routed_attention.h"
#include "engine/attention/token_pages.h"
#include "engine/base/threads.h"

namespace heed {

// The mean of what a row finds in its clusters, in their order.
class MeanRow {
 public:
  MeanRow(float* sum, int64_t width) : sum_{sum, 1, width, width} {}
  void Clear();
  void Add(const Rows& result, Scratch& scratch) const;
  void Write(int64_t clusters, const Rows& out) const;

 private:
  Matrix<float> sum_;
};

// Copies are independent.
class RoutedHead {
 public:
  // Where rows of a page go beside the pages.
  struct Taken {
    Rows queries;                         // normed, if they are not the keys
    std::vector<Matrix<float>> scores{};  // with the centroids, by set of members; or none
  };
  RoutedHead(const RoutedAttention& attention, int head);

  int64_t tokens() const { return pages_.tokens(); }
  // Its columns.
  Rows OfHead(const Rows& rows) const { return rows.Cols(head_ * options().head_dim, options().head_dim); }
  void Grow(int64_t rows);
  // Memory for the scores of so many rows, at most kGrid.
  void TakeScores(Taken& taken, int64_t count, Scratch& scratch) const;
  // So many of the next rows from `token` on, of one page; `from`: the first row's token.
  void TakePage(const AttentionRows& rows, int64_t from, int64_t token, const Taken& taken, int64_t count,
                Scratch& scratch);
  // The members of a cluster, once all tokens are taken.
  void Choose(int set, int64_t cluster, const float* scores, Scratch& scratch);
  std::span<const int32_t> Keys(int64_t cluster) const { return members_.front().Of(cluster, tokens()); }
  std::span<const int32_t> Queries(int64_t cluster) const { return members_.back().Of(cluster, tokens()); }
  // query: of a token, where they are not the keys.
  void Attend(const Gathering& gathering, absl::FunctionRef<const void*(int64_t token)> query,
              const Rows& results, Scratch& scratch) const;
  // Rows of one page. Until there are more tokens than the window, each is a member everywhere and sees all
  // before it; from then on each finds its clusters by itself.
  void Follow(const AttentionRows& rows, int64_t from, Range tokens, Scratch& scratch);

  void Archive(StateArchive& archive, int64_t tokens);

 private:
  const RoutedOptions& options() const { return attention_->options(); }
  void FollowTogether(Range tokens, const Taken& taken, const Rows& out, Scratch& scratch) const;
  std::vector<int32_t> Join(int64_t token, const Taken& taken, int64_t row);
  void FollowAlone(int64_t token, const std::vector<int32_t>& clusters, const void* given, const Rows& out,
                   Scratch& scratch) const;

  const RoutedAttention* attention_;
  int head_;
  TokenPages pages_;                     // normed keys, and values
  std::vector<ClusterMembers> members_;  // of keys; then, if they are not shared, of queries
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ROUTED_HEAD_H_
