// Heads whose tokens meet in the buckets of a hash (Kitaev et al. 2020); lsh.cc says what that is.
//
// Rows are taken in and hashed, put in order of their buckets, and attend round by round, a row's results
// merged by the log-sum-exp of its scores. Which keys a row finds is the order's where a prompt comes whole,
// and the bucket's list in order of arrival where rows follow others.
#ifndef HEED_ENGINE_ATTENTION_HASHED_ATTENTION_H_
#define HEED_ENGINE_ATTENTION_HASHED_ATTENTION_H_

#include <memory>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/bucket_hash.h"
#include "engine/attention/bucket_lists.h"
#include "engine/attention/gathered.h"

namespace heed {

struct HashedOptions {
  BucketHash::Options hash;
  bool causal = false, strict = false;
  int64_t chunk = 0, before = 1, after = 0;

  int heads() const { return hash.heads; }
  int64_t head_dim() const { return hash.head_dim; }
  int64_t rounds() const { return hash.rounds; }
  int64_t keys() const { return (1 + before + after) * chunk; }  // that a chunk reads
  // Of a round, what one task attends from: whole chunks, or a part of one.
  int64_t task_slots() const;
};

class HashedAttention : public Attention {
 public:
  enum { kS, kV };  // the products
  // rotations: [heads, head_dim, rounds, directions]
  HashedAttention(const AttentionSetting& setting, HashedOptions options, std::vector<Product> products,
                  const std::vector<float>& rotations);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const HashedOptions& options() const { return options_; }
  const BucketHash& hash() const { return hash_; }
  const GatheredCore& core() const { return core_; }
  const float* key_norm() const { return key_norm_.data(); }
  BucketLists::Shape lists() const;  // that a head keeps
  // Half of the heads at a time, so that the work of many rows is less than what remains of them.
  int HeadsAtOnce(int64_t rows) const;

 private:
  HashedOptions options_;
  BucketHash hash_;
  GatheredCore core_;
  std::vector<float> key_norm_;  // [head_dim] 1 / sqrt(head_dim)
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_HASHED_ATTENTION_H_
