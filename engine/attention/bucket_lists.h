// The keys and values of one head of one sequence, and, where rows come one after another, for each round of
// a hash and each bucket the list of its tokens in order of arrival, newest first.
#ifndef HEED_ENGINE_ATTENTION_BUCKET_LISTS_H_
#define HEED_ENGINE_ATTENTION_BUCKET_LISTS_H_

#include <cstdint>
#include <span>

#include "engine/attention/token_pages.h"
#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

class BucketLists {
 public:
  struct Shape {
    DType type = DType::kF32;
    int64_t head_dim = 0;
    int64_t rounds = 0;  // 0: no lists
    int64_t buckets = 0;
  };
  explicit BucketLists(const Shape& shape);

  TokenPages& pages() { return pages_; }
  const TokenPages& pages() const { return pages_; }
  // The newest tokens, of which these are the buckets in a round. Threads may link different rounds.
  void Link(int64_t round, std::span<const int32_t> buckets);
  // In a round: the token before this one in its bucket; how many came before a bucket's newest token but
  // `ago`.
  int32_t Previous(int64_t round, int64_t token) const { return Links(token)[round]; }
  int32_t Place(int64_t round, int32_t bucket, int64_t ago) const {
    return static_cast<int32_t>(At(round, bucket)->count - 1 - ago);
  }

  void Archive(StateArchive& archive, int64_t tokens);
  static int64_t Bytes(const Shape& shape, int64_t tokens);

 private:
  struct List {
    int32_t newest = -1;
    int32_t count = 0;
  };
  int32_t* Links(int64_t token) const { return static_cast<int32_t*>(pages_.Extra(token)); }
  List* At(int64_t round, int32_t bucket) const {
    return const_cast<Buffer&>(lists_).as<List>() + round * shape_.buckets + bucket;
  }
  bool Consistent(int64_t round) const;
  bool Consistent() const;

  Shape shape_;
  TokenPages pages_;  // with links: of a token, the one before it in each round
  Buffer lists_;      // [rounds, buckets]
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_BUCKET_LISTS_H_
