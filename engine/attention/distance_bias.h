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

namespace heed {

class DistanceBias {
 public:
  // value(head, key position - query position), for each distance up to `reach` to either side; beyond it,
  // value + slope(head) for each step away.
  DistanceBias(int heads, int64_t reach, const std::function<double(int, int64_t)>& value,
               const std::function<double(int)>& slope);

  // values[c] + offset is the bias of the key `first_key` + c for the query at `position`, c < kKeyBlock;
  // times log2(e), as SoftmaxRow has it.
  struct Slice {
    const float* values;
    float offset;
  };
  Slice Row(int head, int64_t position, int64_t first_key) const;

 private:
  int64_t reach_;  // the table's distances: [-reach_, reach_]
  std::vector<float> table_;
  std::vector<double> slopes_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_DISTANCE_BIAS_H_
