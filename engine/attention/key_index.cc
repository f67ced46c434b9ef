#include "engine/attention/key_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "engine/attention/rope.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"
#include "engine/ops/top_k.h"

namespace heed {
namespace {

constexpr int kMostHeads = 256;
constexpr int64_t kMostDim = 1024, kMostTopK = 1 << 14;
constexpr int64_t kPage = KeyValuePages::kPage, kPiece = kSoftmaxPiece;
constexpr int64_t kRoom = 8;                    // rows that the micro-kernel may compute beyond the heads
constexpr int64_t kRanked = 2048;               // keys that are ranked at a time
constexpr int64_t kBiasPitch = kKeyBlock + 16;  // no power of two: rows do not meet in one cache set

// The last key that a row meets: it meets those of higher scores too, and those of this one before it.
struct LastKey {
  float score = -std::numeric_limits<float>::infinity();
  int32_t place = std::numeric_limits<int32_t>::max();

  bool all() const { return place == std::numeric_limits<int32_t>::max(); }
  bool Meets(float other, int64_t at) const { return other > score || (other == score && at <= place); }
};

int64_t PitchOf(const KeyIndex& index) { return RoundUp(index.dim, int64_t{16}); }

// The scores of one row, in memory of a task.
class RowScores {
 public:
  RowScores(const KeyIndex& index, const AttentionRows& rows, DType type, Scratch& scratch)
      : index_(index), rows_(rows) {
    const int64_t pitch = PitchOf(index), bytes = (index.heads + kRoom) * pitch * SizeOf(type);
    queries_ = {type, scratch.Take<char>(bytes), index.heads, index.dim, pitch};
    std::memset(queries_.data, 0, bytes);  // also behind an odd head_dim
    positions_ = scratch.Take<int64_t>(index.heads);
    weights_ = scratch.Take<float>(index.heads);
    products_ = {scratch.Take<float>((index.heads + kRoom) * kPiece), index.heads, kPiece, kPiece};
    kernel_ = MicroKernel::Get({.a = type,
                                .m = RoundRows(index.heads),
                                .n = static_cast<int>(kPiece),
                                .k = static_cast<int>(index.dim),
                                .lda = pitch,
                                .ldb = kPiece,
                                .ldc = kPiece});
  }
  static int64_t ScratchBytes(const KeyIndex& index, DType type) {
    const int64_t rows = index.heads + kRoom;
    return Scratch::Piece(rows * PitchOf(index) * SizeOf(type)) +
           Scratch::Piece(index.heads * static_cast<int64_t>(sizeof(int64_t))) +
           Scratch::Piece(index.heads * static_cast<int64_t>(sizeof(float))) +
           Scratch::Piece(rows * kPiece * static_cast<int64_t>(sizeof(float)));
  }

  // Of this row of those at hand.
  void Take(int64_t row) const {
    const Rows q = rows_.products[index_.q].Slice(row, 1);
    for (int head = 0; head < index_.heads; ++head)
      std::memcpy(queries_.at(head), q.at(0, head * index_.dim), index_.dim * SizeOf(q.dtype));
    std::fill_n(positions_, index_.heads, rows_.first + row);
    if (index_.rotary) index_.rotary->Apply(queries_, 1, {positions_, static_cast<size_t>(index_.heads)});
    Convert(rows_.products[index_.weights].Slice(row, 1),
            {DType::kF32, weights_, 1, index_.heads, index_.heads});
  }

  // With the kPiece keys from a position on, a multiple of kPiece.
  void With(const KeyValuePages& keys, int64_t position, float* scores) const {
    kernel_->Run(queries_.data, keys.Keys(position), products_.data);
    std::fill_n(scores, kPiece, 0.0f);
    for (int head = 0; head < index_.heads; ++head) {
      const float* const products = products_.row(head);
      for (int64_t j = 0; j < kPiece; ++j) scores[j] += weights_[head] * std::max(products[j], 0.0f);
    }
  }

 private:
  const KeyIndex& index_;
  const AttentionRows& rows_;
  Rows queries_;  // [heads, dim]
  int64_t* positions_;
  float* weights_;
  Matrix<float> products_;  // [heads, kPiece]
  const MicroKernel* kernel_;
};

// The highest scores so far of one row.
class Best {
 public:
  Best(int64_t top_k, Scratch& scratch)
      : top_k_(top_k),
        scratch_(scratch),
        scores_(scratch.Take<float>(top_k + kRanked)),
        places_(scratch.Take<int32_t>(top_k + kRanked)),
        kept_(scratch.Take<int32_t>(top_k)),
        best_(scratch.Take<Ranked>(top_k)) {}
  static int64_t ScratchBytes(int64_t top_k) {
    return 2 * Scratch::Piece((top_k + kRanked) * static_cast<int64_t>(sizeof(float))) +
           Scratch::Piece(top_k * static_cast<int64_t>(sizeof(int32_t))) +
           Scratch::Piece(top_k * static_cast<int64_t>(sizeof(Ranked))) + TopKScratchBytes(top_k);
  }

  // Of the first `keys` keys, more than top_k, the last of the best.
  LastKey Find(const RowScores& scores, const KeyValuePages& pages, int64_t keys) {
    int64_t held = 0;
    for (int64_t first = 0; first < keys; first += kRanked) {
      const int64_t count = std::min(kRanked, keys - first);
      for (int64_t c = 0; c < count; c += kPiece) scores.With(pages, first + c, scores_ + held + c);
      for (int64_t c = 0; c < count; ++c) places_[held + c] = static_cast<int32_t>(first + c);
      held = Keep(held + count);
    }
    return {scores_[held - 1], places_[held - 1]};
  }

 private:
  // Of so many candidates, in the order of their places where scores are equal, the best come to the front.
  int64_t Keep(int64_t candidates) {
    const int64_t kept = std::min(top_k_, candidates);
    TopK(scores_, candidates, kept, scratch_, best_);
    for (int64_t i = 0; i < kept; ++i) kept_[i] = places_[best_[i].index];
    for (int64_t i = 0; i < kept; ++i) {
      scores_[i] = best_[i].value;
      places_[i] = kept_[i];
    }
    return kept;
  }

  int64_t top_k_;
  Scratch& scratch_;
  float* scores_;
  int32_t *places_, *kept_;
  Ranked* best_;
};

// Masks what a tile's rows do not meet.
class IndexMask : public ScoreBias {
 public:
  // `last`: of the tile's rows, `step` apart.
  IndexMask(const RowScores& scores, const KeyValuePages& keys, const LastKey* last,
            const PatternAttention::Tile& tile, float* biases)
      : scores_(scores), keys_(keys), last_(last), tile_(tile), biases_(biases) {}

  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    int64_t marked = -1;
    for (size_t r = 0; r < rows.size(); ++r) {
      const int64_t row = (block.first_row + static_cast<int64_t>(r)) / block.heads;
      float* const biases = biases_ + row * kBiasPitch;
      if (row != marked) MarkRow(block, row, biases);
      marked = row;
      rows[r].bias = biases;
      rows[r].bias_offset = 0;
    }
  }

 private:
  void MarkRow(const BiasBlock& block, int64_t row, float* biases) const {
    const int64_t at = tile_.row + row * tile_.step;
    const LastKey& last = last_[at];
    if (last.all()) return std::fill(biases + block.begin, biases + block.end, 0.0f);
    scores_.Take(at);
    for (int64_t c = block.begin; c < block.end; c += kPiece) {
      scores_.With(keys_, block.base + c, biases + c);
      for (int64_t j = c; j < c + kPiece; ++j)
        biases[j] = last.Meets(biases[j], block.base + j) ? 0.0f : kMasked;
    }
  }

  RowScores scores_;
  const KeyValuePages& keys_;
  const LastKey* last_;
  PatternAttention::Tile tile_;
  float* biases_;
};

class IndexedRun : public PatternRun {
 public:
  explicit IndexedRun(const IndexedAttention& attention)
      : PatternRun(attention),
        attention_(&attention),
        keys_(attention.core().type(), attention.index().dim) {}
  IndexedRun(const IndexedRun& other) : PatternRun(other), attention_(other.attention_), keys_(other.keys_) {}
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<IndexedRun>(*this); }

  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  void Archive(StateArchive& archive) override;

 protected:
  void Prepare(const AttentionRows& rows, const PatternAttention::Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

 private:
  const KeyIndex& index() const { return attention_->index(); }
  void TakeKeys(const AttentionRows& rows, int64_t cut, Scratch& scratch);
  void Choose(const AttentionRows& rows, int64_t task, Scratch& scratch);

  const IndexedAttention* attention_;
  KeyValuePages keys_;
  // Of the rows at hand.
  Buffer last_;                 // LastKey of each
  int64_t chosen_at_once_ = 1;  // rows of a task
  int own_stages_ = 0;
};

// Keys of the index are taken in, rows choose; then what any pattern does.
std::vector<AttentionStage> IndexedRun::Begin(const AttentionRows& rows) {
  std::vector<AttentionStage> stages, others = PatternRun::Begin(rows);
  keys_.Grow(rows.source_count);
  const auto taken = static_cast<double>(std::min(rows.source_count, kTakenRows));
  stages.push_back({Quotient(from() % kTakenRows + rows.source_count, kTakenRows),
                    2 * kMoved * taken * static_cast<double>(index().dim)});
  const auto bytes = static_cast<size_t>(rows.count * static_cast<int64_t>(sizeof(LastKey)));
  if (last_.size() < bytes) last_ = Buffer::Lasting(bytes);
  const double row_cost = attention_->ScoreCost() * static_cast<double>(tokens());
  chosen_at_once_ = std::clamp(static_cast<int64_t>(kTaskCost / row_cost), int64_t{1}, int64_t{32});
  stages.push_back({Quotient(rows.count, chosen_at_once_),
                    row_cost * static_cast<double>(std::min(rows.count, chosen_at_once_))});
  own_stages_ = static_cast<int>(stages.size());
  stages.insert(stages.end(), others.begin(), others.end());
  return stages;
}

void IndexedRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage >= own_stages_) return PatternRun::Do(rows, stage - own_stages_, task, scratch);
  stage == 0 ? TakeKeys(rows, task, scratch) : Choose(rows, task, scratch);
}

// A page's worth at a time. No two cuts write the same page.
void IndexedRun::TakeKeys(const AttentionRows& rows, int64_t cut, Scratch& scratch) {
  const Range grid = TakenCut(cut);
  const int64_t begin = std::max(from(), grid.begin), end = std::min(tokens(), grid.end);
  const Rows& all = rows.products[index().k];
  const Rows keys{all.dtype, scratch.Take<char>(kPage * index().dim * SizeOf(all.dtype)), kPage, index().dim,
                  index().dim};
  int64_t* const positions = scratch.Take<int64_t>(kPage);
  for (int64_t first = begin; first < end; first += kPage) {
    const int64_t count = std::min(kPage, end - first);
    const Rows k = keys.Slice(0, count);
    Convert(all.Slice(first - from(), count), k);
    index().norm.Apply(k);
    for (int64_t i = 0; i < count; ++i) positions[i] = first + i;
    if (index().rotary) index().rotary->Apply(k, 1, {positions, static_cast<size_t>(count)});
    keys_.Write(first, k, k);
  }
}

void IndexedRun::Choose(const AttentionRows& rows, int64_t task, Scratch& scratch) {
  const int64_t begin = task * chosen_at_once_, end = std::min(rows.count, begin + chosen_at_once_);
  const RowScores scores(index(), rows, keys_.type(), scratch);
  Best best(index().top_k, scratch);
  for (int64_t row = begin; row < end; ++row) {
    LastKey& last = last_.as<LastKey>()[row];
    const int64_t keys = rows.first + row + 1;
    last = LastKey();
    if (keys <= index().top_k) continue;
    scores.Take(row);
    last = best.Find(scores, keys_, keys);
  }
}

void IndexedRun::Prepare(const AttentionRows& rows, const PatternAttention::Tile& tile, SoftmaxQueries&,
                         std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
                         Scratch& scratch) const {
  const RowScores scores(index(), rows, keys_.type(), scratch);
  float* const marked = scratch.Take<float>(tile.count * kBiasPitch);
  biases.push_back(std::make_unique<IndexMask>(scores, keys_, last_.as<LastKey>(), tile, marked));
  for (KeySource& source : sources) source.bias = biases.back().get();
}

void IndexedRun::Archive(StateArchive& archive) {
  PatternRun::Archive(archive);
  if (archive.measuring()) archive.Bytes(last_, static_cast<int64_t>(last_.size()));
  keys_.Archive(archive, 0, tokens());
}

}  // namespace

IndexedAttention::IndexedAttention(const AttentionSetting& setting, PatternOptions options,
                                   std::vector<Product> products, Product result, KeyIndex index)
    : PatternAttention(setting, std::move(options), std::move(products)), index_(std::move(index)) {
  result_ = std::move(result);
  data_dependent_ = true;
}

std::unique_ptr<AttentionRun> IndexedAttention::Start() const { return std::make_unique<IndexedRun>(*this); }

int64_t IndexedAttention::StateBytes(int64_t tokens) const {
  return PatternAttention::StateBytes(tokens) + KeyValuePages::Bytes(core().type(), index_.dim, 0, tokens) +
         tokens * static_cast<int64_t>(sizeof(LastKey));
}

// Scores are computed twice; PairCost() has them once.
double IndexedAttention::Cost(int64_t rows, int64_t tokens) const {
  return PatternAttention::Cost(rows, tokens) + pattern(0).Pairs(rows, tokens) * ScoreCost();
}

int64_t IndexedAttention::ScratchBytes() const {
  const int64_t scores = RowScores::ScratchBytes(index_, core().type()),
                positions = std::max(SoftmaxCore::kTile / group(), 1);
  const int64_t mask = Scratch::Piece(positions * kBiasPitch * static_cast<int64_t>(sizeof(float)));
  const int64_t taken = Scratch::Piece(kPage * index_.dim * SizeOf(core().type())) +
                        Scratch::Piece(kPage * static_cast<int64_t>(sizeof(int64_t)));
  return std::max(
      {PatternAttention::ScratchBytes() + scores + mask, taken, scores + Best::ScratchBytes(index_.top_k)});
}

absl::StatusOr<std::optional<KeyIndex>> ReadKeyIndex(JsonFields& fields, const AttentionSetting& setting,
                                                     const IndexedLatents& latents) {
  if (!fields.Has("index")) return std::nullopt;
  JsonFields own(fields.Raw("index"), Cat(fields.where(), ".index"));
  KeyIndex index;
  index.heads = static_cast<int>(own.RequiredInt("heads", 1, kMostHeads));
  index.dim = own.RequiredInt("head_dim", 1, kMostDim);
  index.top_k = own.RequiredInt("top_k", 1, kMostTopK);
  const std::string layout = own.Choice("layout", {"half", "interleaved"});
  if (!setting.causal) own.Fail("of a decoder");
  if (latents.width == 0) own.Fail("its queries are made of latents, and query_latent_dim is 0");
  if (index.dim < latents.turned)
    own.Fail(Cat("head_dim: ", index.dim, " is below rope_dim ", latents.turned));
  RETURN_IF_ERROR(own.Finish());
  if (fields.Has("rope")) {
    Json with = {{"rope", fields.Raw("rope")}};
    with["rope"]["layout"] = layout;
    JsonFields turning(with, fields.where());
    ASSIGN_OR_RETURN(index.rotary, ReadRotary(turning, latents.turned));
  }
  return index;
}

absl::Status LoadKeyIndex(const AttentionSetting& setting, const IndexedLatents& latents,
                          const WeightScope& scope, std::vector<Product>& products, KeyIndex& index) {
  ASSIGN_OR_RETURN(index.norm, HeadNorm::Load(scope / "index_k_norm", {.columns = index.dim},
                                              {.layer = true, .bias = true, .eps = 1e-6f}));
  const auto add = [&](const char* name, int64_t out, int64_t in) -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(products.emplace_back(), LoadProduct(scope, name, out, in));
    return static_cast<int>(products.size()) - 1;
  };
  ASSIGN_OR_RETURN(index.q, add("index_q", index.heads * index.dim, latents.width));
  products[index.q].of = latents.product;
  ASSIGN_OR_RETURN(index.k, add("index_k", index.dim, setting.width));
  ASSIGN_OR_RETURN(index.weights, add("index_weights", index.heads, setting.width));
  products[index.k].chooses = products[index.weights].chooses = true;
  return absl::OkStatus();
}

}  // namespace heed
