#include "engine/attention/block_matrix.h"

#include <vector>

#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/random_rows.h"

namespace heed {
namespace {

std::vector<DType> Types() {
  std::vector<DType> types = {DType::kF32};
  if (HasMicroKernel(DType::kBf16)) types.push_back(DType::kBf16);
  return types;
}

// Rows of tokens that a matrix has taken in, some at a time.
struct Filled {
  Filled(DType type, int64_t head_dim, int64_t block, int64_t tokens, int64_t at_once)
      : keys(OwnedRows::Random(type, tokens, head_dim, 1)),
        values(OwnedRows::Random(type, tokens, head_dim, 2)),
        matrix(type, head_dim, block) {
    for (int64_t first = 0; first < tokens; first += at_once) Take(first, std::min(at_once, tokens - first));
  }
  void Take(int64_t first, int64_t count) {
    matrix.Grow(count);
    for (int64_t page = first / matrix.page_tokens(); page * matrix.page_tokens() < first + count; ++page)
      matrix.Write(page, first, keys.rows().Slice(first, count), values.rows().Slice(first, count));
  }
  OwnedRows keys, values;
  BlockMatrix matrix;
};

// Mixtures of the first `blocks`.
std::vector<float> Mixed(const BlockMatrix& matrix, const OwnedRows& weights, int64_t first, int64_t mixtures,
                         int64_t blocks) {
  std::vector<float> mixed((mixtures + 8) * matrix.mixed_columns());
  matrix.Mix(weights.rows().Slice(first, mixtures).Cols(0, blocks),
             {mixed.data(), mixtures, matrix.mixed_columns(), matrix.mixed_columns()});
  mixed.resize(mixtures * matrix.mixed_columns());
  return mixed;
}

// Zeros beyond the blocks, and rows that nobody looks at.
OwnedRows Weights(DType type, int64_t mixtures, int64_t blocks, const BlockMatrix& matrix) {
  const int64_t pitch = (blocks + matrix.page_blocks()) / matrix.page_blocks() * matrix.page_blocks();
  OwnedRows weights(type, mixtures + 8, pitch);
  const OwnedRows random = OwnedRows::Random(type, mixtures, blocks, 3);
  for (int64_t i = 0; i < mixtures; ++i) {
    for (int64_t j = 0; j < blocks; ++j) weights.Set(i, j, static_cast<float>(random.At(i, j)));
  }
  return weights;
}

TEST(BlockMatrix, MixturesAreSumsOfBlocksTokenByToken) {
  for (DType type : Types()) {
    for (int64_t block : {1, 7, 64, 300}) {
      for (int64_t head_dim : {8, 40, 64}) {
        const int64_t blocks = 11, tokens = blocks * block - block / 2;  // the last block is short
        for (int64_t at_once : {tokens, int64_t{37}, int64_t{1}}) {
          const Filled filled(type, head_dim, block, tokens, at_once);
          const OwnedRows weights = Weights(type, 3, blocks, filled.matrix);
          const std::vector<float> mixed = Mixed(filled.matrix, weights, 0, 3, blocks);
          const int64_t width = filled.matrix.width();
          for (int64_t i = 0; i < 3 * block * head_dim; ++i) {
            const int64_t mixture = i / (block * head_dim), token = i / head_dim % block, c = i % head_dim;
            double key = 0, value = 0;
            for (int64_t j = 0; j < blocks && j * block + token < tokens; ++j) {
              key += weights.At(mixture, j) * filled.keys.At(j * block + token, c);
              value += weights.At(mixture, j) * filled.values.At(j * block + token, c);
            }
            const float* row = mixed.data() + mixture * filled.matrix.mixed_columns();
            ASSERT_NEAR(row[token * width + c], key, 1e-4) << block << " tokens, " << at_once << " at once";
            ASSERT_NEAR(row[(block + token) * width + c], value, 1e-4);
          }
        }
      }
    }
  }
}

// Alone it may be made by hand.
TEST(BlockMatrix, AMixtureIsTheSameBitsInAnyCompanyAndWithZerosAfterIt) {
  for (DType type : Types()) {
    for (int64_t head_dim : {16, 32, 64}) {
      const Filled filled(type, head_dim, 20, 20 * 300, 20 * 300);
      const OwnedRows weights = Weights(type, 20, 150, filled.matrix);
      const std::vector<float> together = Mixed(filled.matrix, weights, 0, 20, 150);
      for (int64_t i = 0; i < 20; ++i) {
        const std::vector<float> alone = Mixed(filled.matrix, weights, i, 1, 150);
        const auto begin = together.begin() + i * std::ssize(alone);
        EXPECT_EQ(alone, std::vector<float>(begin, begin + std::ssize(alone))) << i;
      }
      OwnedRows longer(type, 28, 300 + filled.matrix.page_blocks());
      for (int64_t i = 0; i < 20 * 150; ++i)
        longer.Set(i / 150, i % 150, static_cast<float>(weights.At(i / 150, i % 150)));
      EXPECT_EQ(Mixed(filled.matrix, longer, 0, 20, 300), together);
    }
  }
}

TEST(BlockMatrix, ACopyGoesItsOwnWay) {
  Filled filled(DType::kF32, 16, 10, 1000, 1000);
  filled.matrix.Grow(1);
  const OwnedRows weights = Weights(DType::kF32, 1, 101, filled.matrix);
  filled.matrix.Write(1000 / filled.matrix.page_tokens(), 1000, filled.keys.rows().Slice(0, 1),
                      filled.values.rows().Slice(0, 1));
  const std::vector<float> before = Mixed(filled.matrix, weights, 0, 1, 101);
  BlockMatrix copy = filled.matrix;
  copy.Grow(1);
  copy.Write(1000 / copy.page_tokens(), 1001, filled.keys.rows().Slice(0, 1),
             filled.values.rows().Slice(0, 1));
  EXPECT_EQ(Mixed(filled.matrix, weights, 0, 1, 101), before);
  EXPECT_NE(Mixed(copy, weights, 0, 1, 101), before);
}

}  // namespace
}  // namespace heed
