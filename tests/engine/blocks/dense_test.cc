// The dense feed-forward beside its definition.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/blocks/definitions.h"

namespace heed {
namespace {

TEST(DenseFeedForward, IsItsDefinitionInEveryPrecision) {
  for (const char* act : {"relu", "gelu", "gelu_new", "silu", "tanh", "quick_gelu", "relu2", "swiglu",
                          "geglu", "reglu", "geglu_new", "clamped_glu"}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      const FeedForwardLayer layer(DenseExample(act), precision);
      const Numbers x = RandomInput(layer, 11), out = Pass(layer, x).out;
      for (int64_t r = 0; r < 11; ++r) {
        ExpectWithin(Dense(layer, "", RowOf(x, r, layer.width())), RowOf(out, r, layer.width()),
                     std::string(act) + " in " + std::string(Name(precision)));
      }
    }
  }
}

TEST(DenseFeedForward, MayHaveAnIntermediateSizeOfItsOwn) {
  const FeedForwardLayer layer(DenseExample(), Precision::kF32);
  const int64_t hidden = layer.example().hidden;
  EXPECT_TRUE(layer.New({{"type", "dense"}, {"intermediate_size", hidden}}).ok());
  const auto refused = layer.New({{"type", "dense"}, {"intermediate_size", hidden - 1}});
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("up.weight"));
}

TEST(DenseFeedForward, NeedsTheModelsIntermediateSize) {
  FeedForwardExample example = PkmExample();  // has none
  const FeedForwardLayer layer(example, Precision::kF32);
  for (const char* type : {"dense", "moe"}) {
    const auto refused =
        layer.New({{"type", type}, {"experts", type == std::string("moe") ? Json(2) : Json()}});
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("intermediate_size")) << type;
  }
}

}  // namespace
}  // namespace heed
