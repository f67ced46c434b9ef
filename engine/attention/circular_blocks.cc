#include "engine/attention/circular_blocks.h"

#include <algorithm>
#include <cmath>

#include "engine/base/round.h"

namespace heed {
namespace {

// Distances between rows, no power of two: they do not meet in one cache set.
constexpr int64_t kPitch = kKeyBlock + 16;

// The logarithm of how often each key is seen.
class TimesBias : public ScoreBias {
 public:
  TimesBias(const CircularBlocks& blocks, int64_t tokens, Scratch& scratch)
      : block_(blocks.block),
        count_(blocks.Count(tokens)),
        logs_(scratch.Take<float>(count_)),
        spread_(scratch.Take<float>(SoftmaxCore::kTile * kPitch)) {
    for (int64_t ahead = 0; ahead < count_; ++ahead)
      logs_[ahead] = static_cast<float>(std::log2(static_cast<double>(blocks.Times(ahead, count_))));
  }
  static int64_t ScratchBytes(const CircularBlocks& blocks) {
    return Scratch::Piece(blocks.seen() * SizeOf(DType::kF32)) +
           Scratch::Piece(SoftmaxCore::kTile * kPitch * SizeOf(DType::kF32));
  }
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    for (size_t r = 0; r < rows.size(); ++r) {
      float* values = spread_ + static_cast<int64_t>(r) * kPitch;
      const int64_t own = block.positions[r] / block_;
      for (int64_t column = block.begin; column < block.end; ++column)
        values[column] = logs_[((block.base + column) / block_ - own + count_) % count_];
      rows[r].bias = values;
      rows[r].bias_offset = 0;
    }
  }

 private:
  int64_t block_, count_;
  float *logs_, *spread_;
};

}  // namespace

int64_t CircularBlocks::Count(int64_t tokens) const {
  return tokens <= block ? 1 : RoundUp(tokens, unit) / block;
}

int64_t CircularBlocks::Times(int64_t ahead, int64_t count) const {
  int64_t times = 0;
  for (int64_t step = -before; step <= after; ++step) times += (step - ahead) % count == 0 ? 1 : 0;
  return times;
}

// Of a circle with at least as many blocks as are seen.
std::vector<Range> CircularPattern::Runs(int64_t block, int64_t tokens) const {
  const int64_t count = blocks_.Count(tokens);
  std::vector<int64_t> seen;
  for (int64_t step = -blocks_.before; step <= blocks_.after; ++step)
    seen.push_back((block + step + count) % count);
  std::ranges::sort(seen);
  std::vector<Range> runs;
  for (const int64_t other : seen) {
    const Range rows = {other * blocks_.block, std::min((other + 1) * blocks_.block, tokens)};
    if (rows.begin >= rows.end) break;
    if (!runs.empty() && runs.back().end == rows.begin) {
      runs.back().end = rows.end;
    } else {
      runs.push_back(rows);
    }
  }
  return runs;
}

double CircularPattern::Pairs(int64_t rows, int64_t tokens) const {
  const auto n = static_cast<double>(tokens);
  if (blocks_.Count(tokens) <= blocks_.seen()) return static_cast<double>(rows) * n;
  double pairs = 0;
  for (int64_t block = 0; block * blocks_.block < tokens; ++block) {
    const int64_t of_block = std::min(blocks_.block, tokens - block * blocks_.block);
    for (const Range& run : Runs(block, tokens)) pairs += static_cast<double>(of_block * run.size());
  }
  return pairs * static_cast<double>(rows) / n;
}

std::vector<RowSection> CircularPattern::Sections(int64_t rows, int64_t tokens) const {
  const auto n = static_cast<double>(tokens);
  if (blocks_.Count(tokens) <= blocks_.seen()) return {{.rows = {0, rows}, .keys = n}};
  return {{.rows = {0, rows},
           .keys = std::min(n, static_cast<double>(blocks_.seen() * blocks_.block)),
           .block = blocks_.block,
           .runs = [this, tokens](int64_t block) { return Runs(block, tokens); }}};
}

int64_t CircularAttention::ScratchBytes() const {
  return TimesBias::ScratchBytes(blocks_) + PatternAttention::ScratchBytes();
}

void CircularAttention::Prepare(const AttentionRows& rows, const Tile&, SoftmaxQueries&,
                                std::vector<KeySource>& sources,
                                std::vector<std::unique_ptr<ScoreBias>>& biases, Scratch& scratch) const {
  const int64_t tokens = rows.first + rows.count;
  if (!blocks_.IsCounted(tokens)) return;
  biases.push_back(std::make_unique<TimesBias>(blocks_, tokens, scratch));
  sources.front().bias = biases.back().get();
}

}  // namespace heed
