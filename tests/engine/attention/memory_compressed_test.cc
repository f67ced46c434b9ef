// `memory_compressed` around the edges of its slots, against its definition; its state and its work.
#include <map>
#include <string>
#include <vector>

#include "engine/base/round.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

// Rows before, in and after a slot, in and after a page of them; a last slot that is not whole.
TEST(MemoryCompressed, IsTheDefinition) {
  for (const AttentionExample& example : ExamplesOf("memory_compressed")) {
    const Layer layer(example, Precision::kF32);
    for (int64_t n : {1, 2, 22, 1027}) {
      ExpectDefinition(Whole(layer, n), {0, 1, 2, 3, 4, 6, 7, 8, 20, 21, 379, 380, 381, 507, 508, 510, 1026});
    }
  }
}

// Many slots attend part by part.
TEST(MemoryCompressed, StepsOfManySlotsAreTheWhole) {
  const Layer layer({"memory_compressed", R"({"stride": 2, "compression": "max"})", Place::kDecoder, 16, 2},
                    Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5);
}

// The products of a page of slots are too many for a task: several stages share them.
TEST(MemoryCompressed, ALongConvolutionIsDoneInStages) {
  const Layer layer({"memory_compressed", R"({"stride": 250})", Place::kDecoder, 192, 1}, Precision::kF32);
  constexpr int64_t kTokens = 32 * 250 + 1;  // the last slot is the second stage's
  EXPECT_EQ(std::ssize(Passage(layer, kTokens).Plan(*layer.attention().Start())), 4 + 1);
  ExpectDefinition(Whole(layer, kTokens), {kTokens - 1}, {.bounds = 2});
}

TEST(MemoryCompressed, AStepIsOneStage) {
  for (const AttentionExample& example : DecodersOf("memory_compressed")) {
    const Layer layer(example, Precision::kF32);
    EXPECT_EQ(std::ssize(Passage(layer, 1).Plan(*layer.attention().Start())), 1);
  }
}

// Of the rows of a slot that is not whole, their sum is all that is kept, however long the stride.
TEST(MemoryCompressed, KeepsNoRows) {
  const auto bytes = [](int64_t stride) {
    const Layer layer(
        {"memory_compressed", Cat(R"({"compression": "mean", "stride": )", stride, "}"), Place::kDecoder},
        Precision::kF32);
    return layer.attention().StateBytes(100);
  };
  EXPECT_EQ(bytes(3), bytes(1000));
}

TEST(MemoryCompressed, CostsWhatItSeesAndFolds) {
  for (const AttentionExample& example : ExamplesOf("memory_compressed")) {
    const Layer layer(example, Precision::kF32);
    constexpr int64_t kTokens = 500;
    const auto width = static_cast<double>(example.width);
    const int64_t stride = layer.options()["stride"];
    double pairs = kTokens;
    for (int64_t i = 0; i < kTokens; ++i) pairs += layer.causal() ? i / stride : Quotient(kTokens, stride);
    const bool conv = layer.options().value("compression", "conv") == "conv";
    const double folded = kTokens * 2 * width * (conv ? width : 1);
    EXPECT_DOUBLE_EQ(layer.attention().Cost(kTokens, kTokens), 2 * width * pairs + folded) << example.options;
  }
}

TEST(MemoryCompressed, RefusesWhatCannotBe) {
  const Layer layer(ExamplesOf("memory_compressed").front(), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(
      layer, WeightScope(*weights),
      {{Place::kDecoder, "{}", {"layers[0].attention", "stride is missing"}},
       {Place::kDecoder, R"({"stride": 0})", {"stride", "0", "below 1"}},
       {Place::kDecoder, R"({"stride": 3, "compression": "median"})", {"compression", "median", "conv"}},
       {Place::kCross, R"({"stride": 3})", {"no cross-attention"}}});
  ExpectRefused(layer, layer.scope(),
                {{Place::kDecoder, R"({"stride": 4})", {"compress_k.weight", "[32, 32, 3]", "[32, 32, 4]"}}});
  for (const char* missing : {"null_k", "null_v", "compress_k.bias", "compress_v.weight"}) {
    std::map<std::string, Tensor> others = layer.tensors();
    ASSERT_EQ(others.erase(missing), 1u);
    const auto scarce = Weights::Of(others);
    ExpectRefused(layer, WeightScope(*scarce), {{Place::kDecoder, R"({"stride": 3})", {missing}}});
  }
}

}  // namespace
}  // namespace heed
