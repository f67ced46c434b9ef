// "yoso": YOSO (Zeng et al. 2021), as the expectation of its sampling, for encoders. The weight of a key is
// how likely it meets the query in a bucket of `hash_bits` random hyperplanes; nothing divides the weights,
// but what a head finds is of length one:
//   p_ij = (1 - arccos(cos(q_i, k_j)) / pi)^hash_bits,  out_i = y_i / |y_i|,  y_i = sum_j p_ij v_j
// Options: hash_bits (9). Tensors: q, k, v. No state: rows come whole.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/attention/few_keys.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kMostBits = 64;
constexpr int64_t kTileRows = 64, kTileKeys = 128;

class YosoAttention : public Attention {
 public:
  YosoAttention(const AttentionSetting& setting, int64_t head_dim, int64_t bits,
                std::vector<Product> products);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t) const override { return sizeof(int64_t); }
  double Cost(int64_t rows, int64_t tokens) const override {
    return static_cast<double>(rows * heads_) * RowCost(tokens);
  }
  int64_t ScratchBytes() const override;

  int heads() const { return heads_; }
  double RowCost(int64_t tokens) const {  // of one head
    return 2 * static_cast<double>(tokens) * static_cast<double>(dim_);
  }
  int64_t TaskRows(int64_t tokens) const {
    return std::clamp<int64_t>(static_cast<int64_t>(kTaskCost / RowCost(tokens)), 1, kTileRows);
  }
  void Attend(const AttentionRows& rows, int head, Range of, Scratch& scratch) const;

 private:
  int64_t pitch() const { return RoundUp(dim_, 16); }
  Matrix<float> Unit(const Rows& rows, int head, int64_t first, int64_t count, Scratch& scratch) const;
  Rows Head(const Rows& rows, int head, int64_t first, int64_t count) const {
    return rows.Slice(first, count).Cols(head * dim_, dim_);
  }
  void Weigh(Matrix<float> cosines) const;

  int heads_;
  int64_t dim_, bits_;
};

class YosoRun : public AttentionRun {
 public:
  explicit YosoRun(const YosoAttention& attention) : attention_(&attention) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override {
    CHECK(tokens_ == 0 && rows.count > 0);  // an encoder's rows come whole
    tokens_ = rows.count;
    const int64_t of_task = std::min(attention_->TaskRows(tokens_), tokens_);
    return {{attention_->heads() * Quotient(tokens_, of_task),
             attention_->RowCost(tokens_) * static_cast<double>(of_task)}};
  }
  void Do(const AttentionRows& rows, int, int64_t task, Scratch& scratch) override {
    const int64_t of_task = std::min(attention_->TaskRows(tokens_), tokens_),
                  tasks = Quotient(tokens_, of_task), first = task % tasks * of_task;
    attention_->Attend(rows, static_cast<int>(task / tasks), {first, std::min(tokens_, first + of_task)},
                       scratch);
  }
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<YosoRun>(*this); }
  void Archive(StateArchive& archive) override { archive.Number(tokens_, 0, kMostTokens); }
  int64_t tokens() const override { return tokens_; }

 private:
  const YosoAttention* attention_;
  int64_t tokens_ = 0;
};

YosoAttention::YosoAttention(const AttentionSetting& setting, int64_t head_dim, int64_t bits,
                             std::vector<Product> products)
    : heads_(setting.num_heads), dim_(head_dim), bits_(bits) {
  products_ = std::move(products);
  out_width_ = setting.width;
  decode_ = DecodeClass::kNone;
}

std::unique_ptr<AttentionRun> YosoAttention::Start() const { return std::make_unique<YosoRun>(*this); }

int64_t YosoAttention::ScratchBytes() const {
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  return 2 * floats(kTileRows * pitch()) + floats(kTileRows * kTileKeys) + 3 * floats(kTileKeys * pitch());
}

// In f32, of length one; zeros stay.
Matrix<float> YosoAttention::Unit(const Rows& rows, int head, int64_t first, int64_t count,
                                  Scratch& scratch) const {
  const int64_t room = count > kTileRows ? kTileKeys : kTileRows;
  const Matrix<float> unit{scratch.Take<float>(room * pitch()), count, dim_, pitch()};
  Convert(Head(rows, head, first, count), {DType::kF32, unit.data, count, dim_, pitch()});
  for (int64_t r = 0; r < count; ++r) ScaleToLengthOne({unit.row(r), static_cast<size_t>(dim_)});
  return unit;
}

void YosoAttention::Weigh(Matrix<float> cosines) const {
  for (int64_t r = 0; r < cosines.rows; ++r) {
    for (int64_t j = 0; j < cosines.cols; ++j) {
      const float angle = std::acos(std::clamp(cosines.row(r)[j], -1.0f, 1.0f));
      const float meets = 1 - angle * std::numbers::inv_pi_v<float>;
      float p = 1;
      for (int64_t bit = 0; bit < bits_; ++bit) p *= meets;
      cosines.row(r)[j] = p;
    }
  }
}

void YosoAttention::Attend(const AttentionRows& rows, int head, Range of, Scratch& scratch) const {
  const int64_t count = of.size();
  const Matrix<float> q = Unit(rows.products[0], head, of.begin, count, scratch);
  const Matrix<float> sums{scratch.Take<float>(kTileRows * pitch()), count, pitch(), pitch()},
      weights{scratch.Take<float>(kTileRows * kTileKeys), count, kTileKeys, kTileKeys};
  std::fill_n(sums.data, count * pitch(), 0.0f);
  for (int64_t key = 0; key < rows.count; key += kTileKeys) {
    const ScratchFrame frame(scratch);
    const int64_t keys = std::min(kTileKeys, rows.count - key);
    const Matrix<float> k = Unit(rows.products[1], head, key, keys, scratch);
    float* const packed = scratch.Take<float>(kTileKeys * pitch());
    std::fill_n(packed, dim_ * kTileKeys, 0.0f);
    PackColumns({DType::kF32, k.data, keys, dim_, pitch()}, 0, kTileKeys, packed);
    MicroKernel::Multiply({DType::kF32, q.data, count, dim_, pitch()}, packed, kTileKeys, weights);
    Weigh(weights.Cols(0, keys));
    const Rows v{DType::kF32, scratch.Take<float>(kTileKeys * pitch()), keys, dim_, pitch()};
    std::fill_n(v.As<float>().data, keys * pitch(), 0.0f);
    Convert(Head(rows.products[2], head, key, keys), v);
    MicroKernel::Multiply({DType::kF32, weights.data, count, keys, kTileKeys}, v.data, pitch(), sums,
                          /*add=*/true);
  }
  for (int64_t r = 0; r < count; ++r) ScaleToLengthOne({sums.row(r), static_cast<size_t>(dim_)});
  Convert({DType::kF32, sums.data, count, dim_, pitch()}, Head(rows.out, head, of.begin, count));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewYosoAttention(const AttentionSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  RefuseAllButEncoders(setting, "yoso", "every row meets all others", fields);
  const int64_t head_dim = HeadDim(setting, fields), bits = fields.Int("hash_bits", 9, 1, kMostBits);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  return std::make_unique<YosoAttention>(setting, head_dim, bits, std::move(products));
}

}  // namespace heed
