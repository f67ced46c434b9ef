// What recurrent layers promise beyond the contract: any cut of the rows gives the same bits, heads are
// shared among threads, what steps hand on goes with the rows.
#include "engine/attention/recurrence.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

// Of all types here.
std::vector<AttentionExample> Recurrent() {
  std::vector<AttentionExample> examples = AttentionExamples();
  std::erase_if(examples, [](const AttentionExample& example) {
    return dynamic_cast<const RecurrentAttention*>(&Layer(example, Precision::kF32).attention()) == nullptr;
  });
  return examples;
}

std::vector<Layer> Layers() {
  std::vector<Layer> layers;
  for (const AttentionExample& example : Recurrent()) {
    for (Precision precision : {Precision::kF32, Supported(Precision::kBf16)})
      layers.emplace_back(example, precision);
  }
  return layers;
}

TEST(Recurrence, AnyCutsAreTheSameBits) {
  for (const Layer& layer : Layers()) {
    const Passage whole = Whole(layer, 1100);
    for (int64_t rows : {1, 7, 100, 512, 1000}) {
      Passage pieces(layer, 1100);
      pieces.ExtendBy(*layer.attention().Start(), 0, 1100, rows);
      EXPECT_EQ(FirstDifference(whole.out(), pieces.out()), -1)
          << layer.example().type << layer.example().options << " by " << rows;
    }
  }
}

TEST(Recurrence, WhatStepsHandOnIsWhatIsDeclaredOfAPassAndGoesWithIt) {
  for (const Layer& layer : Layers()) {
    const auto run = layer.attention().Start();
    Passage prompt(layer, 1100);
    const int64_t before = LastingMemory::Bytes();
    EXPECT_EQ(MostWhileAttending(prompt, *run), layer.attention().PassBytes()) << layer.example().type;
    EXPECT_EQ(LastingMemory::Bytes(), before) << layer.example().type;
    EXPECT_EQ(Measured(*run), layer.attention().StateBytes(1100)) << layer.example().type;
  }
}

TEST(Recurrence, StateIsTheSameSizeAtAnyLength) {
  for (const Layer& layer : Layers())
    EXPECT_EQ(layer.attention().StateBytes(1), layer.attention().StateBytes(1 << 20)) << layer.example().type;
}

// The heads of `mamba2` are tasks, of a step as of a prompt.
TEST(Recurrence, HeadsAreSharedAmongThreads) {
  const Layer layer({"mamba2", R"({"head_dim": 8, "state_size": 16})", Place::kDecoder, 64, 16},
                    Precision::kF32);
  for (int64_t n : {1, 512}) {
    const std::vector<AttentionStage> stages = Passage(layer, n).Plan(*layer.attention().Start());
    ASSERT_EQ(stages.size(), 4u);
    EXPECT_EQ(stages[1].tasks, 16);
  }
}

TEST(Recurrence, IsForDecoders) {
  for (const AttentionExample& example : Recurrent()) {
    const Layer layer(example, Precision::kF32);
    for (Place place : {Place::kEncoder, Place::kCross}) {
      const auto refused = layer.New(layer.options(), layer.scope(), place);
      ASSERT_FALSE(refused.ok()) << example.type;
      EXPECT_THAT(refused.status().message(), testing::HasSubstr("layers[0].attention"));
    }
  }
}

TEST(Recurrence, RefusesWhatDoesNotFit) {
  const auto refusal = [](const AttentionExample& example, const std::string& options) {
    const Layer layer(example, Precision::kF32);
    Json json = *ParseJson(options, "options");
    json["type"] = example.type;
    return std::string(layer.New(json, layer.scope()).status().message());
  };
  const AttentionExample mamba2{"mamba2", R"({"head_dim": 8, "state_size": 4})", Place::kDecoder},
      delta{"gated_delta", R"({"key_dim": 4, "value_dim": 4})", Place::kDecoder};
  EXPECT_THAT(refusal(mamba2, R"({"head_dim": 8, "state_size": 4, "num_groups": 3})"),
              testing::HasSubstr("num_groups: 3 does not divide 4 heads"));
  EXPECT_THAT(refusal(mamba2, R"({"head_dim": 8, "state_size": 4, "norm_groups": 5})"),
              testing::HasSubstr("norm_groups: 5 does not divide 32 numbers"));
  EXPECT_THAT(refusal(mamba2, R"({"head_dim": 8, "state_size": 4, "time_step_min": 2, "time_step_max": 1})"),
              testing::HasSubstr("time_step_min is above time_step_max"));
  EXPECT_THAT(refusal(mamba2, R"({"head_dim": 9, "state_size": 4})"), testing::HasSubstr("in.weight"));
  EXPECT_THAT(refusal(delta, R"({"key_dim": 4, "value_dim": 4, "num_key_heads": 3})"),
              testing::HasSubstr("num_key_heads: 3 does not divide 4 heads"));
}

}  // namespace
}  // namespace heed
