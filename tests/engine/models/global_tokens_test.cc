// Global tokens that a request names, through a whole model.
#include <algorithm>
#include <memory>
#include <vector>

#include "engine/models/native.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/state.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using Output = std::vector<float>;

Json Sliding(const std::vector<int64_t>& global_tokens) {
  return {{"type", "sliding_window"},
          {"window", 8},
          {"dilation", {1, 2, 1, 3}},
          {"global_tokens", global_tokens}};
}

// Random weights are the same for any global tokens.
RandomModel Encoder(const std::vector<int64_t>& global_tokens, Precision precision = Precision::kF32) {
  Json config = SmallConfig("encoder", "classification", Sliding(global_tokens));
  config["pooling"] = "mean";
  return MakeRandomModel(config, precision);
}

// Of an encoder-decoder of which only the encoder may have global tokens.
RandomModel EncoderDecoder(const std::vector<int64_t>& global_tokens) {
  Json config = SmallConfig("encoder-decoder", "lm");
  for (Json& layer : config["layers"]) layer["attention"] = Sliding(global_tokens);
  return MakeRandomModel(config);
}

std::vector<int32_t> Tokens(int64_t n) {
  std::vector<int32_t> tokens(n);
  for (int64_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(i * 7 % 50);
  return tokens;
}

std::vector<int32_t> LabelsOf(int64_t n, const std::vector<int64_t>& global_tokens) {
  std::vector<int32_t> labels(n);
  for (int64_t token : global_tokens) labels[token] = 1;
  return labels;
}

Output Answer(const Model& model, Work work) {
  Output output;
  const auto sequence = model.Start();
  work.sequence = sequence.get();
  work.wanted = {0};
  work.read = [&](int32_t, std::span<const float> row) { output.assign(row.begin(), row.end()); };
  std::vector<Work> batch = {work};
  Threads threads(2);
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return output;
}

const std::vector<std::vector<int64_t>> kSome = {{}, {0}, {5, 6, 7, 40}, {0, 99, 100, 299}};

TEST(GlobalTokens, OfARequestAreThoseThatAFileWouldHave) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const RandomModel model = Encoder({2, 17}, precision);
    for (const auto& tokens : kSome) {
      const Output answer = Answer(*model, {.tokens = Tokens(300), .labels = LabelsOf(300, tokens)});
      EXPECT_EQ(answer, Answer(*Encoder(tokens, precision), {.tokens = Tokens(300)}));
      EXPECT_NE(answer, Answer(*model, {.tokens = Tokens(300)})) << "the file's hold where none are named";
    }
  }
}

TEST(GlobalTokens, OfARequestAreInItsAttentionWeights) {
  const RandomModel model = Encoder({2, 17});
  for (const auto& tokens : kSome) {
    std::vector<LayerWeights> given, of_file;
    Answer(*model, {.tokens = Tokens(300), .labels = LabelsOf(300, tokens), .weights = &given});
    Answer(*Encoder(tokens), {.tokens = Tokens(300), .weights = &of_file});
    ASSERT_EQ(given.size(), 2u);
    for (size_t layer = 0; layer < 2; ++layer) EXPECT_EQ(given[layer].weights, of_file[layer].weights);
  }
}

TEST(GlobalTokens, OfAnEncoderDecoderAreThoseOfItsSource) {
  const RandomModel model = EncoderDecoder({2});
  for (const auto& tokens : kSome) {
    const Work work{.tokens = {1}, .source = Tokens(300)};
    Work labelled = work;
    labelled.labels = LabelsOf(300, tokens);
    EXPECT_EQ(Answer(*model, labelled), Answer(*EncoderDecoder(tokens), work));
  }
}

TEST(GlobalTokens, AreTakenWhereAnEncodersLayersReadThem) {
  EXPECT_EQ(Encoder({})->info().max_global_tokens, 4096);
  EXPECT_EQ(EncoderDecoder({3})->info().max_global_tokens, 4096);
  const Json window = {{"type", "sliding_window"}, {"window", 8}};
  for (const char* architecture : {"encoder", "decoder"}) {
    EXPECT_EQ(MakeRandomModel(SmallConfig(architecture, "lm", window))->info().max_global_tokens, 0);
  }
  Json mixed = SmallConfig("encoder", "lm");
  mixed["layers"][1]["attention"] = Sliding({});
  EXPECT_EQ(MakeRandomModel(mixed)->info().max_global_tokens, 4096);
}

TEST(GlobalTokens, CostAsMuchOfTheRequestAsOfTheFile) {
  const RandomModel none = Encoder({}), some = Encoder({0, 1, 2});
  EXPECT_EQ(none->Cost(500, 0, 0), none->Cost(500));
  EXPECT_GT(none->Cost(500, 0, 3), none->Cost(500));
  EXPECT_DOUBLE_EQ(none->Cost(500, 0, 3), some->Cost(500, 0, 3));
  EXPECT_GE(none->StateBytes(500, 0, 3), some->StateBytes(500));
  EXPECT_GT(none->StateBytes(5000, 0, 4096), none->StateBytes(5000));
  EXPECT_EQ(none->StateBytes(500, 0, 500), some->StateBytes(500, 0, 500));
  // Every row sees every other one twice: as itself, and for the global rows' own softmax.
  const double attention = none->Cost(4000, 0, 4000) - none->Cost(4000, 0, 0);
  EXPECT_GT(attention, 2 * 2 * 2.0 * 4000 * 4000 * 32);
  const RandomModel sourced = EncoderDecoder({});
  EXPECT_GT(sourced->Cost(10, 500, 500), sourced->Cost(10, 500));
  // What reading the source takes, or, if that is more, what its keys and values take afterwards.
  EXPECT_GE(sourced->StateBytes(10, 5000, 4096), sourced->StateBytes(10, 5000));
}

TEST(GlobalTokens, WhatAPassHoldsIsDeclared) {
  for (int64_t labelled : {0, 1, 300, 1000}) {
    const RandomModel model = Encoder({});
    Work work{.tokens = Tokens(1000), .labels = std::vector<int32_t>(1000)};
    std::fill_n(work.labels.begin(), labelled, 1);
    const int64_t before = LastingMemory::Bytes();
    LastingMemory::MeasureAnew();
    Answer(*model, work);
    EXPECT_LE(LastingMemory::Most() - before, model->StateBytes(1000, 0, labelled)) << labelled;
  }
}

}  // namespace
}  // namespace heed
