// The members of clusters, in one head of one sequence: of each cluster the `window` tokens that score
// highest with it, of equal ones the earlier. Found at once from the scores of all tokens, or kept up token
// by token: the members are the same.
#ifndef HEED_ENGINE_ATTENTION_CLUSTER_MEMBERS_H_
#define HEED_ENGINE_ATTENTION_CLUSTER_MEMBERS_H_

#include <cstdint>
#include <span>

#include "engine/base/archive.h"
#include "engine/base/memory.h"

namespace heed {

// No score is NaN. How many members there are follows from the tokens that there have been: all of them until
// there are more than the window.
class ClusterMembers {
 public:
  ClusterMembers(int64_t clusters, int64_t window);

  // Makes room for so many tokens in all.
  void Grow(int64_t tokens);
  // The members among the first `tokens`, whose scores with the cluster these are. Threads may choose for
  // different clusters.
  void Choose(int64_t cluster, const float* scores, int64_t tokens, Scratch& scratch);
  // The next token; whether it is a member from now on. O(1) if not, else O(window).
  bool Add(int64_t cluster, int64_t token, float score);
  // The members when there have been so many tokens; ascending.
  std::span<const int32_t> Of(int64_t cluster, int64_t tokens) const;

  void Archive(StateArchive& archive, int64_t tokens);  // restores into an empty one
  // Closed forms: of what is held after so many tokens, and of the scratch that Choose() takes.
  static int64_t Bytes(int64_t clusters, int64_t window, int64_t tokens);
  static int64_t ScratchBytes(int64_t window);

 private:
  // The member that leaves first: the lowest score, of equal ones the latest.
  struct Worst {
    float score;
    int32_t place;
  };
  Worst* worst(int64_t cluster) const { return const_cast<Buffer&>(memory_).as<Worst>() + cluster; }
  float* scores(int64_t cluster) const {
    return reinterpret_cast<float*>(worst(clusters_)) + cluster * room_;
  }
  int32_t* tokens(int64_t cluster) const {
    return reinterpret_cast<int32_t*>(scores(clusters_)) + cluster * room_;
  }
  void FindWorst(int64_t cluster, int64_t members);
  bool Consistent(int64_t tokens) const;

  int64_t clusters_, window_;
  int64_t room_ = 0;  // members of a cluster
  Buffer memory_;     // [clusters] worst, [clusters, room] scores, [clusters, room] tokens
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_CLUSTER_MEMBERS_H_
