// "bigbird": BigBird (Zaheer et al. 2020). The sequence lies in blocks of block_size, the last may be
// shorter, and a row sees, each key once,
//   the global rows, the blocks b - 1, b and b + 1 around its own, and some random ones.
// Global rows see everything. By form they are
//   "itc"  those of the first and of the last block; a block b between sees random_blocks[head, b - 1, :]
//   "etc"  the model's extra_global_tokens, which stand in front of the blocks; none of these is global, and
//          each sees random_blocks[head, b, :]
// Options: block_size (64 in the paper); num_blocks, the longest sequence in blocks, at least 3, or 1 with
//   "etc"; num_random_blocks (3 in the paper, 0 for none); form ("itc").
//   With "itc", after transformers, which in evaluation draws block 0 for every random one and counts it each
//   time: first_block_count (1): rows between the global ones see each key of the first block so many times;
//   full_up_to (0): in a sequence of at most so many rows all see all, each key once.
// Tensors: q, k, v; random_blocks [heads, num_blocks - 2 or, with "etc", num_blocks, num_random_blocks], I64
//   block numbers, unless there are none. They are the model's: nothing is drawn.
// A shorter sequence has fewer blocks: with "itc" its own last one is global, and random blocks that it does
// not have are nobody's. Encoder only.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

// One head's blocks.
class BigBirdPattern : public Pattern {
 public:
  struct Plan {
    int64_t block = 1;
    int64_t front = 0;       // global rows before the blocks; 0: the first and the last block are global
    int64_t full_up_to = 0;  // rows of a sequence in which all see all
    int64_t randoms = 0;
    // So many for each block of the longest sequence that is not global.
    std::span<const int64_t> drawn{};
  };
  explicit BigBirdPattern(const Plan& plan);
  Range Sees(int, int64_t) const override { return {0, kUnlimited}; }  // the global rows
  double Pairs(int64_t rows, int64_t tokens) const override;
  std::vector<RowSection> Sections(int64_t rows, int64_t tokens) const override;

 private:
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::max();

  bool in_front() const { return front_ > 0; }
  int64_t LastBlock(int64_t tokens) const { return (tokens - front_ - 1) / block_; }
  // Blocks that are not global: the first, and the end.
  Range BlocksBetween(int64_t tokens) const {
    return in_front() ? Range{0, LastBlock(tokens) + 1} : Range{1, LastBlock(tokens)};
  }
  Range RowsOf(Range blocks, int64_t tokens) const {
    return {front_ + blocks.begin * block_, std::min(front_ + blocks.end * block_, tokens)};
  }
  // Of a sequence, those that a block sees for no other reason; ascending.
  std::span<const int32_t> RandomBlocks(int64_t block, int64_t tokens) const;
  std::vector<Range> Runs(int64_t block, int64_t tokens) const;
  double KeysOf(int64_t block, int64_t tokens) const;

  bool IsFull(int64_t tokens) const { return tokens <= std::max(front_, full_up_to_); }

  int64_t block_, front_, full_up_to_, randoms_;
  std::vector<int32_t> drawn_;  // of a block ascending, each once, none that is near or global; then kNone
};

BigBirdPattern::BigBirdPattern(const Plan& plan)
    : block_(plan.block),
      front_(plan.front),
      full_up_to_(plan.full_up_to),
      randoms_(plan.randoms),
      drawn_(plan.drawn.begin(), plan.drawn.end()) {
  constant_bytes_ = std::ssize(drawn_) * static_cast<int64_t>(sizeof(int32_t));
  for (int64_t i = 0; i < std::ssize(drawn_); i += randoms_) {
    const std::span<int32_t> row(drawn_.data() + i, randoms_);
    const int64_t own = i / randoms_ + (in_front() ? 0 : 1);
    std::ranges::sort(row);
    for (int64_t r = std::ssize(row) - 1; r >= 0; --r) {
      const bool seen = std::abs(row[r] - own) <= 1 || (row[r] == 0 && !in_front());
      if (seen || (r > 0 && row[r] == row[r - 1])) row[r] = kNone;
    }
    std::ranges::sort(row);
  }
}

std::span<const int32_t> BigBirdPattern::RandomBlocks(int64_t block, int64_t tokens) const {
  if (randoms_ == 0) return {};
  const Range between = BlocksBetween(tokens);
  const std::span<const int32_t> row(drawn_.data() + (block - between.begin) * randoms_, randoms_);
  return {row.begin(), std::ranges::lower_bound(row, between.end)};
}

std::vector<Range> BigBirdPattern::Runs(int64_t block, int64_t tokens) const {
  const int64_t end = LastBlock(tokens) + 1;
  const std::span<const int32_t> drawn = RandomBlocks(block, tokens);
  std::vector<Range> runs;
  const auto add = [&](Range run) {
    if (!runs.empty() && run.begin <= runs.back().end) {
      runs.back().end = run.end;
    } else {
      runs.push_back(run);
    }
  };
  const auto add_blocks = [&](int64_t first, int64_t last) { add(RowsOf({first, last + 1}, tokens)); };
  add(in_front() ? Range{0, front_} : RowsOf({0, 1}, tokens));
  const auto after = std::ranges::lower_bound(drawn, block);
  for (auto b = drawn.begin(); b != after; ++b) add_blocks(*b, *b);
  add_blocks(std::max<int64_t>(block - 1, 0), std::min(block + 1, end - 1));
  for (auto b = after; b != drawn.end(); ++b) add_blocks(*b, *b);
  if (!in_front()) add_blocks(end - 1, end - 1);
  return runs;
}

// That a row of the block sees.
double BigBirdPattern::KeysOf(int64_t block, int64_t tokens) const {
  const int64_t last = LastBlock(tokens);
  const auto rows = [&](int64_t begin, int64_t end) {
    return static_cast<double>(RowsOf({begin, end}, tokens).size());
  };
  const int64_t first_near = std::max<int64_t>(block - 1, 0), end_near = std::min(block + 1, last) + 1;
  double keys = static_cast<double>(front_) + rows(first_near, end_near);
  for (const int32_t b : RandomBlocks(block, tokens)) keys += rows(b, b + 1);
  if (!in_front() && first_near > 0) keys += rows(0, 1);
  if (!in_front() && end_near <= last) keys += rows(last, last + 1);
  return keys;
}

double BigBirdPattern::Pairs(int64_t rows, int64_t tokens) const {
  const auto n = static_cast<double>(tokens);
  double all = n * n;
  if (IsFull(tokens)) return all * static_cast<double>(rows) / n;
  const Range between = BlocksBetween(tokens);
  for (int64_t b = between.begin; b < between.end; ++b)
    all -= static_cast<double>(RowsOf({b, b + 1}, tokens).size()) * (n - KeysOf(b, tokens));
  return all * static_cast<double>(rows) / n;
}

std::vector<RowSection> BigBirdPattern::Sections(int64_t rows, int64_t tokens) const {
  const auto n = static_cast<double>(tokens);
  const Range blocks = IsFull(tokens) ? Range{0, 0} : BlocksBetween(tokens);
  if (blocks.begin >= blocks.end) return {{.rows = {0, rows}, .keys = n}};
  const Range between = RowsOf(blocks, tokens);
  const int64_t seen = (in_front() ? front_ + 3 * block_ : 5 * block_) + randoms_ * block_;
  std::vector<RowSection> sections = {
      {.rows = {0, between.begin}, .keys = n},
      {.rows = between,
       .keys = std::min(n, static_cast<double>(seen)),
       .block = block_,
       .runs = [this, tokens, first = blocks.begin](int64_t b) { return Runs(first + b, tokens); }}};
  if (between.end < rows) sections.push_back({.rows = {between.end, rows}, .keys = n});
  return sections;
}

// One number for every key.
class EqualBias : public ScoreBias {
 public:
  explicit EqualBias(double number) : values_(kKeyBlock, static_cast<float>(number * std::numbers::log2e)) {}
  void Mark(const BiasBlock&, std::span<SoftmaxRow> rows) const override {
    for (SoftmaxRow& row : rows) {
      row.bias = values_.data();
      row.bias_offset = 0;
    }
  }

 private:
  std::vector<float> values_;
};

// Form "itc" in which rows between the global ones see the first block's keys `count` times: once with the
// others, then once more, each as `count` - 1 keys.
class CountedFirstBlock : public PatternAttention {
 public:
  struct Counted {
    int64_t block = 1, count = 2, full_up_to = 0;
  };
  CountedFirstBlock(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                    int64_t max_tokens, const Counted& counted)
      : PatternAttention(setting, std::move(options), std::move(products), max_tokens),
        counted_(counted),
        more_(std::log(static_cast<double>(counted.count - 1))) {
    weighing_heads_ = 0;  // a key would have two weights
    constant_bytes_ += kKeyBlock * SizeOf(DType::kF32);
  }
  double Cost(int64_t rows, int64_t tokens) const override {
    const int64_t again = Between(tokens).size() * counted_.block;
    return PatternAttention::Cost(rows, tokens) + static_cast<double>(again * options().heads) * PairCost() *
                                                      static_cast<double>(rows) / static_cast<double>(tokens);
  }
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries&, std::vector<KeySource>& sources,
               std::vector<std::unique_ptr<ScoreBias>>&, Scratch&) const override {
    const Range between = Between(rows.first + rows.count);
    const int64_t row = rows.first + tile.row;
    if (row < between.begin || row >= between.end) return;
    sources.push_back({.pages = sources.front().pages,
                       .sees = [block = counted_.block](int64_t) { return Range{0, block}; },
                       .bias = &more_,
                       .continues = true});
  }

 private:
  // Rows that are not global.
  Range Between(int64_t tokens) const {
    if (tokens <= counted_.full_up_to) return {0, 0};
    return {counted_.block, std::max(RoundDown(tokens - 1, counted_.block), counted_.block)};
  }

  Counted counted_;
  EqualBias more_;
};

// What transformers has in place of random blocks. The fields fail where it makes no sense.
CountedFirstBlock::Counted ReadCounted(JsonFields& fields, bool in_front, int64_t block) {
  const CountedFirstBlock::Counted counted{.block = block,
                                           .count = fields.Int("first_block_count", 1, 1, kMostSpan),
                                           .full_up_to = fields.Int("full_up_to", 0, 0, kMostSpan)};
  if (in_front && (counted.count > 1 || counted.full_up_to > 0))
    fields.Fail("first_block_count and full_up_to are of form \"itc\"");
  return counted;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewBigBirdAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  const bool in_front = fields.Choice("form", {"itc", "etc"}) == "etc";
  const int64_t block = fields.RequiredInt("block_size", 1, kMostSpan),
                blocks = fields.RequiredInt("num_blocks", in_front ? 1 : 3, kMostSpan),
                randoms = fields.RequiredInt("num_random_blocks", 0, blocks);
  const CountedFirstBlock::Counted counted = ReadCounted(fields, in_front, block);
  if (in_front && setting.front == 0)
    fields.Fail("form: \"etc\" needs global tokens before the sequence, the model's extra_global_tokens");
  if (setting.causal || setting.cross)
    fields.Fail("the last block is seen by all: this attention is for encoders' own sequences only");
  if (block * blocks > kMostSpan)
    fields.Fail(Cat("num_blocks: ", blocks, " blocks of ", block, " are ", block * blocks,
                    " positions, above ", kMostSpan));
  RETURN_IF_ERROR(fields.Finish());
  const int64_t heads = randoms == 0 ? 1 : setting.num_heads, planned = in_front ? blocks : blocks - 2;
  std::vector<int64_t> drawn;
  if (randoms > 0) {
    ASSIGN_OR_RETURN(drawn, scope.Integers("random_blocks", {heads, planned, randoms}, 0, blocks - 1));
  }
  const int64_t front = in_front ? setting.front : 0, of_head = planned * randoms;
  Patterns patterns;
  for (int64_t head = 0; head < heads; ++head) {
    patterns.push_back(std::make_shared<BigBirdPattern>(
        BigBirdPattern::Plan{.block = block,
                             .front = front,
                             .full_up_to = counted.full_up_to,
                             .randoms = randoms,
                             .drawn = std::span<const int64_t>(drawn).subspan(head * of_head, of_head)}));
  }
  const int64_t longest = front + block * blocks;
  if (counted.count == 1) return NewPatternAttention(setting, fields, scope, std::move(patterns), longest);
  PatternOptions options = PlainHeads(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = std::move(patterns);
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  return std::make_unique<CountedFirstBlock>(setting, std::move(options), std::move(products), longest,
                                             counted);
}

}  // namespace heed
