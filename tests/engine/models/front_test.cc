// Rows that a model brings, before those of its input: extra_global_tokens, through a whole model.
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/models/native.h"
#include "engine/models/transformer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Output = std::vector<float>;

const Json kFull = {{"type", "full"}};
const Json kEtc = {
    {"type", "bigbird"}, {"form", "etc"}, {"block_size", 8}, {"num_blocks", 40}, {"num_random_blocks", 2}};

Json Encoder(int64_t front, const Json& attention, const std::string& head = "lm") {
  Json config = SmallConfig("encoder", head, attention);
  config["extra_global_tokens"] = front;
  return config;
}

std::vector<int32_t> Tokens(int64_t n) {
  std::vector<int32_t> tokens(n);
  for (int64_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(i * 7 % 50);
  return tokens;
}

// Of all rows that an answer may be wanted for.
Output Answers(const Model& model, Work work) {
  Output output;
  const auto sequence = model.Start();
  work.sequence = sequence.get();
  work.wanted.resize(model.Answers(std::ssize(work.tokens), 0));
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  work.read = [&](int32_t, std::span<const float> row) {
    output.insert(output.end(), row.begin(), row.end());
  };
  std::vector<Work> batch = {work};
  Threads threads(2);
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return output;
}

// A model whose rows in front are those of its first tokens, and the same without rows in front.
struct Both {
  std::unique_ptr<const Model> with, without;
};

Both WithAndWithout(int64_t front, Json config, Precision precision) {
  config["extra_global_tokens"] = front;
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  Tensor rows = tensors.at("embed.tokens.weight");
  rows.shape[0] = front;
  tensors["embed.global.weight"] = rows;
  Both both;
  const LoadOptions options{.precision = precision};
  both.with = NewNativeModel(config, *Weights::Of(tensors), options).value();
  tensors.erase("embed.global.weight");
  config.erase("extra_global_tokens");
  both.without = NewNativeModel(config, *Weights::Of(tensors), options).value();
  return both;
}

std::vector<int32_t> Behind(int64_t front, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> all(front);
  std::iota(all.begin(), all.end(), 0);
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

TEST(Front, RowsAreWhatTheSameTokensWouldBeAndTheHeadReadsThoseBehind) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    for (int64_t front : {1, 5, 40}) {
      const Both both = WithAndWithout(front, SmallConfig("encoder", "lm"), precision);
      const Output all = Answers(*both.without, {.tokens = Behind(front, Tokens(70))});
      const Output behind(all.begin() + front * 50, all.end());
      EXPECT_EQ(Answers(*both.with, {.tokens = Tokens(70)}), behind);
    }
  }
}

TEST(Front, PoolingFirstTakesTheFirstOfItsRowsAndAllElseThoseBehind) {
  constexpr int64_t kFront = 4, kTokens = 20;
  Output rows;
  for (const char* pooling : {"none", "first", "last", "mean"}) {
    Json config = SmallConfig("encoder", "none");
    if (pooling != std::string("none")) config["pooling"] = pooling;
    const Both both = WithAndWithout(kFront, config, Precision::kF32);
    const Output answer = Answers(*both.with, {.tokens = Tokens(kTokens)});
    const Output plain = Answers(*both.without, {.tokens = Behind(kFront, Tokens(kTokens))});
    if (pooling == std::string("none")) {
      rows = answer;
      EXPECT_EQ(answer.size(), kTokens * 32);
    } else if (pooling == std::string("mean")) {
      for (int64_t c = 0; c < 32; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < kTokens; ++r) sum += rows[r * 32 + c];
        EXPECT_NEAR(answer[c], sum / kTokens, 1e-5);
      }
    } else {
      EXPECT_EQ(answer, plain) << pooling;
    }
  }
}

TEST(Front, TokensHaveTheirPositionsFromZero) {
  Json config = Encoder(3, kFull);
  config["positions"] = "learned";
  config["max_position_embeddings"] = 20;
  const RandomModel model = MakeRandomModel(config);
  EXPECT_EQ(model->info().max_tokens, 20) << "rows in front take no position";
  EXPECT_EQ(Answers(*model, {.tokens = Tokens(20)}).size(), 20 * 50);
}

TEST(Front, TheLongestInputIsWithoutIt) {
  EXPECT_EQ(MakeRandomModel(Encoder(5, kEtc))->info().max_tokens, 8 * 40);
  EXPECT_EQ(MakeRandomModel(Encoder(5, kFull))->info().max_tokens, 0);
  EXPECT_EQ(Answers(*MakeRandomModel(Encoder(5, kEtc)), {.tokens = Tokens(320)}).size(), 320 * 50);
}

TEST(Front, AttentionWeightsHaveItsRowsAsTheFirstKeys) {
  constexpr int64_t kFront = 4, kTokens = 30;
  const RandomModel model = MakeRandomModel(Encoder(kFront, kEtc));
  const WeightsChoice choice{.attentions = {1}, .heads = {0, 2}, .rows = {0, 29}}, every{};
  std::vector<LayerWeights> all, of_tokens, chosen;
  Answers(*model, {.tokens = Tokens(kTokens), .weights = &all});
  Answers(*model, {.tokens = Tokens(kTokens), .weights = &of_tokens, .choice = &every});
  Answers(*model, {.tokens = Tokens(kTokens), .weights = &chosen, .choice = &choice});
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[1].rows, kFront + kTokens);
  EXPECT_EQ(of_tokens[1].rows, kTokens);
  ASSERT_EQ(chosen.size(), 1);
  EXPECT_EQ(chosen[0].rows, 2);
  constexpr int64_t kKeys = kFront + kTokens;
  const auto row_of = [&](const LayerWeights& layer, int64_t head, int64_t row) {
    const auto begin = layer.weights.begin() + (head * layer.rows + row) * kKeys;
    return Output(begin, begin + kKeys);
  };
  for (int head : {0, 1}) {
    for (int row : {0, 1}) {
      const Output weights = row_of(chosen[0], head, row);
      EXPECT_EQ(weights, row_of(all[1], choice.heads[head], kFront + choice.rows[row]));
      EXPECT_EQ(weights, row_of(of_tokens[1], choice.heads[head], choice.rows[row]));
      EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-5);
      EXPECT_GT(*std::ranges::min_element(weights.begin(), weights.begin() + kFront), 0) << "global rows";
    }
  }
  const auto& attentions = model->info().attentions;
  EXPECT_EQ(ChosenBytes(attentions, choice, kTokens, 0), 4 * 2 * 2 * kKeys);
  EXPECT_EQ(WeighingBytes(attentions, choice, kTokens, 0), 4 * (2 * 2 * kKeys + 4 * kKeys * kKeys));
}

TEST(Front, APassHoldsWhatIsDeclared) {
  for (const Json& attention : {kFull, kEtc}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      const RandomModel model = MakeRandomModel(Encoder(50, attention), precision);
      const int64_t state = model->StateBytes(300), before = LastingMemory::Bytes();
      LastingMemory::MeasureAnew();
      Answers(*model, {.tokens = Tokens(300)});
      EXPECT_LE(LastingMemory::Most() - before, state);
      EXPECT_GE(LastingMemory::Most() - before, state / 2);
      const int64_t kept = static_cast<const Transformer&>(*model).workspaces().kept_bytes();
      const int64_t declared = model->WorkspaceBytes({.rows = 300, .answers = 300, .threads = 2, .works = 1});
      EXPECT_LE(kept, declared);
      EXPECT_GE(kept, declared * 0.95);
    }
  }
}

TEST(Front, IsRefusedWhereItMeansNothing) {
  const auto refusal = [](const Json& config) {
    const auto model = TryRandomModel(config);
    return model.ok() ? "accepted" : std::string(model.status().message());
  };
  Json decoder = SmallConfig("decoder", "lm"), sourced = SmallConfig("encoder-decoder", "lm");
  decoder["extra_global_tokens"] = sourced["extra_global_tokens"] = 2;
  Json reversible = Encoder(2, kFull), mixed = Encoder(2, kEtc), blocks = kEtc;
  reversible["reversible"] = true;
  mixed["layers"][1]["attention"] = {{"type", "softmax"}, {"form", "etc"}};
  blocks.erase("form");
  for (const Json& config : {decoder, sourced, reversible})
    EXPECT_THAT(refusal(config), HasSubstr("extra_global_tokens: 2 are for encoders"));
  EXPECT_THAT(refusal(mixed), HasSubstr("extra_global_tokens: layers[1].attention"));
  EXPECT_THAT(refusal(Encoder(2, blocks)), HasSubstr("extra_global_tokens: layers[0].attention"));
  EXPECT_THAT(refusal(Encoder(0, kEtc)), HasSubstr("extra_global_tokens"));
  EXPECT_THAT(refusal(Encoder(-1, kEtc)), HasSubstr("extra_global_tokens: -1 is below 0"));
  EXPECT_THAT(refusal(Encoder(int64_t{1} << 40, kEtc)), HasSubstr("is above 1048576"));
  std::map<std::string, Tensor> tensors = RandomTensorsOf(Encoder(2, kEtc));
  tensors.erase("embed.global.weight");
  EXPECT_THAT(NewNativeModel(Encoder(2, kEtc), *Weights::Of(tensors), {}).status().message(),
              HasSubstr("embed.global.weight"));
}

}  // namespace
}  // namespace heed
