// "bigbird": BigBird (Zaheer et al. 2020) of form "itc". The sequence lies in blocks of block_size, the last
// may be shorter. The rows of the first and of the last block see everything; those of block b between see
//   { 0, b - 1, b, b + 1, last } and random_blocks[head, b - 1, :],  each key once
// Options: block_size (64 in the paper); num_blocks, the longest sequence in blocks, 3 at least;
//   num_random_blocks (3 in the paper, 0 for none); form: "itc", where blocks of the sequence are the global
//   ones.
// Tensors: q, k, v; random_blocks [heads, num_blocks - 2, num_random_blocks], I64 block numbers, unless there
//   are none. They are the model's: nothing is drawn.
// A shorter sequence has fewer blocks: its own last one is global, and random blocks that it does not have
// are nobody's. Encoder only.
#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

// One head's random blocks.
class BigBirdPattern : public Pattern {
 public:
  // `drawn`: so many for each block between the first and the last of the longest sequence.
  BigBirdPattern(int64_t block, int64_t randoms, std::span<const int64_t> drawn);
  Range Sees(int, int64_t) const override { return {0, kUnlimited}; }  // the global rows
  double Pairs(int64_t rows, int64_t tokens) const override;
  std::vector<RowSection> Sections(int64_t rows, int64_t tokens) const override;

 private:
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::max();

  int64_t LastBlock(int64_t tokens) const { return (tokens - 1) / block_; }
  // Of a sequence, those that a block sees for no other reason; ascending.
  std::span<const int32_t> RandomBlocks(int64_t block, int64_t last) const;
  std::vector<Range> Runs(int64_t block, int64_t tokens) const;

  int64_t block_, randoms_;
  std::vector<int32_t> drawn_;  // of a block ascending, each once, none that is near; then kNone
};

BigBirdPattern::BigBirdPattern(int64_t block, int64_t randoms, std::span<const int64_t> drawn)
    : block_(block), randoms_(randoms), drawn_(drawn.begin(), drawn.end()) {
  constant_bytes_ = std::ssize(drawn_) * static_cast<int64_t>(sizeof(int32_t));
  for (int64_t i = 0; i < std::ssize(drawn_); i += randoms_) {
    const std::span<int32_t> row(drawn_.data() + i, randoms_);
    const int64_t own = 1 + i / randoms_;
    std::ranges::sort(row);
    for (int64_t r = std::ssize(row) - 1; r >= 0; --r) {
      const bool near = std::abs(row[r] - own) <= 1 || row[r] == 0, again = r > 0 && row[r] == row[r - 1];
      if (near || again) row[r] = kNone;
    }
    std::ranges::sort(row);
  }
}

std::span<const int32_t> BigBirdPattern::RandomBlocks(int64_t block, int64_t last) const {
  if (randoms_ == 0) return {};
  const std::span<const int32_t> row(drawn_.data() + (block - 1) * randoms_, randoms_);
  return {row.begin(), std::ranges::lower_bound(row, last)};
}

std::vector<Range> BigBirdPattern::Runs(int64_t block, int64_t tokens) const {
  const int64_t last = LastBlock(tokens);
  const std::span<const int32_t> drawn = RandomBlocks(block, last);
  std::vector<Range> runs;
  const auto add = [&](int64_t first, int64_t end) {
    const Range run{first * block_, std::min(end * block_, tokens)};
    if (!runs.empty() && run.begin <= runs.back().end) {
      runs.back().end = run.end;
    } else {
      runs.push_back(run);
    }
  };
  add(0, 1);
  const auto after = std::ranges::lower_bound(drawn, block);
  for (auto b = drawn.begin(); b != after; ++b) add(*b, *b + 1);
  add(block - 1, block + 2);
  for (auto b = after; b != drawn.end(); ++b) add(*b, *b + 1);
  add(last, last + 1);
  return runs;
}

// The blocks between the first and the last see the last one and of { 0, b - 1, b, b + 1 } four others: two
// of them one less, or one of them two.
double BigBirdPattern::Pairs(int64_t rows, int64_t tokens) const {
  const int64_t last = LastBlock(tokens);
  const auto n = static_cast<double>(tokens), block = static_cast<double>(block_),
             of_last = static_cast<double>(tokens - last * block_);
  if (last <= 1) return static_cast<double>(rows) * n;
  double others = static_cast<double>(4 * (last - 1) - 2);
  for (int64_t b = 1; b < last; ++b) others += static_cast<double>(RandomBlocks(b, last).size());
  const double all =
      (block + of_last) * n + block * (others * block + static_cast<double>(last - 1) * of_last);
  return all * static_cast<double>(rows) / n;
}

std::vector<RowSection> BigBirdPattern::Sections(int64_t rows, int64_t tokens) const {
  const int64_t last = LastBlock(tokens);
  const auto n = static_cast<double>(tokens);
  const auto everything = [&](int64_t begin, int64_t end) {
    return RowSection{.rows = {begin, end}, .keys = n};
  };
  if (last <= 1) return {everything(0, rows)};
  const RowSection between{.rows = {block_, last * block_},
                           .keys = std::min(n, static_cast<double>((5 + randoms_) * block_)),
                           .block = block_,
                           .runs = [this, tokens](int64_t b) { return Runs(1 + b, tokens); }};
  return {everything(0, block_), between, everything(last * block_, rows)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewBigBirdAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  const int64_t block = fields.RequiredInt("block_size", 1, kMostSpan),
                blocks = fields.RequiredInt("num_blocks", 3, kMostSpan),
                randoms = fields.RequiredInt("num_random_blocks", 0, blocks);
  if (fields.Choice("form", {"itc", "etc"}) == "etc")
    fields.Fail("form: \"etc\", with global tokens of its own, is not served yet");
  if (setting.causal || setting.cross)
    fields.Fail("the last block is seen by all: this attention is for encoders' own sequences only");
  if (block * blocks > kMostSpan)
    fields.Fail(Cat("num_blocks: ", blocks, " blocks of ", block, " are ", block * blocks,
                    " positions, above ", kMostSpan));
  RETURN_IF_ERROR(fields.Finish());
  const int64_t heads = randoms == 0 ? 1 : setting.num_heads, of_head = (blocks - 2) * randoms;
  std::vector<int64_t> drawn;
  if (randoms > 0) {
    ASSIGN_OR_RETURN(drawn, scope.Integers("random_blocks", {heads, blocks - 2, randoms}, 0, blocks - 1));
  }
  std::vector<std::shared_ptr<const Pattern>> patterns;
  for (int64_t head = 0; head < heads; ++head) {
    patterns.push_back(std::make_shared<BigBirdPattern>(
        block, randoms, std::span<const int64_t>(drawn).subspan(head * of_head, of_head)));
  }
  return NewPatternAttention(setting, fields, scope, std::move(patterns), block * blocks);
}

}  // namespace heed
