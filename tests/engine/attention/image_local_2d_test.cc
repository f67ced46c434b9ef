// The work and the state that `image_local_2d` promises.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/attention/key_value_pages.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

struct Image {
  int64_t height, width, h, w, above, aside;  // h x w: a query block
};

AttentionExample Example(const Image& o) {
  return {"image_local_2d",
          Cat(R"({"height": )", o.height, R"(, "width": )", o.width, R"(, "query_block": [)", o.h, ", ", o.w,
              R"(], "memory": [)", o.above, ", ", o.aside, "]}"),
          Place::kDecoder, 64, 4};
}

// Of each block: how many pixels it has, and the pieces of 32 keys in which one of them sees any.
struct Block {
  int64_t pixels = 0;
  std::set<int64_t> pieces;
};

std::map<std::pair<int64_t, int64_t>, Block> Blocks(const Image& o) {
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> pixels;
  for (int64_t row = 0; row < o.height; ++row) {
    for (int64_t column = 0; column < o.width; ++column)
      pixels[{row / o.h, column / o.w}].emplace_back(row, column);
  }
  std::map<std::pair<int64_t, int64_t>, Block> blocks;
  for (const auto& [number, own] : pixels) {
    const int64_t top = number.first * o.h - o.above, left = number.second * o.w - o.aside;
    Block& block = blocks[number];
    block.pixels = std::ssize(own);
    int64_t place = 0;
    for (const auto& [other, keys] : pixels) {
      for (const auto& [row, column] : keys) {
        const bool near = row >= top && column >= left && column < left + o.w + 2 * o.aside;
        if (near && other <= number) block.pieces.insert(place / 32);
        ++place;
      }
    }
  }
  return blocks;
}

// Pieces in which a block sees nothing are not read, others once, whether the blocks divide the memory and
// the image or not.
TEST(ImageLocal2d, ComputesThePiecesThatABlockSeesAndNoOthers) {
  for (const Image& o :
       {Image{64, 64, 8, 16, 8, 16}, Image{64, 64, 8, 16, 2, 5}, Image{20, 40, 8, 16, 11, 16},
        Image{24, 24, 4, 4, 2, 3}, Image{20, 56, 8, 16, 0, 40}, Image{40, 40, 8, 8, 40, 0}}) {
    const Layer layer(Example(o), Precision::kF32);
    const int64_t before = MicroKernel::MultiplyAdds();
    Whole(layer, o.height * o.width);
    int64_t expected = 0;
    for (const auto& [number, block] : Blocks(o))
      expected += block.pixels * 32 * std::ssize(block.pieces) * 2 * 64;
    EXPECT_EQ(MicroKernel::MultiplyAdds() - before, expected) << layer.example().options;
  }
}

TEST(ImageLocal2d, WorkGrowsWithThePixelsNotWithTheirSquare) {
  const auto cost = [](int64_t side) {
    const Layer layer(Example({side, side, 8, 16, 8, 16}), Precision::kF32);
    return layer.attention().Cost(side * side, side * side);
  };
  EXPECT_NEAR(cost(1024) / cost(512), 4, 0.1);
  EXPECT_LE(cost(1024), (8 * 48 + 128 + 128) * 1024.0 * 1024 * 2 * 64);
}

// A block of rows at hand and the memory above it, in pages of 128 pixels.
TEST(ImageLocal2d, HoldsTheLastRowsOfTheImage) {
  for (const Image& o :
       {Image{64, 64, 8, 16, 8, 16}, Image{96, 40, 4, 4, 8, 3}, Image{64, 50, 8, 16, 0, 0}}) {
    const Layer layer(Example(o), Precision::kF32);
    const int64_t n = o.height * o.width, page = 4 * KeyValuePages::Bytes(DType::kF32, 16, 0, 1);
    const int64_t most = ((o.h + o.above) * o.width + 127) / 128 * page + page;
    const auto run = layer.attention().Start();
    Passage passage(layer, n);
    for (int64_t begin = 0; begin < n; begin += 20) {
      passage.Extend(*run, begin, std::min(n, begin + 20));
      ASSERT_LE(Measured(*run), most) << layer.example().options << " after " << begin;
    }
    EXPECT_LE(layer.attention().StateBytes(n), most + page) << layer.example().options;
    EXPECT_EQ(layer.attention().StateBytes(n), layer.attention().StateBytes(n / 2));
  }
}

// A decoding step is one row of one block: one task a head.
TEST(ImageLocal2d, AStepReadsItsMemoryAlone) {
  const Layer layer(Example({64, 64, 8, 16, 8, 16}), Precision::kF32);
  const auto run = layer.attention().Start();
  Passage passage(layer, 64 * 64);
  passage.Extend(*run, 0, 64 * 64 - 1);
  const int64_t before = MicroKernel::MultiplyAdds();
  passage.Extend(*run, 64 * 64 - 1, 64 * 64);
  EXPECT_EQ(MicroKernel::MultiplyAdds() - before, (8 * 32 + 8 * 32) * 2 * 64);
}

}  // namespace
}  // namespace heed
