// `sinkhorn` against its definition in every form; its work, what it keeps, what it refuses.
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Sorted(const std::string& options, Place place) {
  return {"sinkhorn", options, place, 32, 2};
}

void ExpectTheDefinition(const AttentionExample& example, std::initializer_list<int64_t> lengths,
                         double bounds = 1) {
  const Layer layer(example, Precision::kF32);
  for (int64_t n : lengths) ExpectDefinition(Whole(layer, n), AllRows(n), {.bounds = bounds});
}

TEST(Sinkhorn, IsTheDefinitionWithEveryOption) {
  for (const AttentionExample& example : ExamplesOf("sinkhorn"))
    ExpectTheDefinition(example, {1, 24, 25, 26, 64, 150, 350});
}

TEST(Sinkhorn, IsTheDefinitionInEveryForm) {
  for (const char* options :
       {R"({"block": 1, "max_blocks": 100})", R"({"block": 6, "max_blocks": 40, "temperature": 3})",
        R"({"block": 6, "max_blocks": 40, "two_softmax": true, "iterations": 1})",
        R"({"block": 130, "max_blocks": 40, "two_softmax": true})",
        R"({"block": 6, "max_blocks": 40, "iterations": 0, "temperature": 100})",
        R"({"block": 6, "max_blocks": 40, "sort_cut": 0, "two_softmax": true})"}) {
    for (Place place : {Place::kDecoder, Place::kEncoder}) {
      ExpectTheDefinition(Sorted(options, place), {1, 5, 6, 7, 100});
    }
  }
  for (const char* options : {R"({"block": 6, "max_blocks": 40, "sort_cut": 1})",
                              R"({"block": 8, "max_blocks": 40, "sort_cut": 5000, "two_softmax": true})"}) {
    ExpectTheDefinition(Sorted(options, Place::kEncoder), {1, 5, 7, 8, 100, 240});
  }
}

// Balancing is by logarithms: sums of many keys, or a low temperature, make scores far apart.
TEST(Sinkhorn, ScoresFarApartAreBalancedToo) {
  const std::string options = R"({"block": 8, "max_blocks": 40, "temperature": 0.02})";
  for (Place place : {Place::kDecoder, Place::kEncoder})
    ExpectTheDefinition(Sorted(options, place), {100, 300}, 100);
}

// What n tokens of 2 heads of 16 cost: pairs in their own and in sorted blocks, and mixtures of whole blocks.
TEST(Sinkhorn, WorkIsThatOfBlocksAndOfTheirMixtures) {
  constexpr int64_t kBlock = 64, kLength = 2048, kBlocks = kLength / kBlock;
  const std::string options = R"({"block": 64, "max_blocks": 64})";
  for (Place place : {Place::kDecoder, Place::kEncoder}) {
    const Layer layer(Sorted(options, place), Precision::kF32);
    const int64_t work = MultiplyAddsOf(layer, kLength);
    int64_t mixed = 0;
    for (int64_t i = 0; i < kBlocks; ++i) mixed += layer.causal() ? RoundUp(i + 1, 16) : kBlocks;
    EXPECT_LE(work, 2 * (kLength * 2 * kBlock + mixed * kBlock) * 2 * 16) << options;
    EXPECT_LE(static_cast<double>(work), 2 * layer.attention().Cost(kLength, kLength));
  }
}

TEST(Sinkhorn, AStepMixesBlocksOnlyWhenABlockBegins) {
  const Layer layer(Sorted(R"({"block": 64, "max_blocks": 64})", Place::kDecoder), Precision::kF32);
  Passage passage(layer, 1026);
  const auto run = layer.attention().Start();
  passage.Extend(*run, 0, 1023);
  const auto work = [&](int64_t token) {
    const int64_t before = MicroKernel::MultiplyAdds();
    passage.Extend(*run, token, token + 1);
    return MicroKernel::MultiplyAdds() - before;
  };
  EXPECT_LE(work(1023), 2 * 2 * 64 * 2 * 16);
  const int64_t mixes = work(1024);
  EXPECT_GE(mixes, 2 * 1024 * 2 * 16) << "16 blocks of 64 keys and values";
  EXPECT_LE(mixes, 2 * (1024 + 2 * 64) * 2 * 16);
  EXPECT_LE(work(1025), 2 * 2 * 64 * 2 * 16);
}

TEST(Sinkhorn, ReadsAsManyTokensAsItHasBlocks) {
  const Layer layer(Sorted(R"({"block": 6, "max_blocks": 40})", Place::kDecoder), Precision::kF32);
  EXPECT_EQ(layer.attention().max_tokens(), 240);
}

TEST(Sinkhorn, AnEncoderHoldsNothingAfterItsRows) {
  const Layer layer(Sorted(R"({"block": 6, "max_blocks": 40})", Place::kEncoder), Precision::kF32);
  const auto run = layer.attention().Start();
  Passage passage(layer, 200);
  const int64_t before = LastingMemory::Bytes(), most = MostWhileAttending(passage, *run);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, layer.attention().StateBytes(200));
  EXPECT_EQ(LastingMemory::Bytes(), before);
}

TEST(Sinkhorn, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"max_blocks": 40})", {"layers[0].attention", "block"}},
      {Place::kDecoder, R"({"block": 0, "max_blocks": 40})", {"block", "0", "1"}},
      {Place::kDecoder, R"({"block": 6})", {"max_blocks"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 5000})", {"max_blocks", "5000", "4096"}},
      {Place::kDecoder,
       R"({"block": 6, "max_blocks": 4096})",
       {"max_blocks", "4096", "5 iterations", "67108864"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 40, "iterations": -1})", {"iterations", "-1", "0"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 40, "temperature": 0})", {"temperature", "0"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 40, "sort_cut": 2})", {"sort_cut", "2", "decoder"}},
      {Place::kEncoder, R"({"block": 6, "max_blocks": 40, "sort_cut": -1})", {"sort_cut", "-1", "0"}},
      {Place::kCross, R"({"block": 6, "max_blocks": 40})", {"cross-attention"}},
      {Place::kDecoder, R"({"block": 6, "max_blocks": 41})", {"sort.weight", "41", "40"}},
  };
  const Layer layer(Sorted(R"({"block": 6, "max_blocks": 40})", Place::kDecoder), Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

}  // namespace
}  // namespace heed
