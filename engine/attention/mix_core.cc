#include "engine/attention/mix_core.h"

#include <algorithm>
#include <cstring>

#include "absl/log/check.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/round.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/outer.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// Distance between rows of scores; no power of two, so that rows do not meet in one cache set.
constexpr int64_t kPitch = kKeyBlock + 16;

// Rows of floats in the type, the numbers after them zeros.
Rows Store(DType type, const std::vector<float>& numbers, int64_t rows, int64_t stride, Buffer& memory) {
  const int64_t cols = rows == 0 ? 0 : static_cast<int64_t>(numbers.size()) / rows;
  memory = Buffer::Zeros(rows * stride * SizeOf(type));
  const Rows stored{type, memory.as<char>(), rows, cols, stride};
  Convert({DType::kF32, const_cast<float*>(numbers.data()), rows, cols, cols}, stored);
  return stored;
}

// The micro-kernel's B of a product with the transposed matrix [n, features], by blocks of `width` columns.
int64_t BlockBytes(DType type, int64_t features, int64_t width) {
  return RoundUp(features, 2) * width * SizeOf(type);
}

Buffer Pack(DType type, const std::vector<float>& numbers, int64_t features, int64_t width) {
  const int64_t rows = static_cast<int64_t>(numbers.size()) / features,
                bytes = BlockBytes(type, features, width);
  Buffer memory, packed = Buffer::Zeros(RoundUp(rows, width) / width * bytes);
  const Rows all = Store(type, numbers, rows, features, memory);
  for (int64_t row = 0; row < rows; row += width) {
    PackColumns(all.Slice(row, std::min(width, rows - row)), 0, width,
                packed.as<char>() + row / width * bytes);
  }
  return packed;
}

// With rows that are computed and ignored.
void Multiply(const Rows& a, const void* b, int64_t ldb, Matrix<float> c) {
  MicroKernel::Multiply(a.Slice(0, RoundRows(static_cast<int>(a.rows))), b, ldb, c);
}

Matrix<float> TakeMatrix(int64_t rows, int64_t cols, int64_t stride, Scratch& scratch) {
  return {scratch.Take<float>(RoundRows(static_cast<int>(rows)) * stride), rows, cols, stride};
}

}  // namespace

MixScores::MixScores(DType type, const Parts& parts)
    : type_(type),
      n_max_(parts.n_max),
      given_(parts.given),
      constants_(parts.constants),
      a_(parts.a),
      c_(parts.c) {
  constant_ = Store(type, parts.constant, constants_ > 0 ? n_max_ : 0, constants_, constant_memory_);
  table_ = Store(type, parts.table, parts.table.empty() ? 0 : n_max_, RoundUp(n_max_, kSoftmaxPiece),
                 table_memory_);
  if (!parts.columns.empty()) columns_ = Pack(type, parts.columns, features(), kKeyBlock);
  if (!parts.factors.empty()) factors_ = Pack(type, parts.factors, given_ + 1, RoundUp(a_ + c_, 16));
}

double MixScores::score_cost() const {
  return (columns_.empty() ? 0 : features()) + (table_.rows > 0 ? 1 : 0) + (factors_.empty() ? 0 : 1);
}

double MixScores::row_cost() const { return static_cast<double>(a_ + c_) * (given_ + 1); }

int64_t MixScores::bytes() const {
  return static_cast<int64_t>(constant_memory_.size() + table_memory_.size() + columns_.size() +
                              factors_.size());
}

MixTile::MixTile(const MixScores& scores, const Rows& given, int64_t first, Scratch& scratch)
    : scores_(scores),
      first_(first),
      rows_(given.rows),
      result_(TakeMatrix(rows_, kKeyBlock, kPitch, scratch)) {
  CHECK(rows_ <= SoftmaxCore::kTile && first + rows_ <= scores.n_max_);
  table_ = scores.table_.rows > 0 ? TakeMatrix(rows_, kKeyBlock, kPitch, scratch) : result_;
  if (scores.columns_.empty() && scores.factors_.empty()) return;
  const int64_t pitch = RoundUp(scores.features(), 16) + 16, rounded = RoundRows(static_cast<int>(rows_));
  features_ = {scores.type_, scratch.Take<char>(rounded * pitch * SizeOf(scores.type_)), rows_,
               scores.features(), pitch};
  LoadFeatures(given);
  if (scores.factors_.empty()) return;
  factors_ =
      TakeMatrix(rows_, RoundUp(scores.a_ + scores.c_, 16), RoundUp(scores.a_ + scores.c_, 16) + 16, scratch);
  Multiply(features_.Cols(0, scores.given_ + 1), scores.factors_.as<void>(), factors_.cols, factors_);
}

int64_t MixTile::ScratchBytes(const MixScores& scores) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t scored = (scores.table_.rows > 0 ? 2 : 1) * kPitch * kFloat;
  if (scores.columns_.empty() && scores.factors_.empty()) return SoftmaxCore::kTile * scored;
  const int64_t features = (RoundUp(scores.features(), 16) + 16) * SizeOf(scores.type_);
  const int64_t factors = scores.factors_.empty() ? 0 : (RoundUp(scores.a_ + scores.c_, 16) + 16) * kFloat;
  return SoftmaxCore::kTile * (scored + features + factors);  // each of its parts is whole cache lines
}

void MixTile::LoadFeatures(const Rows& given) {
  const int64_t padded = features_.stride * SizeOf(features_.dtype);
  std::memset(features_.data, 0, rows_ * padded);  // what follows the last feature is read in pairs
  float one = 1;
  const Rows relu = features_.Cols(0, scores_.given_);
  Convert(given, relu);
  Activate(Activation::kRelu, relu);
  for (int64_t r = 0; r < rows_; ++r)
    Convert({DType::kF32, &one, 1, 1, 1}, features_.Slice(r, 1).Cols(scores_.given_, 1));
  if (scores_.constants_ == 0) return;
  Convert(scores_.constant_.Slice(first_, rows_), features_.Cols(scores_.given_ + 1, scores_.constants_));
}

void MixTile::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  CHECK(block.heads == 1 && block.first_row == 0 && static_cast<int64_t>(rows.size()) == rows_);
  ComputeColumns(block);
  AddTable(block);
  AddFactors(block);
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].bias = result_.row(static_cast<int64_t>(r));
    rows[r].bias_offset = 0;
  }
}

void MixTile::ComputeColumns(const BiasBlock& block) const {
  const Matrix<float> result = result_.Cols(block.begin, block.end - block.begin);
  if (scores_.columns_.empty()) {
    for (int64_t r = 0; r < rows_; ++r) std::fill_n(result.row(r), result.cols, 0.0f);
    return;
  }
  const int64_t bytes = BlockBytes(scores_.type_, features_.cols, kKeyBlock);
  const char* columns = scores_.columns_.as<char>() + block.base / kKeyBlock * bytes;
  constexpr int64_t kWord = 4;  // bytes of a float, or of a pair of bf16
  Multiply(features_, columns + block.begin * kWord, kKeyBlock, result);
}

void MixTile::AddTable(const BiasBlock& block) const {
  if (scores_.table_.rows == 0) return;
  const int64_t columns = block.end - block.begin;
  const Matrix<float> table = table_.Cols(block.begin, columns);
  Rows stored = scores_.table_.Slice(first_, rows_);
  stored.cols = stored.stride;
  Convert(stored.Cols(block.base + block.begin, columns),
          {DType::kF32, table.data, rows_, columns, table.stride});
  Add(table, result_.Cols(block.begin, columns));
}

void MixTile::AddFactors(const BiasBlock& block) const {
  if (scores_.factors_.empty()) return;
  const int64_t end = std::min(block.base + block.end, scores_.n_max_);
  for (int64_t r = 0; r < rows_; ++r) {
    const float* a = factors_.row(r);
    AddOuter(a, scores_.a_, a + scores_.a_, block.base + block.begin, end, result_.row(r) + block.begin);
  }
}

}  // namespace heed
