// Angular hashing (Andoni et al. 2015, as the Reformer has it): vectors that point alike are likely to get
// the same bucket. With R a head's rotations of a round,
//   bucket = argmax [s R; -s R], of equal ones the first
// and where the number of buckets is a product, an argmax for each factor: bucket = b0 + f0 (b1 + f1 (...)).
#ifndef HEED_ENGINE_ATTENTION_BUCKET_HASH_H_
#define HEED_ENGINE_ATTENTION_BUCKET_HASH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/memory.h"
#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Const and thread-safe after construction.
class BucketHash {
 public:
  struct Options {
    int heads = 1;
    int64_t head_dim = 0;
    int64_t rounds = 0;
    std::vector<int64_t> factors;  // even

    int64_t buckets() const;
    int64_t directions() const;  // of a round
    int64_t outputs() const { return rounds * directions(); }
  };
  // rotations: [heads, head_dim, rounds, directions]
  BucketHash(const Options& options, const std::vector<float>& rotations);

  // The buckets of rows s, at most kGrid and with memory for so many: those of a round are `pitch` apart from
  // the next round's. Decided in f32.
  void Hash(int head, Matrix<float> s, int32_t* buckets, int64_t pitch, Scratch& scratch) const;

  int64_t bytes() const;
  int64_t ScratchBytes() const;

 private:
  Options options_;
  std::vector<PackedWeights> rotations_;  // of a head: `outputs` outputs
};

// The rows by bucket, those of one bucket in their own order. Buckets are below `limit`.
void SortByBucket(std::span<const int32_t> buckets, int64_t limit, std::span<int32_t> order);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_BUCKET_HASH_H_
