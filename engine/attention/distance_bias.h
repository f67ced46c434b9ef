// A number added to each score that depends on the head and on how far the key is from the query: ALiBi
// (Press et al. 2022), T5's buckets (Raffel et al. 2020). A table a head holds the near distances in the
// order of the keys, so that the biases of a row over a block of keys lie side by side; farther away they go
// on along a straight line (of slope 0 for buckets), so that a far block is the table's last block plus a
// constant.
#ifndef HEED_ENGINE_ATTENTION_DISTANCE_BIAS_H_
#define HEED_ENGINE_ATTENTION_DISTANCE_BIAS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/attention/score_bias.h"

namespace heed {

class DistanceBias : public ScoreBias {
 public:
  // value(head, key position - query position), for each distance up to `reach` to either side; beyond it,
  // value + slope(head) for each step away.
  DistanceBias(int heads, int64_t reach, const std::function<double(int, int64_t)>& value,
               const std::function<double(int)>& slope);

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;

 private:
  int64_t reach_;  // the table's distances: [-reach_, reach_]
  std::vector<float> table_;
  std::vector<double> slopes_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_DISTANCE_BIAS_H_
