// The state that `axial` promises: memory follows the pixels, however many tracks they lie in.
#include <string>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

TEST(Axial, ColumnsHoldAtMostTwiceTheKeysAndValuesOfTheirPixels) {
  const AttentionExample example{"axial", R"({"axis": "column", "height": 40, "width": 256})",
                                 Place::kDecoder, 64, 4};
  const Layer layer(example, Precision::kF32);
  const auto run = layer.attention().Start();
  Passage passage(layer, 1000);
  for (int64_t begin = 0; begin < 1000; begin += 50) {
    passage.Extend(*run, begin, begin + 50);
    const int64_t rows = (begin + 50) * 2 * 64 * SizeOf(DType::kF32);
    EXPECT_LE(Measured(*run), 8 + 2 * rows) << begin + 50;
    EXPECT_EQ(Measured(*run), layer.attention().StateBytes(begin + 50));
  }
}

}  // namespace
}  // namespace heed
