// Several runs of keys read as one: what lies between them is masked.
#ifndef HEED_ENGINE_ATTENTION_BETWEEN_RUNS_H_
#define HEED_ENGINE_ATTENTION_BETWEEN_RUNS_H_

#include <algorithm>
#include <span>
#include <vector>

#include "engine/attention/score_bias.h"
#include "engine/attention/softmax_core.h"

namespace heed {

class BetweenRuns : public ScoreBias {
 public:
  BetweenRuns(const std::vector<Range>& runs, Scratch& scratch)
      : runs_(runs), values_(scratch.Take<float>(kKeyBlock)) {}
  static int64_t ScratchBytes() { return Scratch::Piece(kKeyBlock * SizeOf(DType::kF32)); }

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const int64_t begin = block.base + block.begin, end = block.base + block.end;
    std::fill(values_ + block.begin, values_ + block.end, kMasked);
    auto run = std::ranges::upper_bound(runs_, begin, {}, &Range::end);
    for (; run != runs_.end() && run->begin < end; ++run) {
      std::fill(values_ + (std::max(run->begin, begin) - block.base),
                values_ + (std::min(run->end, end) - block.base), 0.0f);
    }
    for (SoftmaxRow& row : rows) {
      row.bias = values_;
      row.bias_offset = 0;
    }
  }

 private:
  const std::vector<Range>& runs_;
  float* values_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_BETWEEN_RUNS_H_
