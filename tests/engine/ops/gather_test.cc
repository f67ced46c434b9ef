#include "engine/ops/gather.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

// y before, of any number of columns, with rows of the table f32 or bf16.
TEST(AddWeightedRows, IsTheSumInOrder) {
  Random random(5);
  for (int64_t cols : {1, 15, 16, 17, 200, 3000}) {
    std::vector<float> table = random.Normals(20 * cols), y = random.Normals(cols);
    std::vector<Bf16> halves = ToBf16s(table);
    const std::vector<int32_t> rows = {3, 19, 0, 3, 7};
    const std::vector<float> weights = random.Normals(5);
    std::vector<float> of_floats = y, of_halves = y;
    AddWeightedRows(View(table, 20), rows, weights.data(), of_floats.data());
    AddWeightedRows(View(halves, 20), rows, weights.data(), of_halves.data());
    for (int64_t c = 0; c < cols; ++c) {
      float floats = y[c], shorter = y[c];
      for (size_t i = 0; i < rows.size(); ++i) {
        floats = std::fma(weights[i], table[rows[i] * cols + c], floats);
        shorter = std::fma(weights[i], ToFloat(halves[rows[i] * cols + c]), shorter);
      }
      EXPECT_EQ(of_floats[c], floats) << c << " of " << cols;
      EXPECT_EQ(of_halves[c], shorter) << c << " of " << cols;
    }
  }
}

TEST(AddWeightedRows, AColumnIsTheSameBitsWithAnyOthers) {
  Random random(6);
  std::vector<float> table = random.Normals(4 * 100), whole(100, 0.5f), part(100, 0.5f);
  const std::vector<int32_t> rows = {2, 1};
  const std::vector<float> weights = {0.3f, -1.7f};
  AddWeightedRows(View(table, 4), rows, weights.data(), whole.data());
  for (int64_t begin : {0, 33, 40}) {
    const int64_t end = begin == 0 ? 33 : begin == 33 ? 40 : 100;
    AddWeightedRows(View(table, 4).Cols(begin, end - begin), rows, weights.data(), part.data() + begin);
  }
  EXPECT_EQ(part, whole);
}

TEST(AddWeightedRows, OfNoRowsIsNothing) {
  std::vector<float> table(10), y = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::vector<float> before = y;
  AddWeightedRows(View(table, 1), {}, nullptr, y.data());
  EXPECT_EQ(y, before);
}

}  // namespace
}  // namespace heed
