#include "engine/attention/linear_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/attention/attention.h"
#include "engine/base/round.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"
#include "engine/ops/scan.h"

namespace heed {
namespace {

// Queries whose weights over their own block are computed together: half of the block's upper triangle is
// left out.
constexpr int64_t kTile = kGrid / 2;
// What the micro-kernel sums or computes comes in multiples of this, zeros included, so that few shapes
// occur.
constexpr int64_t kPiece = 32;
// Distance between rows of a block's weights and transposed features; no power of two.
constexpr int64_t kPitch = kGrid + 32;

Rows TakeRows(DType type, int64_t rows, int64_t cols, int64_t stride, Scratch& scratch) {
  return {type, scratch.Take<char>(rows * stride * SizeOf(type)), rows, cols, stride};
}

}  // namespace

ScanMemory::ScanMemory(int64_t features, int64_t head_dim, bool scaled)
    : features_(features),
      columns_(RoundUp(head_dim, 16)),
      scaled_(scaled),
      data_(Buffer::Zeros(Bytes(features, head_dim, scaled))) {
  if (scaled) norm()[features] = std::numeric_limits<float>::lowest();
}

int64_t ScanMemory::Bytes(int64_t features, int64_t head_dim, bool scaled) {
  const int64_t numbers = features * (RoundUp(head_dim, 16) + 1) + (scaled ? 1 : 0);
  return numbers * static_cast<int64_t>(sizeof(float));
}

void ScanMemory::Raise(float peak) {
  if (!scaled_ || !(peak > this->peak())) return;
  const int64_t numbers = features_ * (columns_ + 1);  // the norm's, too
  Scale(std::exp(this->peak() - peak), {sums().data, 1, numbers, numbers});
  norm()[features_] = peak;
}

Matrix<float> ScanMemory::sums() { return {data_.as<float>(), features_, columns_, columns_}; }

Matrix<const float> ScanMemory::sums() const { return {data_.as<float>(), features_, columns_, columns_}; }

float* ScanMemory::norm() { return data_.as<float>() + features_ * columns_; }

const float* ScanMemory::norm() const { return data_.as<float>() + features_ * columns_; }

void ScanMemory::Archive(StateArchive& archive, int64_t tokens) {
  if (archive.restoring()) tokens_ = tokens;
  archive.Bytes(data_, static_cast<int64_t>(data_.size()));
}

// At most kGrid rows of one head, as the micro-kernel reads them, and what becomes of them.
class LinearScan::Block {
 public:
  Block(const LinearScan& scan, Scratch& scratch);

  void LoadQueries(const Rows& q);
  void LoadKeys(const Rows& k, const Rows& v, float peak);  // peak: of the memory before them
  void LoadMemory(const ScanMemory& memory);
  void AttendMemory(const ScanMemory& memory);  // the one loaded
  void AttendBlock(const ScanMemory& memory);
  void Write(const Rows& out) const;
  void Remember(ScanMemory& memory);

 private:
  int64_t features() const { return scan_.options_.features; }
  bool bf16() const { return scan_.type_ == DType::kBf16; }
  bool scaled() const { return scan_.options_.scaled; }
  void PackKeys();
  void ClearBehindKeys();
  void WeighKeys(float peak);
  void AttendTile(int64_t first, int64_t count);

  const LinearScan& scan_;
  const int64_t columns_;  // of values, zeros up to a multiple of 16 included
  int64_t queries_ = 0, keys_ = 0;
  Rows query_features_;        // [kGrid, features]
  Rows key_features_;          // [kGrid, features]
  void* packed_keys_;          // B of phi(Q) phi(K)'
  Rows transposed_keys_;       // A of phi(K)' V, [features, kGrid]; in f32 the same memory
  void* packed_values_;        // B, [kGrid, columns]
  Rows rounded_memory_;        // bf16 only
  const void* packed_memory_;  // B, [features, columns]; in bf16 in memory of its own
  void* packing_ = nullptr;    // bf16 only
  Matrix<float> weights_;      // of one tile over its block
  Rows kept_;                  // those not in the future, in the type; in f32 the same memory
  Matrix<float> result_;       // [kGrid, columns]
  float* divisors_;
  // Scaled: of a key; the largest up to a row; of a query, which cancels.
  float *exponents_ = nullptr, *peaks_ = nullptr, *unused_ = nullptr;
  Scratch& scratch_;
};

LinearScan::Block::Block(const LinearScan& scan, Scratch& scratch)
    : scan_(scan), columns_(RoundUp(scan.options_.head_dim, 16)), scratch_(scratch) {
  const DType type = scan.type_;
  const int64_t even = RoundUp(features(), 2), pitch = RoundUp(features(), 16) + 16;
  query_features_ = TakeRows(type, kGrid, features(), pitch, scratch);
  key_features_ = TakeRows(type, kGrid, features(), pitch, scratch);
  transposed_keys_ = TakeRows(type, even, kGrid, kPitch, scratch);
  packed_keys_ = transposed_keys_.data;
  packed_values_ = TakeRows(type, kGrid, columns_, columns_, scratch).data;
  weights_ = {scratch.Take<float>(kTile * kPitch), kTile, kGrid, kPitch};
  kept_ = {DType::kF32, weights_.data, kTile, kGrid, kPitch};
  result_ = {scratch.Take<float>(kGrid * (columns_ + 16)), kGrid, columns_, columns_ + 16};
  divisors_ = scratch.Take<float>(kGrid);
  if (scaled()) {
    exponents_ = scratch.Take<float>(kGrid);
    peaks_ = scratch.Take<float>(kGrid);
    unused_ = scratch.Take<float>(kGrid);
  }
  if (!bf16()) return;
  packed_keys_ = TakeRows(type, even, kGrid, kPitch, scratch).data;
  rounded_memory_ = TakeRows(type, features(), columns_, columns_, scratch);
  packing_ = TakeRows(type, even, columns_, columns_, scratch).data;
  kept_ = TakeRows(type, kTile, kGrid, kPitch, scratch);
  // Tiles of AMX read pairs, and the last of an odd number of features is alone.
  if (features() % 2 == 1) std::memset(query_features_.data, 0, kGrid * pitch * SizeOf(type));
}

void LinearScan::Block::LoadQueries(const Rows& q) {
  queries_ = q.rows;
  scan_.Map(q, query_features_.Slice(0, q.rows), unused_, scratch_);
}

void LinearScan::Block::LoadKeys(const Rows& k, const Rows& v, float peak) {
  keys_ = k.rows;
  scan_.Map(k, key_features_.Slice(0, keys_), exponents_, scratch_);
  PackRows(v, 0, columns_, packed_values_);
  PackKeys();
  for (int64_t r = 0; scaled() && r < keys_; ++r) peaks_[r] = peak = std::max(peak, exponents_[r]);
}

void LinearScan::Block::PackKeys() {
  PackColumns(key_features_.Slice(0, keys_), 0, kPitch, packed_keys_);
  ClearBehindKeys();
  if (bf16()) UnpackPairs(packed_keys_, kPitch, transposed_keys_);
}

// Up to the next multiple of kPiece: products may sum over them.
void LinearScan::Block::ClearBehindKeys() {
  const int64_t end = RoundUp(keys_, kPiece), packed = bf16() ? RoundUp(keys_, 2) : keys_;
  const int64_t words = bf16() ? RoundUp(features(), 2) / 2 : features();
  for (int64_t w = 0; w < words; ++w) {
    uint32_t* row = static_cast<uint32_t*>(packed_keys_) + w * kPitch;
    std::fill(row + keys_, row + end, 0);
  }
  const int64_t bytes = columns_ * SizeOf(scan_.type_);
  std::memset(static_cast<char*>(packed_values_) + packed * bytes, 0, (end - packed) * bytes);
}

void LinearScan::Block::LoadMemory(const ScanMemory& memory) {
  const Matrix<const float> sums = memory.sums();
  packed_memory_ = sums.data;
  if (!bf16()) return;
  Convert({DType::kF32, const_cast<float*>(sums.data), sums.rows, sums.cols, sums.stride}, rounded_memory_);
  PackRows(rounded_memory_, 0, columns_, packing_);
  packed_memory_ = packing_;
}

void LinearScan::Block::AttendMemory(const ScanMemory& memory) {
  const int64_t rows = RoundRows(static_cast<int>(queries_));
  MicroKernel::Multiply(query_features_.Slice(0, rows), packed_memory_, columns_, result_);
  DotRows(query_features_.Slice(0, queries_), memory.norm(), divisors_);
}

// The keys' features, for the memory.
void LinearScan::Block::WeighKeys(float peak) {
  const ScratchFrame frame(scratch_);
  const Rows wide = TakeRows(DType::kF32, 1, features(), features(), scratch_);
  for (int64_t r = 0; r < keys_; ++r) {
    const Rows row = key_features_.Slice(r, 1);
    Convert(row, wide);
    Scale(std::exp(exponents_[r] - peak), wide.As<float>());
    Convert(wide, row);
  }
  PackKeys();
}

// After AttendMemory() of the memory as it is.
void LinearScan::Block::AttendBlock(const ScanMemory& memory) {
  if (scaled()) {
    for (int64_t r = 0; r < queries_; ++r) {
      const float share = std::exp(memory.peak() - peaks_[r]);
      Scale(share, result_.Rows(r, 1).Cols(0, columns_));
      divisors_[r] *= share;
    }
  }
  for (int64_t first = 0; first < queries_; first += kTile)
    AttendTile(first, std::min(kTile, queries_ - first));
}

void LinearScan::Block::AttendTile(int64_t first, int64_t count) {
  const int64_t rows = RoundRows(static_cast<int>(count)), columns = RoundUp(first + count, kPiece);
  const Matrix<float> weights = weights_.Cols(0, columns);
  MicroKernel::Multiply(query_features_.Slice(first, rows), packed_keys_, kPitch, weights);
  if (scaled())
    ScaleByExponents(weights.Rows(0, count), exponents_, std::min(keys_, first + count), peaks_ + first);
  KeepCausal(weights.Rows(0, count), first, kept_.Cols(0, columns), divisors_ + first);
  MicroKernel::Multiply(kept_.Slice(0, rows).Cols(0, columns), packed_values_, columns_,
                        result_.Rows(first, count), /*add=*/true);
}

void LinearScan::Block::Write(const Rows& out) const {
  const Matrix<const float> result = result_.Rows(0, queries_).Cols(0, out.cols);
  DivideRows(result, divisors_, static_cast<float>(scan_.options_.eps), out);
}

void LinearScan::Block::Remember(ScanMemory& memory) {
  if (scaled()) {
    memory.Raise(peaks_[keys_ - 1]);
    WeighKeys(memory.peak());
  }
  MicroKernel::Multiply(transposed_keys_.Slice(0, features()).Cols(0, RoundUp(keys_, kPiece)), packed_values_,
                        columns_, memory.sums(), /*add=*/true);
  AddColumnSums(key_features_.Slice(0, keys_), memory.norm());
  memory.Take(keys_);
}

LinearScan::LinearScan(DType type, Options options) : type_(type), options_(std::move(options)) {}

void LinearScan::Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  options_.feature_map(x, features, exponents, scratch);
}

void LinearScan::Extend(const Rows& q, const Rows& k, const Rows& v, ScanMemory& memory, const Rows& out,
                        Scratch& scratch) const {
  if (q.rows == 1 && memory.tokens() % kGrid != 0) return Step(q, k, v, memory, out, scratch);
  Block block(*this, scratch);
  for (int64_t row = 0, count; row < q.rows; row += count) {
    count = std::min(kGrid - memory.tokens() % kGrid, q.rows - row);
    block.LoadQueries(q.Slice(row, count));
    block.LoadKeys(k.Slice(row, count), v.Slice(row, count), memory.peak());
    block.LoadMemory(memory);
    block.AttendMemory(memory);
    block.AttendBlock(memory);
    block.Write(out.Slice(row, count));
    block.Remember(memory);
  }
}

void LinearScan::Remember(const Rows& k, const Rows& v, ScanMemory& memory, Scratch& scratch) const {
  Block block(*this, scratch);
  for (int64_t row = 0, count; row < k.rows; row += count) {
    count = std::min(kGrid - memory.tokens() % kGrid, k.rows - row);
    block.LoadKeys(k.Slice(row, count), v.Slice(row, count), memory.peak());
    block.Remember(memory);
  }
}

void LinearScan::Attend(const Rows& q, const ScanMemory& memory, const Rows& out, Scratch& scratch) const {
  Block block(*this, scratch);
  block.LoadMemory(memory);
  for (int64_t row = 0; row < q.rows; row += kGrid) {
    const int64_t count = std::min(kGrid, q.rows - row);
    block.LoadQueries(q.Slice(row, count));
    block.AttendMemory(memory);
    block.Write(out.Slice(row, count));
  }
}

// One row in f32, its features rounded to the type as those of a block are.
void LinearScan::Step(const Rows& q, const Rows& k, const Rows& v, ScanMemory& memory, const Rows& out,
                      Scratch& scratch) const {
  const Matrix<float> sums = memory.sums();
  const int64_t f = options_.features, columns = sums.cols;
  const Rows rounded = TakeRows(type_, 2, f, f, scratch);
  const Rows features = TakeRows(DType::kF32, 2, f, f, scratch);
  float exponents[2] = {0, 0};  // of the query, which cancels, and of the key
  Map(q, rounded.Slice(0, 1), exponents, scratch);
  Map(k, rounded.Slice(1, 1), exponents + 1, scratch);
  Convert(rounded, features);
  memory.Raise(exponents[1]);
  if (options_.scaled) Scale(std::exp(exponents[1] - memory.peak()), features.Slice(1, 1).As<float>());
  const Rows value = TakeRows(DType::kF32, 1, columns, columns, scratch);
  std::memset(value.data, 0, columns * sizeof(float));
  Convert(v, value.Cols(0, v.cols));
  float* result = scratch.Take<float>(columns);
  float divisor = 0;
  ScanStep(features.As<float>().row(0), features.As<float>().row(1), value.As<float>().data, sums, result);
  AddColumnSums(features.Slice(1, 1), memory.norm());
  DotRows(features.Slice(0, 1), memory.norm(), &divisor);
  DivideRows({result, 1, out.cols, columns}, &divisor, static_cast<float>(options_.eps), out);
  memory.Take(1);
  MicroKernel::CountCall(2 * f * columns);
}

// A block's buffers; a step needs less.
int64_t LinearScan::ScratchBytes() const {
  const int64_t size = SizeOf(type_), features = options_.features, columns = RoundUp(options_.head_dim, 16);
  const int64_t even = RoundUp(features, 2), pitch = RoundUp(features, 16) + 16;
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const auto numbers = [&](int64_t n) { return Scratch::Piece(n * size); };
  const int64_t always = 2 * numbers(kGrid * pitch) + numbers(even * kPitch) + numbers(kGrid * columns) +
                         floats(kTile * kPitch) + floats(kGrid * (columns + 16)) + floats(kGrid) +
                         (options_.scaled ? 3 * floats(kGrid) + floats(features) : 0) + options_.map_scratch;
  if (type_ != DType::kBf16) return always;
  return always + numbers(even * kPitch) + numbers(features * columns) + numbers(even * columns) +
         numbers(kTile * kPitch);
}

// The memory read and written, or one of them, and in the causal form the tiles of a block.
double LinearScan::RowCost(bool causal) const {
  const double features = static_cast<double>(options_.features),
               head_dim = static_cast<double>(options_.head_dim);
  if (!causal) return features * head_dim + options_.map_row_cost;
  return 2 * options_.map_row_cost + 2 * features * head_dim + (kGrid + kTile) / 2.0 * (features + head_dim);
}

}  // namespace heed
