#include "engine/attention/iterative_inverse.h"

#include <algorithm>
#include <utility>

#include "engine/base/round.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/scan.h"
#include "engine/ops/softmax.h"

namespace heed {
namespace {

Rows AsRows(Matrix<float> x) { return {DType::kF32, x.data, x.rows, x.cols, x.stride}; }

// x += factor I; `first`: the column of row 0's diagonal.
void AddDiagonal(float factor, int64_t first, Matrix<float> x) {
  for (int64_t r = 0; r < x.rows; ++r) x.row(r)[first + r] += factor;
}

}  // namespace

// No distance is a power of two, so that rows do not meet in one cache set.
IterativeInverse::IterativeInverse(int64_t size)
    : size_(size), columns_(RoundUp(size, kSoftmaxPiece)), stride_(columns_ + 16) {}

int64_t IterativeInverse::Bytes() const { return kPlaces * size_ * stride_ * SizeOf(DType::kF32); }

int64_t IterativeInverse::ScratchBytes() const { return Scratch::Piece(size_ * SizeOf(DType::kF32)); }

Matrix<float> IterativeInverse::At(float* work, int place) const {
  return {work + place * size_ * stride_, size_, columns_, stride_};
}

void IterativeInverse::Do(int step, int64_t first, int64_t count, float* work, Scratch& scratch,
                          float divisor) const {
  if (step > 0) return Round((step - 1) / 4, (step - 1) % 4, first, count, work);
  Start(first, count, work, divisor != 0 ? divisor : LargestColumnSum(work, scratch));
}

float IterativeInverse::LargestColumnSum(float* work, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  float* sums = scratch.Take<float>(size_);
  std::fill_n(sums, size_, 0.0f);
  AddColumnSums(AsRows(Negative(work)).Cols(0, size_), sums);
  return -*std::min_element(sums, sums + size_);
}

void IterativeInverse::Start(int64_t first, int64_t count, float* work, float divisor) const {
  const Rows negative = AsRows(Negative(work)).Cols(0, size_);
  const Matrix<float> start = At(work, kInverse).Rows(first, count);
  for (int64_t r = 0; r < count; ++r) std::fill(start.row(r) + size_, start.row(r) + columns_, 0.0f);
  PackColumns(negative.Cols(first, count), 0, stride_, start.data);
  Scale(-1 / divisor, start);
}

// With P = -A Z, and a quarter taken out of each term, which is exact:
//   T = 7/4 I + P / 4,  U = 15/4 I + P T,  T = 13/4 I + P U,  Z = Z T
// U and the new Z lie where the old Z of the round before was.
void IterativeInverse::Round(int round, int step, int64_t first, int64_t count, float* work) const {
  Matrix<float> z = At(work, kInverse), other = At(work, kOther);
  if (round % 2 == 1) std::swap(z, other);
  const auto rows = [&](Matrix<float> x) { return x.Rows(first, count); };
  const Matrix<float> product = At(work, kProduct), term = At(work, kTerm);
  const auto multiply = [&](Matrix<float> a, Matrix<float> b, Matrix<float> c) {
    MicroKernel::Multiply(AsRows(rows(a)).Cols(0, size_), b.data, stride_, rows(c));
  };
  switch (step) {
    case 0:
      multiply(Negative(work), z, product);
      Convert(AsRows(rows(product)), AsRows(rows(term)));
      Scale(0.25f, rows(term));
      return AddDiagonal(1.75f, first, rows(term));
    case 1:
      multiply(product, term, other);
      return AddDiagonal(3.75f, first, rows(other));
    case 2:
      multiply(product, other, term);
      return AddDiagonal(3.25f, first, rows(term));
    case 3:
      return multiply(z, term, other);
  }
}

}  // namespace heed
