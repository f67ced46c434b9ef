#include "engine/attention/iterative_inverse.h"

#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace heed {
namespace {

// Rows of positive weights that sum to one, the diagonal's by far the largest.
std::vector<float> Matrix(int64_t size) {
  std::mt19937 random(5);
  std::vector<float> a(size * size);
  for (int64_t i = 0; i < size; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < size; ++j) {
      a[i * size + j] = static_cast<float>(random() % 1000 + 1) / static_cast<float>(1000 * size);
      if (i == j) a[i * size + j] += 2;
      sum += a[i * size + j];
    }
    for (int64_t j = 0; j < size; ++j) a[i * size + j] /= sum;
  }
  return a;
}

// Its steps by so many rows at a time, the last of them first.
std::vector<float> Inverse(const std::vector<float>& a, int64_t size, int64_t rows) {
  const IterativeInverse inverse(size);
  std::vector<float> work(inverse.Bytes() / 4), result(size * size);
  const heed::Matrix<float> negative = inverse.Negative(work.data());
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < negative.cols; ++j) negative.row(i)[j] = j < size ? -a[i * size + j] : 0;
  }
  Scratch scratch;
  for (int step = 0; step < IterativeInverse::kSteps; ++step) {
    for (int64_t first = (size - 1) / rows * rows; first >= 0; first -= rows) {
      inverse.Do(step, first, std::min(rows, size - first), work.data(), scratch);
      scratch.Reset();
    }
  }
  for (int64_t i = 0; i < size; ++i)
    std::memcpy(&result[i * size], inverse.Result(work.data()).row(i), size * 4);
  return result;
}

TEST(IterativeInverse, TimesTheMatrixIsOne) {
  for (int64_t size : {1, 2, 31, 64, 150}) {
    const std::vector<float> a = Matrix(size), z = Inverse(a, size, size);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < size; ++k) sum += a[i * size + k] * z[k * size + j];
        ASSERT_NEAR(sum, i == j ? 1 : 0, 1e-5) << size << ": " << i << ", " << j;
      }
    }
  }
}

TEST(IterativeInverse, IsTheSameBitsHoweverItsStepsAreCut) {
  for (int64_t size : {37, 150}) {
    const std::vector<float> a = Matrix(size), whole = Inverse(a, size, size);
    for (int64_t rows : {1, 8, 29, 128}) EXPECT_EQ(Inverse(a, size, rows), whole) << size << " by " << rows;
  }
}

}  // namespace
}  // namespace heed
