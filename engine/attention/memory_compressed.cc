// "memory_compressed": memory-compressed attention (Liu et al. 2018). A convolution as long as its stride
// makes one slot of every `stride` keys, another one of their values, and a learned slot is seen by all:
//   slot_p = b + sum over t < stride of W_t k_(p stride + t)
//   softmax(Q [null_k ; slots of K]' / sqrt(head_dim)) [null_v ; slots of V]
// In a decoder token i sees the slots that are whole before it, (p + 1) stride <= i: the first `stride`
// tokens see the learned slot alone, so such layers stand between local ones. In an encoder all see all; what
// the last slot lacks counts as zeros.
// Options: stride (3 in the paper); compression: "conv", or "mean" or "max", number by number, of the rows
//   that there are.
// Tensors: q, k, v; null_k, null_v [hidden_size]; with "conv" compress_k and compress_v, .weight [out, in,
//   stride] and .bias.
// State: the slots, and two open ones in f32: a row is folded in when it comes, and no longer needed. So each
// step costs the same, and sums run from tap to tap wherever chunks end. Decoding is exact.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/attention/compression.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;

// Place 0 is the learned slot, place 1 + p slot p: held from its last row on, in an encoder from its first.
class SlotPattern : public Pattern {
 public:
  SlotPattern(int64_t stride, bool causal) : stride_(stride), causal_(causal) {
    const int64_t at = causal ? stride - 1 : 0;
    sets_[0] = {.period = stride, .begin = at, .end = at + 1, .ahead = 1};
  }
  Range Sees(int, int64_t position) const override {
    return {0, causal_ ? 1 + position / stride_ : kUnlimited};
  }
  double Pairs(int64_t rows, int64_t tokens) const override {
    if (causal_) return Until(tokens) - Until(tokens - rows);
    return static_cast<double>(rows) * static_cast<double>(1 + Quotient(tokens, stride_));
  }

 private:
  double Until(int64_t tokens) const {
    const auto whole = static_cast<double>(tokens / stride_), rest = static_cast<double>(tokens % stride_);
    return static_cast<double>(tokens) + static_cast<double>(stride_) * whole * (whole - 1) / 2 +
           whole * rest;
  }

  int64_t stride_;
  bool causal_;
};

enum Side { kKeys, kValues };

struct Compressor {
  std::vector<Compression> sides;            // by side
  std::array<std::vector<float>, 2> null{};  // by side
};

class CompressedAttention : public PatternAttention {
 public:
  CompressedAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                      Compressor compressor);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override {
    return PatternAttention::StateBytes(tokens) + 2 * OpenBytes();
  }
  double Cost(int64_t rows, int64_t tokens) const override {
    return PatternAttention::Cost(rows, tokens) + options().heads * RowCost() * static_cast<double>(rows);
  }
  int64_t ScratchBytes() const override;

  // Of one head's row, both sides.
  double RowCost() const { return 2 * compression(kKeys).RowCost(); }
  // Slots of a task: a page's, or fewer, so that the task is not long.
  int64_t TaskSlots() const;
  // Of an open slot: [side][width], f32. An encoder leaves none.
  int64_t OpenBytes() const { return causal_ ? 2 * width_ * SizeOf(DType::kF32) : 0; }

  const Compression& compression(Side side) const { return compressor_.sides[side]; }
  Rows Null(Side side, int head) const;
  int64_t stride() const { return compression(kKeys).stride(); }
  bool causal() const { return causal_; }
  int64_t width() const { return width_; }

 private:
  Compressor compressor_;
  int64_t width_;
  bool causal_;
  std::array<Buffer, 2> null_;  // of the activations' type
};

// What one sequence remembers. A task is a head's slots that lie in one page.
class CompressedRun : public PatternRun {
 public:
  explicit CompressedRun(const CompressedAttention& attention);
  CompressedRun(const CompressedRun& other)
      : PatternRun(other),
        attention_(other.attention_),
        open_(other.open_),
        opened_(Buffer::Lasting(open_.size())) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<CompressedRun>(*this); }
  void Archive(StateArchive& archive) override;

 protected:
  void TakeCut(const AttentionRows& rows, int head, int64_t cut, int stage, Scratch& scratch) override;

 private:
  static Taking TakingOf(const CompressedAttention& attention);
  Rows Compress(const AttentionRows& rows, Side side, int head, Range slots, Scratch& scratch);
  float* Open(Buffer& buffer, Side side, int head) const {
    return buffer.as<float>() + side * attention_->width() + head * attention_->core().head_dim();
  }

  const CompressedAttention* attention_;
  // The slot that is not whole; and the one that was not before the rows at hand, which one task reads while
  // another may write the new one.
  Buffer open_, opened_;
};

// ---------------------------------------------------------------------------------- what is shared

CompressedAttention::CompressedAttention(const AttentionSetting& setting, PatternOptions options,
                                         std::vector<Product> products, Compressor compressor)
    : PatternAttention(setting, std::move(options), std::move(products)),
      compressor_(std::move(compressor)),
      width_(setting.width),
      causal_(setting.causal) {
  weighing_heads_ = 0;
  for (Side side : {kKeys, kValues}) {
    std::vector<float>& null = compressor_.null[side];
    null_[side] = Buffer(width_ * SizeOf(core().type()));
    Convert({DType::kF32, null.data(), 1, width_, width_},
            {core().type(), null_[side].as<void>(), 1, width_, width_});
    constant_bytes_ += static_cast<int64_t>(null_[side].size());
    constant_bytes_ += compression(side).bytes();
  }
}

std::unique_ptr<AttentionRun> CompressedAttention::Start() const {
  return std::make_unique<CompressedRun>(*this);
}

int64_t CompressedAttention::TaskSlots() const {
  int64_t slots = kPage;
  while (slots > 1 && static_cast<double>(slots * stride()) * RowCost() > kTaskCost) slots /= 2;
  return slots;
}

int64_t CompressedAttention::ScratchBytes() const {
  const int64_t dim = core().head_dim(), type = SizeOf(core().type()), f32 = SizeOf(DType::kF32);
  const int64_t slots = Scratch::Piece(kPage * dim * f32) + Scratch::Piece(kPage * dim * type);
  return std::max(2 * slots + compression(kKeys).ScratchBytes(kPage), PatternAttention::ScratchBytes());
}

Rows CompressedAttention::Null(Side side, int head) const {
  const int64_t dim = core().head_dim();
  return Rows{core().type(), const_cast<void*>(null_[side].as<void>()), 1, width_, width_}.Cols(head * dim,
                                                                                                dim);
}

// ------------------------------------------------------------------------------------ one sequence

// The learned slot lies before the others in the first page.
PatternRun::Taking CompressedRun::TakingOf(const CompressedAttention& attention) {
  return {.cut = kPage * attention.stride(),
          .ahead = attention.stride(),
          .stages = static_cast<int>(kPage / attention.TaskSlots()),
          .row_cost = attention.RowCost()};
}

CompressedRun::CompressedRun(const CompressedAttention& attention)
    : PatternRun(attention, TakingOf(attention)),
      attention_(&attention),
      open_(Buffer::Lasting(attention.OpenBytes())),
      opened_(Buffer::Lasting(attention.OpenBytes())) {}

std::vector<AttentionStage> CompressedRun::Begin(const AttentionRows& rows) {
  if (rows.source_count > 0) std::swap(open_, opened_);
  return PatternRun::Begin(rows);
}

void CompressedRun::TakeCut(const AttentionRows& rows, int head, int64_t cut, int stage, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const CompressedAttention& a = *attention_;
  KeyValuePages& pages = Track(head, 0, 0);
  const int64_t first = TakenCut(cut).begin / a.stride() + stage * a.TaskSlots();
  if (first < 0 && from() == 0) pages.Write(0, a.Null(kKeys, head), a.Null(kValues, head));
  const Range slots{std::max(first, from() / a.stride()),
                    std::min(first + a.TaskSlots(), Quotient(tokens(), a.stride()))};
  if (slots.begin >= slots.end) return;
  const Rows keys = Compress(rows, kKeys, head, slots, scratch),
             values = Compress(rows, kValues, head, slots, scratch);
  if (keys.rows > 0) pages.Write(1 + slots.begin, keys, values);
}

// Those of the slots that are whole, or the last ones of an encoder.
Rows CompressedRun::Compress(const AttentionRows& rows, Side side, int head, Range slots, Scratch& scratch) {
  const CompressedAttention& a = *attention_;
  const int64_t stride = a.stride(), dim = a.core().head_dim(), begin = from(), end = tokens();
  const Matrix<float> sums{scratch.Take<float>(slots.size() * dim), slots.size(), dim, dim};
  if (slots.begin * stride < begin) std::copy_n(Open(opened_, side, head), dim, sums.data);
  const int64_t first = std::max(begin, slots.begin * stride), last = std::min(end, slots.end * stride);
  a.compression(side).Fold(head, first, rows.products[1 + side].Slice(first - begin, last - first), sums,
                           scratch);
  const int64_t made = a.causal() ? std::min(slots.end, end / stride) - slots.begin : slots.size();
  if (made < slots.size()) std::copy_n(sums.row(made), dim, Open(open_, side, head));
  const Matrix<float> whole = sums.Rows(0, made);
  a.compression(side).Finish(slots.begin, end, whole);
  const DType type = a.core().type();
  const Rows typed{type, scratch.Take<char>(made * dim * SizeOf(type)), made, dim, dim};
  Convert({DType::kF32, whole.data, made, dim, dim}, typed);
  return typed;
}

void CompressedRun::Archive(StateArchive& archive) {
  PatternRun::Archive(archive);
  const auto size = static_cast<int64_t>(open_.size());
  if (archive.measuring()) archive.Bytes(opened_, size);
  if (archive.measuring() || (attention_->causal() && tokens() % attention_->stride() > 0))
    archive.Bytes(open_, size);
}

// ----------------------------------------------------------------------------------------- loading

absl::StatusOr<Compressor> LoadCompressor(const AttentionSetting& setting, Compression::Kind kind,
                                          int64_t stride, const WeightScope& scope) {
  Compressor compressor;
  for (Side side : {kKeys, kValues}) {
    const WeightScope convolution = scope / (side == kKeys ? "compress_k" : "compress_v");
    ASSIGN_OR_RETURN(compressor.null[side],
                     scope.Floats(side == kKeys ? "null_k" : "null_v", {setting.width}));
    ASSIGN_OR_RETURN(Compression compression, Compression::Load(setting, kind, stride, convolution));
    if (kind == Compression::Kind::kConv)
      RETURN_IF_ERROR(convolution.Get("bias", {setting.width}).status());  // the published layer has it
    compressor.sides.push_back(std::move(compression));
  }
  return compressor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewMemoryCompressedAttention(const AttentionSetting& setting,
                                                                        JsonFields& fields,
                                                                        const WeightScope& scope) {
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  const int64_t stride = fields.RequiredInt("stride", 1, kMostSpan);
  const Compression::Kind kind = Compression::ReadKind(fields);
  if (setting.cross) fields.Fail("slots are of the sequence's own past: this is no cross-attention");
  RETURN_IF_ERROR(fields.Finish());
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  options.patterns = {std::make_shared<SlotPattern>(stride, setting.causal)};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  ASSIGN_OR_RETURN(Compressor compressor, LoadCompressor(setting, kind, stride, scope));
  return std::make_unique<CompressedAttention>(setting, std::move(options), std::move(products),
                                               std::move(compressor));
}

}  // namespace heed
