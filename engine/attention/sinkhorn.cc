// "sinkhorn": Sparse Sinkhorn Attention (Tay et al. 2020): a token reads its own block of tokens, and a
// mixture of blocks that a soft permutation has sorted to it.
//   psi_i = sum of block i's keys,  R[i, j] = sort_j . psi_i / temperature
//   S = exp(R), balanced: `iterations` times its rows, then its columns divided by their sums
//   sorted block i = sum_j S[i, j] block j, of keys and of values, token by token
//   softmax(q [sorted keys i | own keys]' / sqrt(head_dim)) [sorted values i | own values]
// In a decoder psi_i is the sum of all keys up to block i's first token, sorted block i mixes earlier blocks,
// and S is balanced for each i anew, over the rows and columns before it. Decoding is exact.
// Options: block; max_blocks, of the longest sequence; iterations (5), with max_blocks^2 iterations at most
//   2^26; temperature (0.75); two_softmax (false): own block and sorted block each have a softmax, and their
//   results add up; sort_cut (none; encoder only): all tokens read the first so many sorted blocks, and
//   nothing else.
// Tensors: q, k, v; sort.weight [heads, max_blocks, head_dim].
// State: keys and values of all tokens, in matrices of blocks, R below its diagonal, sums of keys; for
//   attending, those of the block at hand and of the one sorted to it. A step computes a new sorted block at
//   each block's first token.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/block_matrix.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/gather.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"
#include "engine/ops/sinkhorn.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
constexpr int64_t kMostBlock = 1 << 14;
constexpr int64_t kMostBlocks = 1 << 12;
constexpr int64_t kMostBalanced = 1 << 26;
// What balancing costs a number, in the time of a product's multiply-adds.
constexpr double kBalanced = 16;
// Rows that are one task of each head.
constexpr int64_t kFewRows = 16;
// Sorted blocks that are mixed together, and their tokens, unless pages ask for more.
constexpr int64_t kMixedBlocks = 16, kMixedTokens = 2048;
enum { kQ, kK, kV };  // the products

struct Options {
  int heads = 1;
  int64_t head_dim = 0;
  bool causal = false, two_softmax = false;
  int64_t block = 1, max_blocks = 1, cut = 0;
  int iterations = 1;
  double temperature = 1;

  int64_t Blocks(int64_t tokens) const { return Quotient(tokens, block); }
  // Sorted blocks are counted from 0: in a decoder number s is the second block's and so on, and mixes s + 1.
  int64_t Sorted(int64_t tokens) const {
    const int64_t blocks = Blocks(tokens);
    if (causal) return std::max<int64_t>(0, blocks - 1);
    return cut > 0 ? std::min(cut, blocks) : blocks;
  }
  // From one sorted block to the next in their pages: 16 of them are whole pages.
  int64_t stride() const { return RoundUp(block, block < kPage ? kPage / 16 : kPage); }
  // Of the pages of sorted blocks; a lone block has no tokens beyond its own.
  int64_t Places(int64_t tokens) const {
    return !causal && tokens < block ? tokens : Sorted(tokens) * stride();
  }
  // That are mixed by one task: no two write the same page.
  int64_t mixed_blocks() const {
    return std::max(kPage / std::gcd(stride(), kPage), std::min(kMixedBlocks, kMixedTokens / stride()));
  }
  // Numbers from a sorted block's weights to the next one's.
  int64_t WeightPitch(int64_t blocks, const BlockMatrix& matrix) const {
    return RoundUp(blocks, matrix.page_blocks()) + 16;
  }
};

// Of a row of R, and of the rows of a triangle.
int64_t ScoreBytes(int64_t columns) { return RoundUp(columns, 16) * SizeOf(DType::kF32); }
int64_t TriangleBytes(int64_t rows) {
  const int64_t whole = rows / 16;
  return 16 * ScoreBytes(16) * whole * (whole + 1) / 2 + rows % 16 * ScoreBytes(rows);
}

class SinkhornAttention : public Attention {
 public:
  SinkhornAttention(const AttentionSetting& setting, const Options& options, std::vector<Product> products,
                    const std::vector<float>& sort);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const Options& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  const BlockMatrix& empty() const { return empty_; }
  // sum += the rows, one after another, however they are cut.
  void AddRows(const Rows& rows, float* sum) const;
  // A row of R, so many columns of it, less its largest number, which balancing takes out anyway.
  std::shared_ptr<Buffer> Scores(int head, const float* psi, int64_t columns) const;
  double RowCost(int64_t tokens) const;              // of attending
  double MixCost(int64_t sorted, int64_t of) const;  // of so many sorted blocks that mix so many each
  // Rows of one head that a task attends from: a divisor of the grid, whatever came when.
  int64_t TileRows() const;

 private:
  double Until(int64_t tokens) const;  // of a decoder

  Options options_;
  SoftmaxCore core_;
  BlockMatrix empty_;
  std::vector<float> sort_;  // [heads, head_dim, max_blocks] / temperature
  std::vector<float> ones_;
  std::vector<int32_t> ascending_;
};

// ------------------------------------------------------------------------------------------- one sequence

// What one head keeps.
struct Memory {
  explicit Memory(const SinkhornAttention& attention)
      : own(attention.core().type(), attention.options().head_dim),
        sorted(own),
        blocks(attention.empty()),
        before(attention.options().head_dim),
        open(attention.options().head_dim) {}

  KeyValuePages own, sorted;
  BlockMatrix blocks;
  std::vector<std::shared_ptr<Buffer>> scores;  // R, row by row, each as long as what it may mix
  std::vector<double> before;                   // sum of the keys of whole blocks
  std::vector<float> open;                      // of the block at hand
};

class Run : public AttentionRun {
 public:
  explicit Run(const SinkhornAttention& attention)
      : attention_(&attention), heads_(attention.options().heads, Memory(attention)) {}
  Run(const Run& other) : attention_(other.attention_), heads_(other.heads_), tokens_(other.tokens_) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return tokens_; }

 private:
  // kFew: all at once, for rows that are not worth several stages.
  enum class Stage { kFew, kTake, kBalance, kMix, kAttend, kForget };
  struct Step {
    Stage stage;
    int64_t tasks;  // of a head
  };

  const Options& options() const { return attention_->options(); }
  bool keeps_own() const { return options().cut == 0; }
  void Grow(int64_t rows);
  void Add(Stage stage, int64_t tasks, double cost, std::vector<AttentionStage>& stages);
  void AddStages(const AttentionRows& rows, std::vector<AttentionStage>& stages);
  int64_t OwnCuts() const { return keeps_own() ? Quotient(tokens_, kTakenRows) - from_ / kTakenRows : 0; }
  int64_t FirstPage() const { return from_ / attention_->empty().page_tokens(); }
  int64_t PageCount() const { return Quotient(tokens_, attention_->empty().page_tokens()) - FirstPage(); }
  int64_t MixTasks() const;
  Range MixRange(int64_t task) const;
  Rows WeightsOf(int head) const;
  void DoFew(const AttentionRows& rows, int head, Scratch& scratch);
  void Take(const AttentionRows& rows, int head, int64_t task, Scratch& scratch);
  void Score(const Rows& keys, int head, Scratch& scratch);
  void Balance(int head, Range sorted, const Rows& weights, Scratch& scratch) const;
  void Mix(int head, Range sorted, const Rows& weights, Scratch& scratch);
  void Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const;
  void Forget(Memory& memory) const;

  const SinkhornAttention* attention_;
  std::vector<Memory> heads_;
  int64_t tokens_ = 0;
  // Of the rows at hand.
  int64_t from_ = 0;  // tokens before
  Range sorted_;      // sorted blocks that are new
  int64_t weight_pitch_ = 0;
  std::vector<Step> steps_;
  Buffer weights_;  // of all heads' new sorted blocks, and of rows that nobody looks at
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  const Options& o = options();
  from_ = tokens_;
  tokens_ += rows.count;
  sorted_ = {o.Sorted(from_), o.Sorted(tokens_)};
  weight_pitch_ = o.WeightPitch(o.Blocks(tokens_), attention_->empty());
  Grow(rows.count);
  steps_.clear();
  std::vector<AttentionStage> stages;
  if (o.causal && rows.count <= kFewRows) {
    const double sorted = static_cast<double>(sorted_.size());
    const double numbers = static_cast<double>(sorted_.end) * static_cast<double>(sorted_.end);
    Add(Stage::kFew, 1,
        attention_->RowCost(tokens_) * static_cast<double>(rows.count) +
            attention_->MixCost(sorted_.size(), sorted_.end) +
            sorted * numbers / 2 * o.iterations * kBalanced,
        stages);
  } else {
    AddStages(rows, stages);
  }
  return stages;
}

void Run::Grow(int64_t rows) {
  const int64_t places = options().Places(tokens_);
  for (Memory& memory : heads_) {
    if (keeps_own()) memory.own.Grow(rows);
    memory.sorted.Grow(places - memory.sorted.end());
    memory.blocks.Grow(rows);
  }
}

void Run::Add(Stage stage, int64_t tasks, double cost, std::vector<AttentionStage>& stages) {
  steps_.push_back({stage, tasks});
  stages.push_back({tasks * options().heads, cost});
}

void Run::AddStages(const AttentionRows& rows, std::vector<AttentionStage>& stages) {
  const Options& o = options();
  const double dim = static_cast<double>(o.head_dim), sorted = static_cast<double>(sorted_.end);
  const double taken = std::min(static_cast<double>(rows.count), static_cast<double>(kTakenRows));
  const double scored = static_cast<double>(rows.count) + static_cast<double>(sorted_.size()) * sorted;
  Add(Stage::kTake, 1 + OwnCuts() + PageCount(), dim * std::max(kMoved * taken, scored), stages);
  if (sorted_.size() > 0) {
    const int64_t bytes = o.heads * (sorted_.size() + 8) * weight_pitch_ * SizeOf(attention_->core().type());
    weights_ = Buffer::Lasting(bytes);
    const double blocks = static_cast<double>(o.Blocks(tokens_));
    const double balanced = blocks * blocks * o.iterations * kBalanced;
    Add(Stage::kBalance, o.causal ? sorted_.size() : 1, o.causal ? balanced / 2 : balanced, stages);
    Add(Stage::kMix, MixTasks(),
        attention_->MixCost(std::min(o.mixed_blocks(), sorted_.size()), o.Blocks(tokens_)), stages);
  }
  const int64_t tile = attention_->TileRows();
  Add(Stage::kAttend, Quotient(rows.count, tile),
      attention_->RowCost(tokens_) * static_cast<double>(std::min(rows.count, tile)), stages);
  steps_.push_back({Stage::kForget, 1});
  stages.push_back({1, 0});
}

int64_t Run::MixTasks() const {
  const int64_t size = options().mixed_blocks();
  return Quotient(sorted_.end, size) - sorted_.begin / size;
}

Range Run::MixRange(int64_t task) const {
  const int64_t size = options().mixed_blocks(), first = (sorted_.begin / size + task) * size;
  return {std::max(sorted_.begin, first), std::min(sorted_.end, first + size)};
}

Rows Run::WeightsOf(int head) const {
  const DType type = attention_->core().type();
  const int64_t bytes = (sorted_.size() + 8) * weight_pitch_ * SizeOf(type);
  char* data = const_cast<Buffer&>(weights_).as<char>() + head * bytes;
  return {type, data, sorted_.size(), weight_pitch_, weight_pitch_};
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  const auto [kind, tasks] = steps_[stage];
  const int head = static_cast<int>(task / tasks);
  const int64_t of_head = task % tasks;
  switch (kind) {
    case Stage::kFew:
      return DoFew(rows, head, scratch);
    case Stage::kTake:
      return Take(rows, head, of_head, scratch);
    case Stage::kBalance: {
      const Range sorted{sorted_.begin + of_head,
                         options().causal ? sorted_.begin + of_head + 1 : sorted_.end};
      return Balance(head, sorted, WeightsOf(head).Slice(of_head, sorted.size()), scratch);
    }
    case Stage::kMix: {
      const Range sorted = MixRange(of_head);
      return Mix(head, sorted, WeightsOf(head).Slice(sorted.begin - sorted_.begin, sorted.size()), scratch);
    }
    case Stage::kAttend: {
      const int64_t tile = attention_->TileRows(), first = of_head * tile;
      return Attend(rows, head, {first, std::min(rows.count, first + tile)}, scratch);
    }
    case Stage::kForget:
      for (Memory& memory : heads_) Forget(memory);
      weights_ = Buffer();
  }
}

// A step's new sorted block, if it has one, is mixed alone.
void Run::DoFew(const AttentionRows& rows, int head, Scratch& scratch) {
  for (int64_t task = 0; task < 1 + OwnCuts() + PageCount(); ++task) Take(rows, head, task, scratch);
  for (int64_t s = sorted_.begin; s < sorted_.end; ++s) {
    const ScratchFrame frame(scratch);
    const DType type = attention_->core().type();
    const Rows weights{type, scratch.Take<char>(weight_pitch_ * SizeOf(type)), 1, weight_pitch_,
                       weight_pitch_};
    Balance(head, {s, s + 1}, weights, scratch);
    Mix(head, {s, s + 1}, weights, scratch);
  }
  Attend(rows, head, {0, rows.count}, scratch);
  Forget(heads_[head]);
}

// What later rows do not see. An encoder has none.
void Run::Forget(Memory& memory) const {
  const Options& o = options();
  if (!o.causal) {
    memory = Memory(*attention_);
    return;
  }
  const int64_t block = tokens_ / o.block;
  memory.own.DropBefore(block * o.block);
  memory.sorted.DropBefore(std::max<int64_t>(0, block - 1) * o.stride());
}

// ------------------------------------------------------------------------------------- sorting the blocks

// The first task adds keys up, others take in what lies in a cut of the own pages, or in a page of blocks.
void Run::Take(const AttentionRows& rows, int head, int64_t task, Scratch& scratch) {
  const int64_t dim = options().head_dim;
  const Rows keys = rows.products[kK].Cols(head * dim, dim), values = rows.products[kV].Cols(head * dim, dim);
  Memory& memory = heads_[head];
  if (task == 0) return Score(keys, head, scratch);
  if (task > OwnCuts()) return memory.blocks.Write(FirstPage() + task - 1 - OwnCuts(), from_, keys, values);
  const int64_t cut = (from_ / kTakenRows + task - 1) * kTakenRows;
  const int64_t begin = std::max(from_, cut), end = std::min(tokens_, cut + kTakenRows);
  memory.own.Write(begin, keys.Slice(begin - from_, end - begin), values.Slice(begin - from_, end - begin));
}

// R's new rows: a decoder's when a block begins, an encoder's when it ends.
void Run::Score(const Rows& keys, int head, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const Options& o = options();
  Memory& memory = heads_[head];
  float* psi = scratch.Take<float>(o.head_dim);
  for (int64_t token = from_, end; token < tokens_; token = end) {
    end = std::min(tokens_, RoundDown(token, o.block) + o.block);
    if (o.causal && token % o.block == 0 && token > 0) {
      std::ranges::copy(memory.before, psi);
      attention_->AddRows(keys.Slice(token - from_, 1), psi);
      memory.scores.push_back(attention_->Scores(head, psi, token / o.block));
    }
    attention_->AddRows(keys.Slice(token - from_, end - token), memory.open.data());
    if (o.causal && end % o.block > 0) return;
    if (!o.causal) memory.scores.push_back(attention_->Scores(head, memory.open.data(), o.Blocks(tokens_)));
    for (int64_t c = 0; c < o.head_dim; ++c) memory.before[c] += std::exchange(memory.open[c], 0.0f);
  }
}

// A decoder's sorted block is the last row of the matrix that ends with it.
void Run::Balance(int head, Range sorted, const Rows& weights, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Options& o = options();
  const int64_t n = o.causal ? sorted.end : o.Blocks(tokens_);
  const float** scores = scratch.Take<const float*>(n);
  for (int64_t i = 0; i < n; ++i) scores[i] = heads_[head].scores[i]->as<float>();
  float *f = scratch.Take<float>(n), *g = scratch.Take<float>(n), *row = scratch.Take<float>(weights.cols);
  std::fill_n(row, weights.cols, 0.0f);
  heed::Balance({{scores, static_cast<size_t>(n)}, o.causal}, o.iterations, f, g,
                scratch.Take<float>(BalanceWork(n)));
  for (int64_t s = sorted.begin; s < sorted.end; ++s) {
    BalancedRow(scores[s], n, f[s], g, row);
    Convert({DType::kF32, row, 1, weights.cols, weights.cols}, weights.Slice(s - sorted.begin, 1));
  }
}

void Run::Mix(int head, Range sorted, const Rows& weights, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const Options& o = options();
  const DType type = attention_->core().type();
  Memory& memory = heads_[head];
  const BlockMatrix& blocks = memory.blocks;
  const int64_t rounded = RoundRows(static_cast<int>(sorted.size())), width = blocks.width();
  const Matrix<float> mixed{scratch.Take<float>(rounded * blocks.mixed_columns()), sorted.size(),
                            blocks.mixed_columns(), blocks.mixed_columns()};
  blocks.Mix(weights.Cols(0, o.causal ? sorted.end : o.Blocks(tokens_)), mixed);
  const int64_t stride = o.stride(), bytes = stride * o.head_dim * SizeOf(type);
  const Rows keys{type, scratch.Take<char>(bytes), stride, o.head_dim, o.head_dim},
      values{type, scratch.Take<char>(bytes), stride, o.head_dim, o.head_dim};
  std::memset(keys.data, 0, bytes);
  std::memset(values.data, 0, bytes);
  for (int64_t s = sorted.begin; s < sorted.end; ++s) {
    float* of_block = mixed.row(s - sorted.begin);
    Convert({DType::kF32, of_block, o.block, o.head_dim, width}, keys.Slice(0, o.block));
    Convert({DType::kF32, of_block + o.block * width, o.block, o.head_dim, width}, values.Slice(0, o.block));
    const int64_t place = s * stride, count = std::min(stride, memory.sorted.end() - place);
    memory.sorted.Write(place, keys.Slice(0, count), values.Slice(0, count));
  }
}

// --------------------------------------------------------------------------------------------- attending

void Run::Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Options& o = options();
  const SoftmaxCore& core = attention_->core();
  const int64_t count = range.size(), dim = o.head_dim, stride = o.stride();
  SoftmaxQueries queries;
  queries.q = rows.products[kQ].Slice(range.begin, count).Cols(head * dim, dim);
  queries.out = rows.out.Slice(range.begin, count).Cols(head * dim, dim);
  queries.first = rows.first + range.begin;
  const Memory& memory = heads_[head];
  std::vector<KeySource> sources;
  if (keeps_own()) {
    const BlockPattern own({.block = o.block, .causal = o.causal});
    sources.push_back({.pages = &memory.own, .sees = [own](int64_t i) { return own.Sees(0, i); }});
    const auto sorted = [&](int64_t i) {
      const int64_t s = i / o.block - (o.causal ? 1 : 0);
      return s < 0 ? Range{} : Range{s * stride, s * stride + o.block};
    };
    sources.push_back({.pages = &memory.sorted, .sees = sorted, .continues = true});
  } else {
    for (int64_t s = 0; s < o.Sorted(tokens_); ++s) {
      const Range seen{s * stride, s * stride + o.block};
      sources.push_back(
          {.pages = &memory.sorted, .sees = [seen](int64_t) { return seen; }, .continues = s > 0});
    }
  }
  if (!o.two_softmax) return core.Attend(queries, sources, scratch);
  const auto take = [&](DType type) {
    return Rows{type, scratch.Take<char>(count * dim * SizeOf(type)), count, dim, dim};
  };
  const Rows out = std::exchange(queries.out, take(core.type())), sum = take(DType::kF32),
             next = take(DType::kF32);
  core.Attend(queries, {&sources[0], 1}, scratch);
  Convert(queries.out, sum);
  core.Attend(queries, {&sources[1], 1}, scratch);
  Convert(queries.out, next);
  heed::Add(next.As<const float>(), sum.As<float>());
  Convert(sum, out);
}

// ------------------------------------------------------------------------------------------------- state

void Run::Archive(StateArchive& archive) {
  const Options& o = options();
  archive.Number(tokens_, 0, attention_->max_tokens());
  if (!o.causal) return;
  const int64_t block = tokens_ / o.block;
  for (Memory& memory : heads_) {
    memory.own.Archive(archive, RoundDown(block * o.block, kPage), tokens_);
    memory.sorted.Archive(archive, RoundDown(std::max<int64_t>(0, block - 1) * o.stride(), kPage),
                          o.Places(tokens_));
    memory.blocks.Archive(archive, tokens_);
    archive.Bytes(memory.before.data(), o.head_dim * static_cast<int64_t>(sizeof(double)));
    archive.Bytes(memory.open.data(), o.head_dim * static_cast<int64_t>(sizeof(float)));
    for (int64_t s = 0; s < o.Sorted(tokens_) && archive.status().ok(); ++s) {
      if (archive.restoring())
        memory.scores.push_back(std::make_shared<Buffer>(Buffer::Lasting(ScoreBytes(s + 1))));
      archive.Bytes(*memory.scores[s], static_cast<int64_t>(memory.scores[s]->size()));
    }
  }
}

// --------------------------------------------------------------------------------------- what is shared

SinkhornAttention::SinkhornAttention(const AttentionSetting& setting, const Options& options,
                                     std::vector<Product> products, const std::vector<float>& sort)
    : options_(options),
      core_(ActivationType(setting.precision), options.head_dim,
            1 / std::sqrt(static_cast<double>(options.head_dim))),
      empty_(core_.type(), options.head_dim, options.block),
      sort_(sort.size()),
      ones_(kPage, 1.0f),
      ascending_(std::max(kPage, options.head_dim)) {
  products_ = std::move(products);
  out_width_ = setting.width;
  max_tokens_ = options.block * options.max_blocks;
  decode_ = options.causal ? DecodeClass::kExact : DecodeClass::kNone;
  constant_bytes_ = std::ssize(sort_) * SizeOf(DType::kF32);
  std::iota(ascending_.begin(), ascending_.end(), 0);
  const int64_t columns = options.max_blocks, dim = options.head_dim;
  for (int64_t i = 0; i < std::ssize(sort_); ++i) {
    const int64_t head = i / (columns * dim), column = i / dim % columns;
    sort_[(head * dim + i % dim) * columns + column] = static_cast<float>(sort[i] / options.temperature);
  }
}

std::unique_ptr<AttentionRun> SinkhornAttention::Start() const { return std::make_unique<Run>(*this); }

void SinkhornAttention::AddRows(const Rows& rows, float* sum) const {
  for (int64_t first = 0; first < rows.rows; first += kPage) {
    const size_t count = std::min(kPage, rows.rows - first);
    AddWeightedRows(rows.Slice(first, static_cast<int64_t>(count)), {ascending_.data(), count}, ones_.data(),
                    sum);
  }
}

std::shared_ptr<Buffer> SinkhornAttention::Scores(int head, const float* psi, int64_t columns) const {
  const int64_t dim = options_.head_dim, all = options_.max_blocks;
  auto scores = std::make_shared<Buffer>(Buffer::Lasting(ScoreBytes(columns)));
  float* row = scores->as<float>();
  std::memset(row, 0, scores->size());
  float* sort = const_cast<float*>(sort_.data()) + head * dim * all;
  AddWeightedRows({DType::kF32, sort, dim, columns, all}, {ascending_.data(), static_cast<size_t>(dim)}, psi,
                  row);
  const float largest = row[ArgMax(row, columns)];
  for (int64_t i = 0; i < columns; ++i) row[i] -= largest;
  return scores;
}

double SinkhornAttention::RowCost(int64_t tokens) const {
  const int64_t blocks = options_.cut > 0 ? options_.Sorted(tokens) : 2;
  return static_cast<double>(2 * options_.head_dim * std::min(tokens, options_.block) * blocks);
}

int64_t SinkhornAttention::TileRows() const {
  const double seen = static_cast<double>(options_.block * (options_.cut > 0 ? options_.cut : 2));
  const double rows = kTaskCost / (seen * static_cast<double>(2 * options_.head_dim));
  const int64_t most = seen < 8 * SoftmaxCore::kTile ? SoftmaxCore::kTile / 2 : SoftmaxCore::kTile;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<double>(rows, 1, most))));
}

double SinkhornAttention::MixCost(int64_t sorted, int64_t of) const {
  const double tokens = static_cast<double>(sorted * options_.block);
  return tokens * static_cast<double>(of) * static_cast<double>(2 * options_.head_dim);
}

// Of one head, balancing as the products with a matrix that it is.
double SinkhornAttention::Until(int64_t tokens) const {
  const double n = static_cast<double>(tokens), block = static_cast<double>(options_.block),
               sorted = static_cast<double>(options_.Sorted(tokens));
  const double own = BlockPattern({.block = options_.block, .causal = true}).Pairs(tokens, tokens);
  const double pairs = own + std::max(0.0, n - block) * block;
  const double mixed = sorted * (sorted + 1) / 2 * block;
  const double balanced = options_.iterations * sorted * (sorted + 1) * (sorted + 2) / 3;
  return 2 * static_cast<double>(options_.head_dim) * (pairs + mixed) + balanced;
}

double SinkhornAttention::Cost(int64_t rows, int64_t tokens) const {
  const Options& o = options_;
  if (o.causal) return o.heads * (Until(tokens) - Until(tokens - rows));
  const double blocks = static_cast<double>(o.Blocks(tokens));
  const double all = static_cast<double>(tokens) * RowCost(tokens) +
                     MixCost(o.Sorted(tokens), o.Blocks(tokens)) + 2 * o.iterations * blocks * blocks;
  return o.heads * all * static_cast<double>(rows) / static_cast<double>(tokens);
}

// A decoder's, between rows. An encoder's is its work: nothing of it outlives the rows.
int64_t SinkhornAttention::StateBytes(int64_t tokens) const {
  const Options& o = options_;
  const int64_t sorted = o.Sorted(tokens), places = o.Places(tokens), blocks = o.Blocks(tokens);
  const auto pages = [&](int64_t n) { return KeyValuePages::Bytes(core_.type(), o.head_dim, 0, n); };
  const auto kept = [&](int64_t block, int64_t n) {
    return pages(BlockPattern({.block = block, .causal = true}).MostKept(0, n));
  };
  int64_t head = empty_.Bytes(tokens);
  if (o.causal) {
    head += kept(o.block, tokens) + kept(o.stride(), places) + TriangleBytes(sorted) +
            o.head_dim * static_cast<int64_t>(sizeof(double) + sizeof(float));
  } else {
    const int64_t weights = (sorted + 8) * o.WeightPitch(blocks, empty_) * SizeOf(core_.type());
    head += (o.cut > 0 ? 0 : pages(tokens)) + pages(places) + blocks * ScoreBytes(blocks) + weights;
  }
  return static_cast<int64_t>(sizeof(int64_t)) + o.heads * head;
}

int64_t SinkhornAttention::ScratchBytes() const {
  const Options& o = options_;
  const auto piece = [](int64_t n, DType type) { return Scratch::Piece(n * SizeOf(type)); };
  const int64_t most = o.max_blocks, pitch = o.WeightPitch(most, empty_);
  const int64_t weights = piece(pitch, core_.type());
  const int64_t balance = piece(most, DType::kI64) + 2 * piece(most, DType::kF32) +
                          piece(pitch, DType::kF32) + piece(BalanceWork(most), DType::kF32);
  const int64_t mixed =
      RoundRows(static_cast<int>(std::min(o.mixed_blocks(), most))) * empty_.mixed_columns();
  const int64_t mix = piece(mixed, DType::kF32) + 2 * piece(o.stride() * o.head_dim, core_.type());
  const int64_t results = SoftmaxCore::kTile * o.head_dim;
  const int64_t two = o.two_softmax ? piece(results, core_.type()) + 2 * piece(results, DType::kF32) : 0;
  return std::max(
      {weights + std::max(balance, mix), core_.ScratchBytes() + two, piece(o.head_dim, DType::kF32)});
}

// ------------------------------------------------------------------------------------------- the options

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options o;
  o.heads = setting.num_heads;
  o.head_dim = HeadDim(setting, fields);
  o.causal = setting.causal;
  o.block = fields.RequiredInt("block", 1, kMostBlock);
  o.max_blocks = fields.RequiredInt("max_blocks", 1, kMostBlocks);
  o.iterations = static_cast<int>(fields.Int("iterations", 5, 1, kMostBalanced));
  o.temperature = fields.Number("temperature", 0.75, 1e-6, 1e6);
  o.cut = fields.Int("sort_cut", 0, 1, kMostBlocks);
  o.two_softmax = fields.Bool("two_softmax", false) && o.cut == 0;
  if (setting.cross) fields.Fail("blocks are sorted within one sequence: this is no cross-attention");
  if (o.causal && o.cut > 0)
    fields.Fail(Cat("sort_cut: ", o.cut, " sorted blocks of later tokens in a decoder"));
  if (o.max_blocks * o.max_blocks > kMostBalanced / o.iterations) {
    fields.Fail(Cat("max_blocks: ", o.max_blocks, " squared, times ", o.iterations,
                    " iterations, is more than ", kMostBalanced));
  }
  RETURN_IF_ERROR(fields.Finish());
  return o;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSinkhornAttention(const AttentionSetting& setting,
                                                                JsonFields& fields,
                                                                const WeightScope& scope) {
  ASSIGN_OR_RETURN(Options options, ReadOptions(setting, fields));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  ASSIGN_OR_RETURN(std::vector<float> sort,
                   scope.Floats("sort.weight", {options.heads, options.max_blocks, options.head_dim}));
  return std::make_unique<SinkhornAttention>(setting, options, std::move(products), sort);
}

}  // namespace heed
