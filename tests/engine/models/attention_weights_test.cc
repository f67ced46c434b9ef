// The weights of attention that a Work asks for.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/models/model.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

struct Asked {
  std::vector<LayerWeights> weights;
  std::vector<float> output;
};

Work Asking(Sequence& sequence, std::vector<int32_t> tokens, Asked& asked) {
  Work work{.sequence = &sequence, .tokens = std::move(tokens)};
  work.wanted = {static_cast<int32_t>(work.tokens.size()) - 1};
  work.read = [&](int32_t, std::span<const float> row) { asked.output.assign(row.begin(), row.end()); };
  work.weights = &asked.weights;
  return work;
}

void RunPass(const Model& model, std::vector<Work> batch) {
  Threads threads(2);
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

void ExpectSums(const LayerWeights& layer) {
  ASSERT_EQ(std::ssize(layer.weights), layer.heads * layer.rows * layer.keys);
  for (int64_t row = 0; row < layer.heads * layer.rows; ++row) {
    const auto begin = layer.weights.begin() + row * layer.keys;
    EXPECT_NEAR(std::accumulate(begin, begin + layer.keys, 0.0), 1, 1e-5) << row;
  }
}

TEST(AttentionWeights, AreOfAllLayersAndOfWhoAsksOnly) {
  const RandomModel random = MakeRandomModel(SmallConfig("encoder", "none"), Precision::kF32);
  const Model& model = *random.model;
  ASSERT_EQ(model.info().attentions.size(), 2);
  const auto a = model.Start(), b = model.Start();
  Asked asked, other;
  std::vector<Work> batch;
  batch.push_back(Asking(*a, {3, 4, 5, 6, 7}, asked));
  batch.push_back(Asking(*b, {8, 9, 10}, other));
  batch.back().weights = nullptr;
  RunPass(model, std::move(batch));
  EXPECT_TRUE(other.weights.empty());
  ASSERT_EQ(asked.weights.size(), 2);
  for (const LayerWeights& layer : asked.weights) {
    EXPECT_EQ(layer.heads, 4);
    EXPECT_EQ(layer.rows, 5);
    EXPECT_EQ(layer.keys, 5);
    ExpectSums(layer);
  }
}

TEST(AttentionWeights, ThatAreChosenAreThoseOfAllAndNothingElseIsHeld) {
  Json config = SmallConfig("decoder", "lm");
  config["layers"].push_back(config["layers"][0]);
  const RandomModel random = MakeRandomModel(config, Precision::kF32);
  const WeightsChoice choice{.attentions = {0, 2}, .heads = {1, 3}, .rows = {0, 2, 4}};
  const auto a = random.model->Start(), b = random.model->Start();
  Asked all, chosen;
  RunPass(*random.model, {Asking(*a, {3, 4, 5, 6, 7}, all)});
  Work work = Asking(*b, {3, 4, 5, 6, 7}, chosen);
  work.choice = &choice;
  RunPass(*random.model, {work});
  EXPECT_EQ(chosen.output, all.output);
  ASSERT_EQ(chosen.weights.size(), 2);
  int64_t bytes = 0;
  for (size_t i = 0; i < 2; ++i) {
    const LayerWeights &whole = all.weights[2 * i], &part = chosen.weights[i];
    ASSERT_EQ(part.weights.size(), 2 * 3 * 5);
    EXPECT_EQ(part.heads, 2);
    EXPECT_EQ(part.rows, 3);
    for (int64_t at = 0; at < std::ssize(part.weights); ++at) {
      const int64_t head = choice.heads[at / 15], row = choice.rows[at / 5 % 3];
      EXPECT_EQ(part.weights[at], whole.weights[(head * 5 + row) * 5 + at % 5]) << at;
    }
    bytes += 4 * static_cast<int64_t>(part.weights.capacity());
  }
  EXPECT_EQ(bytes, ChosenBytes(random.model->info().attentions, choice, 5, 0));
  EXPECT_EQ(WeighingBytes(random.model->info().attentions, choice, 5, 0), bytes + 4 * 4 * 5 * 5);
}

TEST(AttentionWeights, OfAStepAreForAllTokensBefore) {
  const RandomModel random = MakeRandomModel(SmallConfig("decoder", "lm"), Precision::kF32);
  const Model& model = *random.model;
  const auto whole = model.Start(), steps = model.Start();
  Asked all, prompt, step;
  RunPass(model, {Asking(*whole, {3, 4, 5, 6, 7}, all)});
  RunPass(model, {Asking(*steps, {3, 4, 5, 6}, prompt)});
  RunPass(model, {Asking(*steps, {7}, step)});
  ASSERT_EQ(step.weights.size(), 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(step.weights[i].keys, 5);
    ASSERT_EQ(step.weights[i].weights.size(), 4 * 5);
    for (int head = 0; head < 4; ++head) {
      for (int key = 0; key < 5; ++key)
        EXPECT_NEAR(step.weights[i].weights[head * 5 + key], all.weights[i].weights[(head * 5 + 4) * 5 + key],
                    1e-5);
    }
  }
}

TEST(AttentionWeights, OfAnEncoderDecoderAreTheTargetsForItselfAndForTheSource) {
  const RandomModel random = MakeRandomModel(SmallConfig("encoder-decoder", "lm"), Precision::kF32);
  const auto sequence = random.model->Start();
  Asked first, next;
  Work work = Asking(*sequence, {1, 5}, first);
  work.source = {7, 8, 9, 10, 11, 12};
  RunPass(*random.model, {work});
  RunPass(*random.model, {Asking(*sequence, {6}, next)});
  for (const Asked* asked : {&first, &next}) {
    ASSERT_EQ(asked->weights.size(), 4);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(asked->weights[i].cross, i % 2 == 1);
      EXPECT_EQ(asked->weights[i].keys, i % 2 == 1 ? 6 : asked == &first ? 2 : 3);
      ExpectSums(asked->weights[i]);
    }
  }
}

TEST(AttentionWeights, AreNoneWhereThereIsNoSoftmax) {
  Json config = SmallConfig("decoder", "lm");
  config["layers"][0]["attention"] = {{"type", "linear"}};
  const RandomModel random = MakeRandomModel(config, Precision::kF32);
  const std::vector<AttentionInfo>& attentions = random.model->info().attentions;
  ASSERT_EQ(attentions.size(), 2);
  EXPECT_EQ(attentions[0].type, "linear");
  EXPECT_EQ(attentions[0].weighing_heads, 0);
  EXPECT_EQ(attentions[1].layer, 1);
  EXPECT_EQ(attentions[1].weighing_heads, 4);
  const auto sequence = random.model->Start();
  Asked asked;
  RunPass(*random.model, {Asking(*sequence, {3, 4, 5}, asked)});
  ASSERT_EQ(asked.weights.size(), 2);
  EXPECT_EQ(asked.weights[0].heads, 0);
  EXPECT_TRUE(asked.weights[0].weights.empty());
  ExpectSums(asked.weights[1]);
}

}  // namespace
}  // namespace heed
