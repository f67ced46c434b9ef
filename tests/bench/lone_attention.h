// One layer's attention by itself, with rows as the layer's own norm and products make them. What it costs
// without its products, which are the same for all variants.
#ifndef HEED_TESTS_BENCH_LONE_ATTENTION_H_
#define HEED_TESTS_BENCH_LONE_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/threads.h"
#include "engine/blocks/sublayer.h"
#include "tests/bench/shapes.h"

namespace heed {

class LoneAttention {
 public:
  // A sequence of n rows. CHECKs that the attention can be served.
  LoneAttention(const StackShape& shape, const Json& attention, Precision precision, int64_t n,
                Threads& threads);
  // `count` fresh sequences, one after another, each of n rows that come at once.
  void Run(int count, Threads& threads);
  // Of one sequence: multiply-adds, and bytes that are read and written at least.
  double Cost() const { return sublayer_.attention().Cost(n_, n_); }
  double Bytes() const;

 private:
  void MakeProducts(Precision precision, Threads& threads);

  int64_t n_;
  AttentionSublayer sublayer_;
  RowBuffer input_, products_, out_;
  std::vector<Scratch> scratch_;  // of each thread
};

}  // namespace heed

#endif  // HEED_TESTS_BENCH_LONE_ATTENTION_H_
