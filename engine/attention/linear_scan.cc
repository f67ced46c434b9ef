#include "engine/attention/linear_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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
// Distance between rows of a block's weights and packed features; no power of two.
constexpr int64_t kPitch = kGrid + 16;

constexpr int64_t Floats(int64_t n) { return Scratch::Piece(n * static_cast<int64_t>(sizeof(float))); }

Rows TakeRows(DType type, int64_t rows, int64_t cols, int64_t stride, Scratch& scratch) {
  return {type, scratch.Take<char>(rows * stride * SizeOf(type)), rows, cols, stride};
}

// Words of 32 bits, a float or a pair of bf16: the columns of `n` keys, up to the next multiple of kPiece.
void ClearBehindKeys(void* packed, int64_t words, int64_t n) {
  for (int64_t w = 0; w < words; ++w) {
    uint32_t* row = static_cast<uint32_t*>(packed) + w * kPitch;
    std::fill(row + n, row + RoundUp(n, kPiece), 0);
  }
}

}  // namespace

// A block of queries and what they find, divided by what cancels.
class LinearScan::Queries {
 public:
  Queries(const LinearScan& scan, const ScanSums& before, Scratch& scratch);
  static int64_t ScratchBytes(const LinearScan& scan);

  void Load(const Rows& q);
  void AttendBefore();
  void AttendBlock(const ScanBlock& block, const void* values);
  void Write(const Rows& out) const;

 private:
  void LoadBefore(Scratch& scratch);
  void ScaleToPeaks(const float* exponents);
  void AttendTile(int64_t first, const ScanBlock& block, const void* values);

  const LinearScan& scan_;
  const ScanSums before_;
  const int64_t columns_;
  int64_t count_ = 0;
  Rows features_;          // [kGrid, features]
  const void* memory_;     // B, [features, columns]
  Matrix<float> weights_;  // of one tile over its block
  Rows kept_;              // those not in the future, in the type; in f32 the same memory
  Matrix<float> result_;   // [kGrid, columns]
  float* divisors_;
  // Scaled: of a query, which cancels; of the largest key up to a row.
  float *exponents_ = nullptr, *peaks_ = nullptr;
  Scratch& scratch_;
};

LinearScan::Queries::Queries(const LinearScan& scan, const ScanSums& before, Scratch& scratch)
    : scan_(scan), before_(before), columns_(before.shape.columns()), scratch_(scratch) {
  const DType type = scan.type_;
  const int64_t features = scan.options_.features, pitch = scan.FeaturePitch();
  features_ = TakeRows(type, kGrid, features, pitch, scratch);
  weights_ = {scratch.Take<float>(kTile * kPitch), kTile, kGrid, kPitch};
  kept_ = {DType::kF32, weights_.data, kTile, kGrid, kPitch};
  result_ = {scratch.Take<float>(kGrid * (columns_ + 16)), kGrid, columns_, columns_ + 16};
  divisors_ = scratch.Take<float>(kGrid);
  if (scan.options_.scaled) {
    exponents_ = scratch.Take<float>(kGrid);
    peaks_ = scratch.Take<float>(kGrid);
  }
  memory_ = before.data;
  if (type != DType::kBf16) return;
  kept_ = TakeRows(type, kTile, kGrid, kPitch, scratch);
  LoadBefore(scratch);
  // Tiles of AMX read pairs, and the last of an odd number of features is alone.
  if (features % 2 == 1) std::memset(features_.data, 0, kGrid * pitch * SizeOf(type));
}

void LinearScan::Queries::LoadBefore(Scratch& scratch) {
  const int64_t features = before_.shape.features;
  const Rows rounded = TakeRows(scan_.type_, features, columns_, columns_, scratch);
  void* packed = TakeRows(scan_.type_, RoundUp(features, 2), columns_, columns_, scratch).data;
  Convert({DType::kF32, before_.data, features, columns_, columns_}, rounded);
  PackRows(rounded, 0, columns_, packed);
  memory_ = packed;
}

int64_t LinearScan::Queries::ScratchBytes(const LinearScan& scan) {
  const int64_t size = SizeOf(scan.type_), features = scan.options_.features,
                columns = scan.shape().columns();
  const auto numbers = [&](int64_t n) { return Scratch::Piece(n * size); };
  const int64_t always = numbers(kGrid * scan.FeaturePitch()) + Floats(kTile * kPitch) +
                         Floats(kGrid * (columns + 16)) + (scan.options_.scaled ? 3 : 1) * Floats(kGrid);
  if (scan.type_ != DType::kBf16) return always;
  return always + numbers(kTile * kPitch) + numbers(features * columns) +
         numbers(RoundUp(features, 2) * columns);
}

void LinearScan::Queries::Load(const Rows& q) {
  count_ = q.rows;
  scan_.Map(q, features_.Slice(0, count_), exponents_, scratch_);
}

void LinearScan::Queries::AttendBefore() {
  const int64_t rows = RoundRows(static_cast<int>(count_));
  MicroKernel::Multiply(features_.Slice(0, rows), memory_, columns_, result_);
  DotRows(features_.Slice(0, count_), before_.norm(), divisors_);
}

// After AttendBefore().
void LinearScan::Queries::AttendBlock(const ScanBlock& block, const void* values) {
  if (scan_.options_.scaled) ScaleToPeaks(block.exponents);
  for (int64_t first = 0; first < count_; first += kTile) AttendTile(first, block, values);
}

// What was before, as much as it counts beside the largest of the keys up to a row.
void LinearScan::Queries::ScaleToPeaks(const float* exponents) {
  float* shares = exponents_;  // of a query, which nobody asks for
  float peak = before_.peak();
  for (int64_t r = 0; r < count_; ++r) {
    peaks_[r] = peak = std::max(peak, exponents[r]);
    shares[r] = before_.peak() - peak;
  }
  ExpAtMostOne(shares, count_);
  const Rows result{DType::kF32, result_.data, count_, columns_, result_.stride};
  ScaleRows(result, shares, result);
  for (int64_t r = 0; r < count_; ++r) divisors_[r] *= shares[r];
}

void LinearScan::Queries::AttendTile(int64_t first, const ScanBlock& block, const void* values) {
  const int64_t count = std::min(kTile, count_ - first), rows = RoundRows(static_cast<int>(count));
  const int64_t columns = RoundUp(first + count, kPiece);
  const Matrix<float> weights = weights_.Cols(0, columns), own = weights.Rows(0, count);
  MicroKernel::Multiply(features_.Slice(first, rows), block.keys, kPitch, weights);
  if (scan_.options_.scaled) ScaleByExponents(own, first, block.exponents, peaks_ + first);
  KeepCausal(own, first, kept_.Cols(0, columns), divisors_ + first);
  MicroKernel::Multiply(kept_.Slice(0, rows).Cols(0, columns), values, columns_, result_.Rows(first, count),
                        /*add=*/true);
}

void LinearScan::Queries::Write(const Rows& out) const {
  const Matrix<const float> result = result_.Rows(0, count_).Cols(0, out.cols);
  DivideRows(result, divisors_, static_cast<float>(scan_.options_.eps), out);
}

LinearScan::LinearScan(DType type, Options options) : type_(type), options_(std::move(options)) {}

void LinearScan::Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  options_.feature_map(x, features, exponents, scratch);
}

int64_t LinearScan::FeaturePitch() const { return RoundUp(options_.features, 16) + 16; }

int64_t LinearScan::KeyBytes() const {
  const int64_t numbers = type_ == DType::kBf16 ? RoundUp(options_.features, 2) : options_.features;
  return Scratch::Piece(numbers * kPitch * SizeOf(type_));
}

int64_t LinearScan::BlockBytes() const {
  return Scratch::Piece(shape().bytes()) + KeyBytes() + (options_.scaled ? Floats(kGrid) : 0);
}

ScanBlock LinearScan::BlockAt(void* memory) const {
  char* keys = static_cast<char*>(memory) + Scratch::Piece(shape().bytes());
  float* exponents = options_.scaled ? reinterpret_cast<float*>(keys + KeyBytes()) : nullptr;
  return {{shape(), static_cast<float*>(memory)}, keys, exponents};
}

// B of a product that sums over keys, zeros up to the next multiple of kPiece.
const void* LinearScan::PackValues(const Rows& v, Scratch& scratch) const {
  const int64_t columns = shape().columns(), bytes = columns * SizeOf(type_);
  const Rows packed = TakeRows(type_, kGrid, columns, columns, scratch);
  PackRows(v, 0, columns, packed.data);
  const int64_t end = type_ == DType::kBf16 ? RoundUp(v.rows, 2) : v.rows;
  std::memset(static_cast<char*>(packed.data) + end * bytes, 0, (RoundUp(v.rows, kPiece) - end) * bytes);
  return packed.data;
}

// A of a product that sums over keys, [features, kGrid]: in f32 they lie there as B of one with queries.
Rows LinearScan::TurnKeys(void* keys, Scratch& scratch) const {
  if (type_ != DType::kBf16) return {type_, keys, options_.features, kGrid, kPitch};
  const Rows turned = TakeRows(type_, RoundUp(options_.features, 2), kGrid, kPitch, scratch);
  UnpackPairs(keys, kPitch, turned);
  return turned.Slice(0, options_.features);
}

// Scaled: values, and in the norm features, weigh as much as their key does beside the block's largest.
void LinearScan::Sum(const Rows& k, const Rows& v, const ScanBlock& block, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t n = k.rows;
  const Rows features = TakeRows(type_, n, options_.features, FeaturePitch(), scratch);
  Map(k, features, block.exponents, scratch);
  PackColumns(features, 0, kPitch, block.keys);
  ClearBehindKeys(block.keys, type_ == DType::kBf16 ? Quotient(features.cols, 2) : features.cols, n);
  Rows values = v;
  float* shares = nullptr;
  if (options_.scaled) {
    const float peak = *std::max_element(block.exponents, block.exponents + n);
    block.sums.SetPeak(peak);
    shares = scratch.Take<float>(kGrid);
    for (int64_t r = 0; r < n; ++r) shares[r] = block.exponents[r] - peak;
    ExpAtMostOne(shares, n);
    values = TakeRows(type_, n, v.cols, shape().columns(), scratch);
    ScaleRows(v, shares, values);
  }
  MicroKernel::Multiply(TurnKeys(block.keys, scratch).Cols(0, RoundUp(n, kPiece)),
                        PackValues(values, scratch), shape().columns(), block.sums.matrix());
  std::fill_n(block.sums.norm(), options_.features, 0.0f);
  AddColumnSums(features, block.sums.norm(), shares);
}

void LinearScan::AttendBlock(const Rows& q, const Rows& v, const ScanBlock& block, const Rows& out,
                             Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  Queries queries(*this, block.sums, scratch);
  queries.Load(q);
  queries.AttendBefore();
  queries.AttendBlock(block, PackValues(v, scratch));
  queries.Write(out);
}

void LinearScan::Extend(const Rows& q, const Rows& k, const Rows& v, ScanMemory& memory, const Rows& out,
                        Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  if (q.rows == 1 && memory.tokens() % kGrid != 0) return Step(q, k, v, memory, out, scratch);
  const ScanBlock block = BlockAt(scratch.Take<char>(BlockBytes()));
  for (int64_t row = 0, count; row < q.rows; row += count) {
    count = std::min(kGrid - memory.tokens() % kGrid, q.rows - row);
    const Rows values = v.Slice(row, count);
    Sum(k.Slice(row, count), values, block, scratch);
    memory.Take(count, block.sums);
    AttendBlock(q.Slice(row, count), values, block, out.Slice(row, count), scratch);
  }
}

void LinearScan::Remember(const Rows& k, const Rows& v, ScanMemory& memory, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const ScanBlock block = BlockAt(scratch.Take<char>(BlockBytes()));
  for (int64_t row = 0, count; row < k.rows; row += count) {
    count = std::min(kGrid - memory.tokens() % kGrid, k.rows - row);
    Sum(k.Slice(row, count), v.Slice(row, count), block, scratch);
    memory.Take(count, block.sums);
  }
}

void LinearScan::Attend(const Rows& q, const ScanMemory& memory, const Rows& out, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  Queries queries(*this, memory.sums(), scratch);
  for (int64_t row = 0; row < q.rows; row += kGrid) {
    const int64_t count = std::min(kGrid, q.rows - row);
    queries.Load(q.Slice(row, count));
    queries.AttendBefore();
    queries.Write(out.Slice(row, count));
  }
}

// One row in f32, its features rounded to the type as those of a block are.
void LinearScan::Step(const Rows& q, const Rows& k, const Rows& v, ScanMemory& memory, const Rows& out,
                      Scratch& scratch) const {
  const ScanSums sums = memory.sums();
  const int64_t f = options_.features, columns = sums.shape.columns();
  const Rows rounded = TakeRows(type_, 2, f, f, scratch);
  const Rows features = TakeRows(DType::kF32, 2, f, f, scratch);
  float exponents[2] = {0, 0};  // of the query, which cancels, and of the key
  Map(q, rounded.Slice(0, 1), exponents, scratch);
  Map(k, rounded.Slice(1, 1), exponents + 1, scratch);
  Convert(rounded, features);
  memory.TakeOne(exponents[1]);
  if (options_.scaled) Scale(std::exp(exponents[1] - sums.peak()), features.Slice(1, 1).As<float>());
  const Rows value = TakeRows(DType::kF32, 1, columns, columns, scratch);
  std::memset(value.data, 0, columns * sizeof(float));
  Convert(v, value.Cols(0, v.cols));
  float* result = scratch.Take<float>(columns);
  float divisor = 0;
  ScanStep(features.As<float>().row(0), features.As<float>().row(1), value.As<float>().data, sums.matrix(),
           result);
  AddColumnSums(features.Slice(1, 1), sums.norm());
  DotRows(features.Slice(0, 1), sums.norm(), &divisor);
  DivideRows({result, 1, out.cols, columns}, &divisor, static_cast<float>(options_.eps), out);
  MicroKernel::CountCall(2 * f * columns);
}

// Adding up a block or attending from it, beside what it hands on; a step needs less.
int64_t LinearScan::ScratchBytes() const {
  const int64_t size = SizeOf(type_), columns = shape().columns();
  const auto numbers = [&](int64_t n) { return Scratch::Piece(n * size); };
  const int64_t values = numbers(kGrid * columns);
  const int64_t summing = numbers(kGrid * FeaturePitch()) + values +
                          (type_ == DType::kBf16 ? KeyBytes() : 0) +
                          (options_.scaled ? Floats(kGrid) + values : 0);
  return BlockBytes() + options_.map_scratch + std::max(summing, Queries::ScratchBytes(*this) + values);
}

// The memory read and written, or one of them, and in the causal form the tiles of a block.
double LinearScan::RowCost(bool causal) const {
  const double features = static_cast<double>(options_.features),
               head_dim = static_cast<double>(options_.head_dim);
  if (!causal) return features * head_dim + options_.map_row_cost;
  return 2 * options_.map_row_cost + 2 * features * head_dim + (kGrid + kTile) / 2.0 * (features + head_dim);
}

}  // namespace heed
