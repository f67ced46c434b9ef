// "sinkhorn": Sparse Sinkhorn Attention (Tay et al. 2020): a token reads its own block of tokens, and a
// mixture of blocks that a soft permutation has sorted to it.
//   psi_i = sum of block i's keys,  R[i, j] = sort_j . psi_i / temperature
//   S = exp(R), balanced: `iterations` times its rows, then its columns divided by their sums
//   sorted block i = sum_j S[i, j] block j, of keys and of values, token by token
//   softmax(q [sorted keys i | own keys]' / sqrt(head_dim)) [sorted values i | own values]
// In a decoder psi_i is the sum of all keys up to block i's first token, sorted block i mixes earlier blocks,
// and S is balanced for each i anew, over the rows and columns before it. Decoding is exact.
// Options: block, 16,384 at most, since a task holds a mixture of blocks; max_blocks, of the longest
//   sequence; iterations (5; 0: S is exp(R)), with max_blocks^2 iterations at most 2^26, which is a task's
//   time; temperature (0.75); two_softmax (false): own block and sorted block each have a softmax, and their
//   results add up; sort_cut (none, or 0; encoder only): all tokens read the first so many sorted blocks, of
//   fewer all, and nothing else.
// Tensors: q, k, v; sort.weight [heads, max_blocks, head_dim].
// State: keys and values of all tokens, as matrices of blocks, R below its diagonal, sums of keys; for
//   attending, those of the block at hand and of the one sorted to it. A step computes a new sorted block at
//   each block's first token.
// What is no number may reach tokens before it, of those that come together: products of a tile of rows
// (SoftmaxCore) and of a page of blocks (BlockMatrix) multiply what is not seen by 0, and 0 times no number
// is none. To leave it out, each row and each sorted block would need a product of its own. It reaches no
// other sequence.
//
// Work of a head: 2 n block to attend, n^2 / block to mix (half in a decoder), times 2 head_dim; iterations
// (n / block)^2 to balance, in a decoder so for each block. For texts in which each part wants one far away:
// with blocks of some sqrt(n) tokens and more it grows as n^1.5; with short blocks in a long text balancing
// is most of it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/softmax_core.h"
#include "engine/attention/sorted_blocks.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
constexpr int64_t kMostBlock = 1 << 14;
constexpr int64_t kMostBlocks = 1 << 12;
constexpr int64_t kMostBalanced = 1 << 26;
// Rows that are one task of each head.
constexpr int64_t kFewRows = 16;
enum { kQ, kK, kV };  // the products

struct Options : SortingOptions {
  bool two_softmax = false;
  bool own() const { return wanted == 0; }  // rows see their own block
};

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
  const BlockSorting& sorting() const { return sorting_; }
  const BlockPattern& own() const { return own_; }
  double RowCost(int64_t tokens) const;  // of attending, at most
  // Rows of one head that a task attends from: a divisor of the grid, whatever came when.
  int64_t TileRows() const;
  // Of the weights that the new sorted blocks of one head have; some rows more are readable.
  int64_t WeightBytes(int64_t sorted, int64_t tokens) const {
    return (sorted + 8) * sorting_.WeightPitch(tokens) * SizeOf(core_.type());
  }

 private:
  Options options_;
  SoftmaxCore core_;
  BlockSorting sorting_;
  BlockPattern own_;
};

// ------------------------------------------------------------------------------------------- one sequence

// What one head keeps.
struct Head {
  KeyValuePages own;
  SortedBlocks sorted;
};

class Run : public AttentionRun {
 public:
  explicit Run(const SinkhornAttention& attention);
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
  const BlockSorting& sorting() const { return attention_->sorting(); }
  void Add(Stage stage, int64_t tasks, double cost, std::vector<AttentionStage>& stages);
  void AddSorting(std::vector<AttentionStage>& stages);
  double FewCost(int64_t rows) const;
  // How many cuts of so many tokens the rows at hand lie in.
  int64_t Cuts(int64_t size) const { return Quotient(tokens_, size) - from_ / size; }
  int64_t OwnCuts() const { return options().own() ? Cuts(kTakenRows) : 0; }
  int64_t TakeTasks() const { return 1 + OwnCuts() + Cuts(sorting().TakenTogether()); }
  Rows WeightsOf(int head, Range sorted) const;
  void DoFew(const AttentionRows& rows, int head, Scratch& scratch);
  void Take(const AttentionRows& rows, int head, int64_t task, Scratch& scratch);
  void Balance(int head, int64_t task, Scratch& scratch) const;
  void Mix(int head, int64_t task, Scratch& scratch);
  void Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const;
  std::vector<KeySource> Sources(int head) const;
  void Forget(Head& head) const;

  const SinkhornAttention* attention_;
  std::vector<Head> heads_;
  int64_t tokens_ = 0;
  // Of the rows at hand.
  int64_t from_ = 0;  // tokens before
  Range sorted_;      // sorted blocks that are new
  std::vector<Step> steps_;
  Buffer weights_;  // of all heads' new sorted blocks
};

Run::Run(const SinkhornAttention& attention) : attention_(&attention) {
  const KeyValuePages empty(attention.core().type(), options().head_dim);
  for (int head = 0; head < options().heads; ++head)
    heads_.push_back({empty, SortedBlocks(attention.sorting(), head)});
}

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  from_ = tokens_;
  tokens_ += rows.count;
  sorted_ = {sorting().Sorted(from_), sorting().Sorted(tokens_)};
  for (Head& head : heads_) {
    if (options().own()) head.own.Grow(rows.count);
    head.sorted.Grow(rows.count);
  }
  steps_.clear();
  std::vector<AttentionStage> stages;
  if (options().causal && rows.count <= kFewRows) {
    Add(Stage::kFew, 1, FewCost(rows.count), stages);
    return stages;
  }
  const double moved = kMoved * static_cast<double>(std::min(rows.count, kTakenRows) * options().head_dim);
  Add(Stage::kTake, TakeTasks(), std::max(moved, sorting().ScoreCost(sorted_, rows.count)), stages);
  if (sorted_.size() > 0) AddSorting(stages);
  const int64_t tile = attention_->TileRows();
  const double row = attention_->RowCost(tokens_);
  Add(Stage::kAttend, Quotient(rows.count, tile), row * static_cast<double>(std::min(rows.count, tile)),
      stages);
  steps_.push_back({Stage::kForget, 1});
  stages.push_back({1, 0});
  return stages;
}

void Run::Add(Stage stage, int64_t tasks, double cost, std::vector<AttentionStage>& stages) {
  steps_.push_back({stage, tasks});
  stages.push_back({tasks * options().heads, cost});
}

void Run::AddSorting(std::vector<AttentionStage>& stages) {
  const int64_t blocks = sorting().Blocks(tokens_), together = sorting().MixedTogether();
  weights_ = Buffer::Lasting(options().heads * attention_->WeightBytes(sorted_.size(), tokens_));
  Add(Stage::kBalance, options().causal ? sorted_.size() : 1, sorting().BalanceCost(blocks), stages);
  Add(Stage::kMix, Quotient(sorted_.end, together) - sorted_.begin / together,
      sorting().MixCost(std::min(together, sorted_.size()), blocks), stages);
}

double Run::FewCost(int64_t rows) const {
  const double balanced = static_cast<double>(sorted_.size()) * sorting().BalanceCost(sorted_.end);
  return attention_->RowCost(tokens_) * static_cast<double>(rows) +
         sorting().MixCost(sorted_.size(), sorted_.end) + balanced;
}

void Run::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  const auto [kind, tasks] = steps_[stage];
  const int head = static_cast<int>(task / tasks);
  task %= tasks;
  switch (kind) {
    case Stage::kFew:
      return DoFew(rows, head, scratch);
    case Stage::kTake:
      return Take(rows, head, task, scratch);
    case Stage::kBalance:
      return Balance(head, task, scratch);
    case Stage::kMix:
      return Mix(head, task, scratch);
    case Stage::kAttend: {
      const int64_t tile = attention_->TileRows(), first = task * tile;
      return Attend(rows, head, {first, std::min(rows.count, first + tile)}, scratch);
    }
    case Stage::kForget:
      for (Head& each : heads_) Forget(each);
      weights_ = Buffer();
  }
}

// A step's new sorted block, if it has one, is mixed alone.
void Run::DoFew(const AttentionRows& rows, int head, Scratch& scratch) {
  for (int64_t task = 0; task < TakeTasks(); ++task) Take(rows, head, task, scratch);
  const DType type = attention_->core().type();
  const int64_t pitch = sorting().WeightPitch(tokens_);
  for (int64_t s = sorted_.begin; s < sorted_.end; ++s) {
    const ScratchFrame frame(scratch);
    const Rows weights{type, scratch.Take<char>(pitch * SizeOf(type)), 1, pitch, pitch};
    heads_[head].sorted.Balance({s, s + 1}, weights, scratch);
    heads_[head].sorted.Mix({s, s + 1}, weights, scratch);
  }
  Attend(rows, head, {0, rows.count}, scratch);
  Forget(heads_[head]);
}

// The first task adds keys up, the others take in what lies in a cut.
void Run::Take(const AttentionRows& rows, int head, int64_t task, Scratch& scratch) {
  const int64_t dim = options().head_dim;
  const Rows keys = rows.products[kK].Cols(head * dim, dim), values = rows.products[kV].Cols(head * dim, dim);
  auto& [own, sorted] = heads_[head];
  if (task == 0) return sorted.Score(from_, keys, scratch);
  if (task > OwnCuts()) {
    const int64_t page = from_ / sorting().TakenTogether() + task - 1 - OwnCuts();
    return sorted.Write(page, from_, keys, values);
  }
  const int64_t cut = (from_ / kTakenRows + task - 1) * kTakenRows;
  const int64_t begin = std::max(from_, cut), count = std::min(tokens_, cut + kTakenRows) - begin;
  own.Write(begin, keys.Slice(begin - from_, count), values.Slice(begin - from_, count));
}

// What later rows do not see. An encoder has none.
void Run::Forget(Head& head) const {
  const int64_t block = options().block;
  if (options().causal) {
    head.own.DropBefore(RoundDown(tokens_, block));
  } else {
    head.own = KeyValuePages(head.own.type(), head.own.head_dim());
  }
  head.sorted.Forget();
}

// ------------------------------------------------------------------------------------- sorting the blocks

Rows Run::WeightsOf(int head, Range sorted) const {
  const int64_t pitch = sorting().WeightPitch(tokens_);
  char* data =
      const_cast<Buffer&>(weights_).as<char>() + head * attention_->WeightBytes(sorted_.size(), tokens_);
  const Rows all{attention_->core().type(), data, sorted_.size(), pitch, pitch};
  return all.Slice(sorted.begin - sorted_.begin, sorted.size());
}

void Run::Balance(int head, int64_t task, Scratch& scratch) const {
  const int64_t s = sorted_.begin + task;
  const Range sorted = options().causal ? Range{s, s + 1} : sorted_;
  heads_[head].sorted.Balance(sorted, WeightsOf(head, sorted), scratch);
}

void Run::Mix(int head, int64_t task, Scratch& scratch) {
  const int64_t together = sorting().MixedTogether(), first = (sorted_.begin / together + task) * together;
  const Range sorted{std::max(sorted_.begin, first), std::min(sorted_.end, first + together)};
  heads_[head].sorted.Mix(sorted, WeightsOf(head, sorted), scratch);
}

// --------------------------------------------------------------------------------------------- attending

// The own block, and what is sorted to it; or what is wanted.
std::vector<KeySource> Run::Sources(int head) const {
  const KeyValuePages &own = heads_[head].own, &sorted = heads_[head].sorted.pages();
  std::vector<KeySource> sources;
  if (options().own()) {
    sources.push_back({.pages = &own, .sees = [this](int64_t i) { return attention_->own().Sees(0, i); }});
    const auto sees = [this](int64_t i) {
      const int64_t s = i / options().block - (options().causal ? 1 : 0);
      return s < 0 ? Range{} : sorting().PlacesOf(s);
    };
    sources.push_back({.pages = &sorted, .sees = sees, .continues = true});
    return sources;
  }
  for (int64_t s = 0; s < sorting().Sorted(tokens_); ++s) {
    const Range seen = sorting().PlacesOf(s);
    sources.push_back({.pages = &sorted, .sees = [seen](int64_t) { return seen; }, .continues = s > 0});
  }
  return sources;
}

void Run::Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const SoftmaxCore& core = attention_->core();
  const int64_t count = range.size(), dim = options().head_dim;
  SoftmaxQueries queries;
  queries.q = rows.products[kQ].Slice(range.begin, count).Cols(head * dim, dim);
  queries.out = rows.out.Slice(range.begin, count).Cols(head * dim, dim);
  queries.first = rows.first + range.begin;
  const std::vector<KeySource> sources = Sources(head);
  if (!options().two_softmax) return core.Attend(queries, sources, scratch);
  const auto take = [&](DType type) {
    return Rows{type, scratch.Take<char>(count * dim * SizeOf(type)), count, dim, dim};
  };
  const Rows out = std::exchange(queries.out, take(core.type()));
  const Rows sum = take(DType::kF32), next = take(DType::kF32);
  core.Attend(queries, {&sources[0], 1}, scratch);
  Convert(queries.out, sum);
  core.Attend(queries, {&sources[1], 1}, scratch);
  Convert(queries.out, next);
  heed::Add(next.As<const float>(), sum.As<float>());
  Convert(sum, out);
}

// ------------------------------------------------------------------------------------------- state

// An encoder's run holds nothing between rows.
void Run::Archive(StateArchive& archive) {
  archive.Number(tokens_, 0, attention_->max_tokens());
  if (!options().causal) return;
  for (auto& [own, sorted] : heads_) {
    own.Archive(archive, RoundDown(RoundDown(tokens_, options().block), kPage), tokens_);
    sorted.Archive(archive, tokens_);
  }
}

// --------------------------------------------------------------------------------------- what is shared

SinkhornAttention::SinkhornAttention(const AttentionSetting& setting, const Options& options,
                                     std::vector<Product> products, const std::vector<float>& sort)
    : options_(options),
      core_(ActivationType(setting.precision), options.head_dim,
            1 / std::sqrt(static_cast<double>(options.head_dim))),
      sorting_(core_.type(), options, sort),
      own_({.block = options.block, .causal = options.causal}) {
  products_ = std::move(products);
  out_width_ = setting.width;
  max_tokens_ = options.block * options.max_blocks;
  decode_ = options.causal ? DecodeClass::kExact : DecodeClass::kNone;
  constant_bytes_ = sorting_.constant_bytes();
}

std::unique_ptr<AttentionRun> SinkhornAttention::Start() const { return std::make_unique<Run>(*this); }

double SinkhornAttention::RowCost(int64_t tokens) const {
  const int64_t blocks = options_.own() ? 2 : sorting_.Sorted(tokens);
  return static_cast<double>(2 * options_.head_dim * std::min(tokens, options_.block) * blocks);
}

int64_t SinkhornAttention::TileRows() const {
  const double seen = static_cast<double>(options_.block * (options_.own() ? 2 : options_.wanted));
  const double rows = kTaskCost / (seen * static_cast<double>(2 * options_.head_dim));
  const int64_t most = seen < 8 * SoftmaxCore::kTile ? SoftmaxCore::kTile / 2 : SoftmaxCore::kTile;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<double>(rows, 1, most))));
}

double SinkhornAttention::Cost(int64_t rows, int64_t tokens) const {
  const double block = static_cast<double>(options_.block), pair = static_cast<double>(2 * options_.head_dim);
  double attended = static_cast<double>(rows) * RowCost(tokens);
  if (options_.causal) {
    const auto sorted = [&](int64_t n) { return std::max(0.0, static_cast<double>(n) - block) * block; };
    attended = pair * (own_.Pairs(rows, tokens) + sorted(tokens) - sorted(tokens - rows));
  }
  return options_.heads * (attended + sorting_.Cost(rows, tokens));
}

// Of a decoder between rows. Of an encoder its work: nothing of it outlives the rows.
int64_t SinkhornAttention::StateBytes(int64_t tokens) const {
  const int64_t kept = options_.own() ? own_.MostKept(0, tokens) : 0;
  const int64_t work = options_.causal ? 0 : WeightBytes(sorting_.Sorted(tokens), tokens);
  const int64_t own = KeyValuePages::Bytes(core_.type(), options_.head_dim, 0, kept);
  return static_cast<int64_t>(sizeof(int64_t)) + options_.heads * (own + sorting_.StateBytes(tokens) + work);
}

int64_t SinkhornAttention::ScratchBytes() const {
  const auto piece = [](int64_t n, DType type) { return Scratch::Piece(n * SizeOf(type)); };
  const int64_t results = SoftmaxCore::kTile * options_.head_dim;
  const int64_t two =
      options_.two_softmax ? piece(results, core_.type()) + 2 * piece(results, DType::kF32) : 0;
  return std::max(core_.ScratchBytes() + two,
                  piece(sorting_.WeightPitch(max_tokens_), core_.type()) + sorting_.ScratchBytes());
}

// ------------------------------------------------------------------------------------------- the options

absl::StatusOr<Options> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options o;
  o.heads = setting.num_heads;
  o.head_dim = HeadDim(setting, fields);
  o.causal = setting.causal;
  o.block = fields.RequiredInt("block", 1, kMostBlock);
  o.max_blocks = fields.RequiredInt("max_blocks", 1, kMostBlocks);
  o.iterations = static_cast<int>(fields.Int("iterations", 5, 0, kMostBalanced));
  o.temperature = fields.Number("temperature", 0.75, 1e-6, 1e6);
  o.wanted = std::min(fields.Int("sort_cut", 0, 0, kMostSpan), o.max_blocks);
  o.two_softmax = fields.Bool("two_softmax", false) && o.own();
  if (setting.cross) fields.Fail("blocks are sorted within one sequence: this is no cross-attention");
  if (o.causal && !o.own())
    fields.Fail(Cat("sort_cut: ", o.wanted, " sorted blocks of later tokens in a decoder"));
  if (o.max_blocks * o.max_blocks > kMostBalanced / std::max(1, o.iterations)) {
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
