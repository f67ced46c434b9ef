// Every type against its definition, in f32: all examples, from one row to many blocks of rows.
#include "tests/engine/attention/definitions.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace heed {
namespace {

TEST(Definitions, EveryTypeHasOne) {
  std::set<std::string> without;
  for (std::string_view type : AttentionTypes()) without.insert(std::string(type));
  for (const AttentionExample& example : AttentionExamples()) {
    const Layer layer(example, Precision::kF32);
    if (DefinitionOf(Passage(layer, 1), 0)) without.erase(example.type);
  }
  EXPECT_EQ(without, std::set<std::string>());
}

// Rows around the edges of what tiles, pages, parts and pieces of keys have.
TEST(Definitions, AreTheRowsOfEveryExample) {
  for (const AttentionExample& example : AttentionExamples()) {
    const Layer layer(example, Precision::kF32);
    for (int64_t n : {1, 21, 150, 620}) {
      ExpectDefinition(Whole(layer, n), {0,   1,   7,   11,  15,  16,  31,  32,  63,  64,  99,  100, 127,
                                         128, 149, 150, 255, 256, 281, 300, 499, 500, 511, 512, 618, 619});
    }
  }
}

}  // namespace
}  // namespace heed
