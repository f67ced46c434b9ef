// "pkm": a product-key memory (Lample et al. 2019) in place of a feed-forward. A head's query q = Wq x + bq
// has two halves, and value i * n_keys + j the score q1 . c1_i + q2 . c2_j:
//   kept  of each half the top_k best sub-keys, of their sums the top_k best: the best of all values
//   y =   sum over heads and kept of softmax(scores) V[kept]
// Of equal sums the one with the better first half comes first, then that with the better second half.
// Options: num_heads (num_attention_heads); n_keys; d_k, the query's numbers, even; top_k, at most n_keys.
// Tensors: query.weight [num_heads * d_k, hidden_size], query.bias where present (with a batch norm of the
//   published model folded in); sub_keys [num_heads, 2, n_keys, d_k / 2]; values [n_keys^2, hidden_size],
//   the same for all heads.
//
// A row costs 2 n_keys scores a head and the sums of top_k, never n_keys^2. Scores are computed in f32
// whatever the precision. Values are kept in bf16 where the file or the precision has it, else in f32.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/blocks/feed_forward.h"
#include "engine/ops/gather.h"
#include "engine/ops/rows.h"
#include "engine/ops/top_k.h"

namespace heed {
namespace {

constexpr int64_t kMostKeys = 1 << 15;  // of a half: values are numbered in 32 bits
constexpr int64_t kMostHeads = 1 << 10;
constexpr int64_t kMostOfARow = 1 << 20;  // numbers of its queries, and values kept, of all heads
// Scores of a row at a time: as many heads as they hold, at least one. Bounds the memory of many heads.
constexpr int64_t kScores = 4096;

struct PkmOptions {
  int64_t width = 0;
  int64_t heads = 0;
  int64_t keys = 0;  // of a half
  int64_t query = 0;
  int64_t top_k = 0;
  Precision precision = Precision::kF32;
};

struct PkmWeights {
  PackedWeights query;
  std::vector<PackedWeights> sub_keys;  // f32: of head h and half s at 2 h + s
  Buffer memory;
  Rows values;  // in it
};

// Sums of two descending lists that can be among the top_k best: before (i, j) come all (i' <= i, j' <= j).
int64_t Candidates(int64_t top_k) {
  int64_t sum = 0;
  for (int64_t i = 1; i <= top_k; ++i) sum += top_k / i;
  return sum;
}

class PkmFeedForward : public FeedForward {
 public:
  PkmFeedForward(const PkmOptions& options, PkmWeights weights);
  void Run(RowBlock& block, const Rows& in, const Epilogue& out) const override;
  int64_t SharedBytes(int64_t rows) const override {
    int64_t bytes = 0;
    Lay(Pieces(), rows, &bytes);
    return bytes;
  }

 private:
  // What a team shares.
  struct Shared {
    Rows queries;    // f32, [rows, heads * d_k]
    Rows scores;     // f32, [rows, 2 n_keys of some heads]
    int32_t* kept;   // [rows, heads, top_k]: values
    float* weights;  // [rows, heads, top_k]: of them
  };
  // What a member needs for one head of one row.
  struct Own {
    Ranked* halves[2];  // [top_k]
    float* sums;        // [candidates]
    int32_t* values;    // [candidates]: whose sums they are
    Ranked* best;       // [top_k], of the sums
    Scratch& scratch;   // for more
  };

  Shared Lay(Pieces pieces, int64_t rows, int64_t* bytes = nullptr) const;
  Own Take(Scratch& scratch) const;
  int64_t OwnBytes() const;
  void Score(RowBlock& block, const Shared& shared, int64_t head, int64_t count) const;
  void Select(RowBlock& block, const Shared& shared, int64_t head, int64_t count) const;
  void SelectHead(const float* scores, const Own& own, int32_t* kept, float* weights) const;

  const PkmOptions o_;
  const int64_t heads_at_once_, candidates_;
  PkmWeights weights_;
};

PkmFeedForward::PkmFeedForward(const PkmOptions& options, PkmWeights weights)
    : o_(options),
      heads_at_once_(std::clamp<int64_t>(kScores / (2 * options.keys), 1, options.heads)),
      candidates_(Candidates(options.top_k)),
      weights_(std::move(weights)) {
  reads_ = o_.width;
  scratch_bytes_ = std::max(scratch_bytes_, OwnBytes());
  weight_bytes_ = weights_.query.bytes() + static_cast<int64_t>(weights_.memory.size());
  for (const PackedWeights& keys : weights_.sub_keys) weight_bytes_ += keys.bytes();
  multiply_adds_ =
      static_cast<double>(o_.heads) *
      static_cast<double>(o_.query * o_.width + o_.keys * o_.query + candidates_ + o_.top_k * o_.width);
  data_dependent_ = true;
}

PkmFeedForward::Shared PkmFeedForward::Lay(Pieces pieces, int64_t rows, int64_t* bytes) const {
  const int64_t kept = rows * o_.heads * o_.top_k;
  Shared shared;
  shared.queries = pieces.TakeRows(rows, o_.heads * o_.query, DType::kF32);
  shared.scores = pieces.TakeRows(rows, heads_at_once_ * 2 * o_.keys, DType::kF32);
  shared.kept = pieces.Take<int32_t>(kept);
  shared.weights = pieces.Take<float>(kept);
  if (bytes != nullptr) *bytes = pieces.bytes();
  return shared;
}

void PkmFeedForward::Run(RowBlock& block, const Rows& in, const Epilogue& out) const {
  const Shared shared = Lay(Pieces(block.buffers.shared.as<void>()), block.buffers.rows());
  Linear(block, in, weights_.query, {.out = shared.queries});
  for (int64_t head = 0; head < o_.heads; head += heads_at_once_) {
    const int64_t count = std::min(heads_at_once_, o_.heads - head);
    Score(block, shared, head, count);
    Select(block, shared, head, count);
  }
  const int64_t kept = o_.heads * o_.top_k;
  ForRowParts(block, o_.width, [&](int64_t row, Range columns) {
    float* y = out.out.As<float>().row(row) + columns.begin;
    if (!out.add) std::fill_n(y, columns.size(), 0.0f);
    AddWeightedRows(weights_.values.Cols(columns.begin, columns.size()),
                    {shared.kept + row * kept, static_cast<size_t>(kept)}, shared.weights + row * kept, y);
  });
}

// Of `count` heads from `head` on.
void PkmFeedForward::Score(RowBlock& block, const Shared& shared, int64_t head, int64_t count) const {
  const int64_t half = o_.query / 2;
  const Rows queries = shared.queries.Slice(0, block.rows());
  for (int64_t i = 0; i < 2 * count; ++i) {
    const int64_t keys = 2 * head + i;
    LinearInTurn(block, i, {queries.Cols(keys * half, half)}, weights_.sub_keys[keys],
                 {.out = shared.scores.Cols(i * o_.keys, o_.keys)});
  }
  block.team.Barrier();
}

void PkmFeedForward::Select(RowBlock& block, const Shared& shared, int64_t head, int64_t count) const {
  const ScratchFrame frame(block.scratch);
  const Own own = Take(block.scratch);
  const Range share = block.team.Share(block.rows() * count);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / count, kept = (row * o_.heads + head + i % count) * o_.top_k;
    SelectHead(shared.scores.As<float>().row(row) + i % count * 2 * o_.keys, own, shared.kept + kept,
               shared.weights + kept);
  }
  block.team.Barrier();
}

void PkmFeedForward::SelectHead(const float* scores, const Own& own, int32_t* kept, float* weights) const {
  const int64_t k = o_.top_k;
  for (int half = 0; half < 2; ++half)
    TopK(scores + half * o_.keys, o_.keys, k, own.scratch, own.halves[half]);
  int64_t candidate = 0;
  for (int64_t i = 0; i < k; ++i) {
    const Ranked first = own.halves[0][i];
    for (int64_t j = 0; j < k / (i + 1); ++j, ++candidate) {
      const Ranked second = own.halves[1][j];
      own.sums[candidate] = first.value + second.value;
      own.values[candidate] = static_cast<int32_t>(first.index * o_.keys + second.index);
    }
  }
  TopK(own.sums, candidates_, k, own.scratch, own.best);
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    kept[i] = own.values[own.best[i].index];
    weights[i] = std::exp(own.best[i].value - own.best[0].value);
    sum += weights[i];
  }
  for (int64_t i = 0; i < k; ++i) weights[i] = static_cast<float>(weights[i] / sum);
}

PkmFeedForward::Own PkmFeedForward::Take(Scratch& scratch) const {
  Own own{.scratch = scratch};
  for (Ranked*& half : own.halves) half = scratch.Take<Ranked>(o_.top_k);
  own.sums = scratch.Take<float>(candidates_);
  own.values = scratch.Take<int32_t>(candidates_);
  own.best = scratch.Take<Ranked>(o_.top_k);
  return own;
}

int64_t PkmFeedForward::OwnBytes() const {
  return 3 * Scratch::Piece(o_.top_k * static_cast<int64_t>(sizeof(Ranked))) +
         Scratch::Piece(candidates_ * static_cast<int64_t>(sizeof(float))) +
         Scratch::Piece(candidates_ * static_cast<int64_t>(sizeof(int32_t))) + TopKScratchBytes(o_.top_k);
}

// ---------------------------------------------------------------------------------------- its weights

PkmOptions ReadOptions(const FeedForwardSetting& setting, JsonFields& fields) {
  PkmOptions options;
  options.width = setting.width;
  options.precision = setting.precision;
  options.heads = fields.Int("num_heads", setting.num_heads, 1, kMostHeads);
  options.keys = fields.RequiredInt("n_keys", 1, kMostKeys);
  options.query = fields.RequiredInt("d_k", 2, kMostOfARow / options.heads);
  if (options.query % 2 != 0) fields.Fail(Cat("d_k: ", options.query, " is odd; a query has two halves"));
  options.top_k = fields.RequiredInt("top_k", 1, std::min(options.keys, kMostOfARow / options.heads));
  return options;
}

// One half of a head's sub-keys, of the tensor of all.
Tensor SubKeys(const Tensor& all, int64_t index) {
  Tensor keys{all.dtype, {all.dim(2), all.dim(3)}, nullptr};
  keys.data = static_cast<const char*>(all.data) + index * keys.size() * SizeOf(all.dtype);
  return keys;
}

// Rows begin at cache lines, so that a gathered one reads no more of them than it has.
void KeepValues(const Tensor& values, Precision precision, PkmWeights& weights) {
  const DType type = values.dtype == DType::kBf16 ? DType::kBf16 : ActivationType(precision);
  const int64_t rows = values.dim(0), width = values.dim(1);
  const int64_t stride = Scratch::Piece(width * SizeOf(type)) / SizeOf(type);
  weights.memory = Buffer::Lasting(rows * stride * SizeOf(type));
  weights.values = {type, weights.memory.as<void>(), rows, width, stride};
  std::vector<float> row(width);
  for (int64_t r = 0; r < rows; ++r) {
    ToFloats(values, r * width, width, row.data());
    Convert({DType::kF32, row.data(), 1, width, width}, weights.values.Slice(r, 1));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FeedForward>> NewPkmFeedForward(const FeedForwardSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope) {
  const PkmOptions options = ReadOptions(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Product query, LoadProduct(scope, "query", options.heads * options.query, options.width));
  ASSIGN_OR_RETURN(Tensor sub_keys,
                   scope.Get("sub_keys", {options.heads, 2, options.keys, options.query / 2}));
  ASSIGN_OR_RETURN(Tensor values, scope.Get("values", {options.keys * options.keys, options.width}));
  PkmWeights weights;
  weights.query = PackedWeights::Pack({{query.weight, query.bias}}, PrecisionOfChoices(options.precision));
  for (int64_t i = 0; i < 2 * options.heads; ++i)
    weights.sub_keys.push_back(PackedWeights::Pack({{SubKeys(sub_keys, i), {}}}, Precision::kF32));
  KeepValues(values, options.precision, weights);
  return std::make_unique<PkmFeedForward>(options, std::move(weights));
}

}  // namespace heed
