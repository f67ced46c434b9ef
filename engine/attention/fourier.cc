// "fourier": FNet (Lee-Thorp et al. 2021): rows are mixed by a Fourier transform and by nothing that is
// learned: over the columns of each row, then over the rows of each column; the real part is what is added.
//   Y = Re(F_n X F_d),  F_n[j, k] = exp(-2 pi i j k / n)
// Encoder only: a row sees all others. Any length up to 262,144, in the time of n log n. No options, no
// tensors, and no product of the result.
// State: while a sequence is mixed, two numbers for each of its own, of the first power of two from
//   2 n - 1 rows on.
#include <algorithm>
#include <memory>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/attention/few_keys.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/fourier.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = 1 << 18;
constexpr int64_t kColumns = FourierTransform::kColumns;
constexpr int64_t kRowsOfTask = 4 * kColumns;

class FourierAttention : public Attention {
 public:
  explicit FourierAttention(const AttentionSetting& setting);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override {
    return static_cast<int64_t>(sizeof(int64_t)) + pieces() * PieceBytes(tokens) +
           (tokens > 0 ? FourierTransform::Bytes(tokens) : 0);
  }
  double Cost(int64_t rows, int64_t tokens) const override {
    return static_cast<double>(rows) *
           (RowCost() + PieceCost(tokens) * static_cast<double>(pieces()) / static_cast<double>(tokens));
  }
  int64_t ScratchBytes() const override {
    const auto floats = [](int64_t n) { return Scratch::Piece(n * kColumns * SizeOf(DType::kF32)); };
    return floats(width()) + 2 * floats(FourierTransform::Room(width()));
  }

  int64_t width() const { return out_width_; }
  const FourierTransform& of_columns() const { return of_columns_; }
  // kColumns columns of all rows, which lie together.
  int64_t pieces() const { return Quotient(width(), kColumns); }
  static int64_t PieceBytes(int64_t tokens) {
    return tokens == 0 ? 0 : 2 * FourierTransform::Room(tokens) * kColumns * SizeOf(DType::kF32);
  }
  double RowCost() const {
    return (FourierTransform::Cost(width()) + kMoved * static_cast<double>(3 * width() * kColumns)) /
           static_cast<double>(kColumns);
  }
  static double PieceCost(int64_t tokens) {
    return FourierTransform::Cost(tokens) + kMoved * static_cast<double>(tokens * kColumns);
  }

 private:
  FourierTransform of_columns_;
};

class FourierRun : public AttentionRun {
 public:
  explicit FourierRun(const FourierAttention& attention) : attention_(&attention) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<FourierRun>(*this); }
  void Archive(StateArchive& archive) override {
    archive.Number(tokens_, 0, kMostTokens);
    if (archive.measuring()) archive.Bytes(memory_, static_cast<int64_t>(memory_.size()));
  }
  int64_t tokens() const override { return tokens_; }

 private:
  float* Re(int64_t piece) {
    return memory_.as<float>() + piece * FourierAttention::PieceBytes(tokens_) / SizeOf(DType::kF32);
  }
  float* Im(int64_t piece) { return Re(piece) + FourierTransform::Room(tokens_) * kColumns; }
  void TransformColumns(const AttentionRows& rows, int64_t first, int64_t count, Scratch& scratch);
  void TransformRows(const AttentionRows& rows, int64_t piece);

  const FourierAttention* attention_;
  int64_t tokens_ = 0;
  std::shared_ptr<const FourierTransform> of_rows_;
  Buffer memory_;  // of each piece, Room(tokens_) rows of real parts, then the imaginary ones
};

FourierAttention::FourierAttention(const AttentionSetting& setting) : of_columns_(setting.width) {
  out_width_ = setting.width;
  decode_ = DecodeClass::kNone;
  max_tokens_ = kMostTokens;
  reads_input_ = true;
  projected_ = false;
  constant_bytes_ = FourierTransform::Bytes(setting.width);
}

std::unique_ptr<AttentionRun> FourierAttention::Start() const { return std::make_unique<FourierRun>(*this); }

std::vector<AttentionStage> FourierRun::Begin(const AttentionRows& rows) {
  CHECK(tokens_ == 0 && rows.count > 0 && rows.count <= kMostTokens);  // an encoder's rows come whole
  tokens_ = rows.count;
  of_rows_ = std::make_shared<FourierTransform>(tokens_);
  memory_ = Buffer::Lasting(attention_->pieces() * FourierAttention::PieceBytes(tokens_));
  const int64_t most = std::min(tokens_, kRowsOfTask);
  return {{Quotient(tokens_, kRowsOfTask), attention_->RowCost() * static_cast<double>(most)},
          {attention_->pieces(), FourierAttention::PieceCost(tokens_)}};
}

void FourierRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage == 1) return TransformRows(rows, task);
  const int64_t end = std::min(tokens_, (task + 1) * kRowsOfTask);
  for (int64_t first = task * kRowsOfTask; first < end; first += kColumns) {
    const ScratchFrame frame(scratch);
    TransformColumns(rows, first, std::min(kColumns, end - first), scratch);
  }
}

// Some rows, as columns side by side.
void FourierRun::TransformColumns(const AttentionRows& rows, int64_t first, int64_t count, Scratch& scratch) {
  const int64_t width = attention_->width(), room = FourierTransform::Room(width) * kColumns;
  const Matrix<float> normed{scratch.Take<float>(width * kColumns), count, width, width};
  rows.layer->Normalize(rows.input.Rows(first, count), {DType::kF32, normed.data, count, width, width});
  float *re = scratch.Take<float>(room), *im = scratch.Take<float>(room);
  std::fill_n(re, width * kColumns, 0.0f);
  std::fill_n(im, width * kColumns, 0.0f);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < width; ++c) re[c * kColumns + r] = normed.row(r)[c];
  }
  attention_->of_columns().Run(re, im);
  for (int64_t c = 0; c < width; ++c) {
    const int64_t piece = c / kColumns, at = first * kColumns + c % kColumns;
    for (int64_t r = 0; r < count; ++r) {
      Re(piece)[at + r * kColumns] = re[c * kColumns + r];
      Im(piece)[at + r * kColumns] = im[c * kColumns + r];
    }
  }
}

void FourierRun::TransformRows(const AttentionRows& rows, int64_t piece) {
  const int64_t first = piece * kColumns, columns = std::min(kColumns, attention_->width() - first);
  float* const re = Re(piece);
  for (int64_t i = 0; columns < kColumns && i < tokens_; ++i) {
    std::fill(re + i * kColumns + columns, re + (i + 1) * kColumns, 0.0f);
    std::fill(Im(piece) + i * kColumns + columns, Im(piece) + (i + 1) * kColumns, 0.0f);
  }
  of_rows_->Run(re, Im(piece));
  Convert({DType::kF32, re, tokens_, columns, kColumns}, rows.out.Cols(first, columns));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewFourierAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope&) {
  RefuseAllButEncoders(setting, "fourier", "rows are sums of all rows", fields);
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<FourierAttention>(setting);
}

}  // namespace heed
