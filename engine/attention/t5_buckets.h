// T5's buckets of distances (Raffel et al. 2020). Of the b buckets of a side, the first e = b / 2 hold a
// distance each; from there on x is in bucket e + floor((b - e) log(x / e) / log(max_distance / e)), at most
// b - 1. The floor is of the exact real number: it is decided in whole numbers, x^(b-e) e^t >= max_distance^t
// e^(b-e), where floats would be off by one at the borders.
#ifndef HEED_ENGINE_ATTENTION_T5_BUCKETS_H_
#define HEED_ENGINE_ATTENTION_T5_BUCKETS_H_

#include <cstdint>
#include <vector>

namespace heed {

class T5Buckets {
 public:
  // bidirectional: keys after the query use the upper half of the buckets; else their distance counts as 0.
  // max_distance is above half the buckets of a side, and below 2^32.
  T5Buckets(int buckets, int64_t max_distance, bool bidirectional);

  // Of the distance query position - key position.
  int64_t Bucket(int64_t distance) const;

 private:
  bool bidirectional_;
  int64_t side_;                 // buckets of a side
  std::vector<int64_t> starts_;  // the smallest distance of each bucket from side_ / 2 on
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_T5_BUCKETS_H_
