// "set-encoder": what its configuration may say, what it makes of sets whatever their order and company, and
// what it holds.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/native.h"
#include "engine/models/transformer.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<float>;

constexpr int64_t kInputs = 3;

const Json kSab = {{"type", "sab"}}, kIsab = {{"type", "isab"}, {"num_inducing", 6}},
           kPma = {{"type", "pma"}, {"num_seeds", 3}},
           kPmaOfRelu = {{"type", "pma"}, {"num_seeds", 2}, {"feed_forward", true}};

Json SetConfig(const std::vector<Json>& blocks, const std::string& head = "none") {
  Json config = {{"model_type", "heed"}, {"architecture", "set-encoder"}, {"input_size", kInputs},
                 {"hidden_size", 32},    {"num_attention_heads", 4},      {"blocks", blocks},
                 {"head", head}};
  if (head == "classification") config["num_labels"] = 5;
  return config;
}

Json With(const std::string& key, Json value) {
  Json config = SetConfig({kIsab, kPma});
  config[key] = std::move(value);
  return config;
}

Json WithBlock(Json block) { return SetConfig({kSab, std::move(block)}); }

std::string Refusal(const Json& config) {
  const auto model = TryRandomModel(config);
  return model.ok() ? "accepted" : std::string(model.status().message());
}

TEST(SetStack, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {With("input_size", nullptr), {"input_size is missing"}},
      {With("input_size", 0), {"input_size", "0", "below 1"}},
      {With("input_size", int64_t{1} << 40), {"input_size", "1099511627776", "above 65536"}},
      {With("hidden_size", 30), {"hidden_size 30", "4 heads"}},
      {With("layer_norm", "yes"), {"layer_norm", "yes", "true or false"}},
      {With("positions", "sinusoidal"), {"positions", "a set have none"}},
      {With("vocab_size", 40), {"vocab_size", "vectors"}},
      {With("pooling", "mean"), {"pooling", "pma"}},
      {With("head", "lm"), {"head", "lm", "classification"}},
      {With("head", "classification"), {"num_labels"}},
      {With("layers", Json::array()), {"layers"}},
      {With("blocks", nullptr), {"blocks", "1 to 1024"}},
      {With("blocks", Json::array()), {"blocks", "1 to 1024"}},
      {With("blocks", std::vector<Json>(1025, kSab)), {"blocks", "1 to 1024"}},
      {With("blocks", "sab"), {"blocks", "1 to 1024"}},
      {WithBlock("sab"), {"blocks[1]", "sab", "not an object"}},
      {WithBlock(Json::object()), {"blocks[1]", "type is missing"}},
      {WithBlock({{"type", "mab"}}), {"blocks[1]", "type", "mab", "isab"}},
      {WithBlock({{"type", 7}}), {"blocks[1]", "type", "7"}},
      {WithBlock({{"type", "sab"}, {"num_seeds", 2}}), {"blocks[1]", "num_seeds"}},
      {WithBlock({{"type", "isab"}}), {"blocks[1]", "num_inducing is missing"}},
      {WithBlock({{"type", "isab"}, {"num_inducing", 0}}), {"num_inducing", "0", "below 1"}},
      {WithBlock({{"type", "isab"}, {"num_inducing", 2000000}}),
       {"num_inducing", "2000000", "above 1048576"}},
      {WithBlock({{"type", "pma"}}), {"blocks[1]", "num_seeds is missing"}},
      {WithBlock({{"type", "pma"}, {"num_seeds", -1}}), {"num_seeds", "-1", "below 1"}},
      {WithBlock({{"type", "pma"}, {"num_seeds", 1}, {"feed_forward", 1}}), {"feed_forward", "1", "true"}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says) EXPECT_THAT(Refusal(c.config), HasSubstr(word)) << Shown(c.config);
  }
}

TEST(SetStack, AMissingAnExtraAndAMisshapenTensorAreNamed) {
  Json config = SetConfig({kIsab, kPmaOfRelu, kSab});
  config["layer_norm"] = true;
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  const auto message = [&](const std::map<std::string, Tensor>& given) {
    const auto model = NewNativeModel(config, *Weights::Of(given), {});
    return model.ok() ? std::string("loaded") : std::string(model.status().message());
  };
  EXPECT_EQ(message(tensors), "loaded");
  Tensor seven = tensors.at("blocks.2.mab.q.bias");
  seven.shape = {7};
  for (const char* name : {"blocks.0.inducing", "blocks.0.mab0.k.weight", "blocks.0.mab1.norm0.weight",
                           "blocks.1.seeds", "blocks.1.feed_forward.weight", "blocks.2.mab.o.weight"}) {
    auto changed = tensors;
    changed.erase(name);
    EXPECT_THAT(message(changed), HasSubstr(name));
    changed[name] = seven;
    EXPECT_THAT(message(changed), testing::AllOf(HasSubstr(name), HasSubstr("[7]")));
  }
  auto extra = tensors;
  extra["blocks.0.mab.q.weight"] = tensors.at("blocks.2.mab.q.weight");
  EXPECT_THAT(message(extra), HasSubstr("blocks.0.mab.q.weight"));
}

TEST(SetStack, SaysWhatItReadsAndGives) {
  const RandomModel model = MakeRandomModel(SetConfig({kIsab, kPma, kSab}, "classification"));
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.input.ids, 0);
  EXPECT_EQ(info.input.numbers, kInputs);
  EXPECT_EQ(info.output_width, 5);
  EXPECT_FALSE(info.pooled);
  EXPECT_EQ(info.layers, 3);
  EXPECT_EQ(info.max_tokens, 0);
  EXPECT_EQ(info.decode, DecodeClass::kNone);
  EXPECT_EQ(model->Answers(100, 0), 3) << "a row of scores for each seed";
  EXPECT_EQ(MakeRandomModel(SetConfig({kIsab, kSab}))->Answers(100, 0), 100) << "or for each vector";
}

Numbers RandomSet(std::mt19937& random, int64_t n) {
  std::normal_distribution<float> normal;
  Numbers numbers(n * kInputs);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

// All answers, one after another, go to `out`.
Work Asking(const Model& model, Sequence* sequence, Numbers set, Numbers* out) {
  Work work{.sequence = sequence, .numbers = std::move(set)};
  work.wanted.resize(model.Answers(work.InputRows(model.info().input), 0));
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  work.read = [out](int32_t, std::span<const float> row) { out->insert(out->end(), row.begin(), row.end()); };
  return work;
}

void RunPass(const Model& model, std::vector<Work>& batch, Threads& threads) {
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

Numbers Answer(const Model& model, const Numbers& set, Threads& threads) {
  Numbers out;
  const auto sequence = model.Start();
  std::vector<Work> batch{Asking(model, sequence.get(), set, &out)};
  RunPass(model, batch, threads);
  return out;
}

void ExpectNear(const Numbers& expected, const Numbers& actual, double bound) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(expected[i], actual[i], bound) << i;
}

TEST(SetStack, TheOrderOfASetDoesNotMatterToWhatIsPooledOfIt) {
  Threads threads(2);
  std::mt19937 random(5);
  for (const auto& blocks : {std::vector<Json>{kSab, kPma, kSab}, {kIsab, kIsab, kPmaOfRelu}, {kPma}}) {
    const RandomModel model = MakeRandomModel(SetConfig(blocks));
    const Numbers set = RandomSet(random, 300);
    const Numbers answer = Answer(*model, set, threads);
    Numbers reversed;
    for (int64_t row = 299; row >= 0; --row)
      reversed.insert(reversed.end(), &set[row * kInputs], &set[row * kInputs] + kInputs);
    ExpectNear(answer, Answer(*model, reversed, threads), 2e-5);
  }
}

TEST(SetStack, EachVectorsAnswerIsItsOwnWhereverItStands) {
  Threads threads(2);
  std::mt19937 random(5);
  for (const auto& blocks : {std::vector<Json>{kSab, kSab}, {kIsab}, {kIsab, kSab}}) {
    const RandomModel model = MakeRandomModel(SetConfig(blocks));
    const Numbers set = RandomSet(random, 200);
    Numbers moved(set.begin() + 50 * kInputs, set.end());
    moved.insert(moved.end(), set.begin(), set.begin() + 50 * kInputs);
    Numbers expected = Answer(*model, set, threads);
    std::ranges::rotate(expected, expected.begin() + 50 * 32);
    ExpectNear(expected, Answer(*model, moved, threads), 2e-5);
  }
}

// Without values and without what follows, what is left of a block is the projected query.
TEST(SetStack, TheQueryIsTheResidualWithAllItsDigits) {
  const Json config = SetConfig({kSab});
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  const Numbers zeros(32 * 32);
  for (const char* name : {"blocks.0.mab.v", "blocks.0.mab.o"}) {
    for (const char* part : {".weight", ".bias"}) tensors.at(Cat(name, part)).data = zeros.data();
  }
  const auto* weight = static_cast<const float*>(tensors.at("blocks.0.mab.q.weight").data);
  const auto* bias = static_cast<const float*>(tensors.at("blocks.0.mab.q.bias").data);
  Threads threads(1);
  std::mt19937 random(2);
  const Numbers set = RandomSet(random, 20);
  for (Precision precision : {Precision::kF32, Supported(Precision::kBf16)}) {
    const auto model = NewNativeModel(config, *Weights::Of(tensors), {.precision = precision});
    ASSERT_TRUE(model.ok()) << model.status();
    const Numbers answer = Answer(**model, set, threads);
    int rounded = 0;
    for (int64_t i = 0; i < std::ssize(answer); ++i) {
      double expected = bias[i % 32];
      for (int64_t t = 0; t < kInputs; ++t)
        expected += static_cast<double>(set[i / 32 * kInputs + t]) * weight[i % 32 * kInputs + t];
      EXPECT_NEAR(answer[i], expected, precision == Precision::kF32 ? 1e-5 : 0.05);
      rounded += ToFloat(ToBf16(answer[i])) == answer[i] ? 1 : 0;
    }
    EXPECT_LT(rounded, std::ssize(answer) / 8) << Name(precision);
  }
}

TEST(SetStack, AnswersAreTheSameBitsInAnyCompanyOnAnyNumberOfThreads) {
  Threads one(1), two(2), seven(7);
  for (bool layer_norm : {false, true}) {
    for (const auto& blocks :
         {std::vector<Json>{kIsab, kSab, kPmaOfRelu, kSab}, {kSab, kIsab}, {kPmaOfRelu, kSab}}) {
      for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
        Json config = SetConfig(blocks, "classification");
        config["layer_norm"] = layer_norm;
        const RandomModel model = MakeRandomModel(config, precision);
        std::mt19937 random(11);
        for (int mix = 0; mix < 6; ++mix) {
          std::vector<Numbers> alone, together(1 + random() % 6);
          std::vector<std::unique_ptr<Sequence>> sequences;
          std::vector<Work> batch;
          for (Numbers& out : together) {
            const Numbers set = RandomSet(random, 1 + random() % (random() % 3 == 0 ? 400 : 40));
            alone.push_back(Answer(*model, set, one));
            sequences.push_back(model->Start());
            batch.push_back(Asking(*model, sequences.back().get(), set, &out));
          }
          RunPass(*model, batch, mix % 2 ? two : seven);
          ASSERT_EQ(together, alone) << "mix " << mix << Shown(config) << Name(precision);
        }
      }
    }
  }
}

TEST(SetStack, LongSetsTakeTurnsAndMayBeDropped) {
  Json config = SetConfig({kIsab, kSab, kPma});
  config["hidden_size"] = 256;
  const RandomModel model = MakeRandomModel(config);
  Threads threads(2);
  std::mt19937 random(3);
  const Numbers small = RandomSet(random, 5);
  Numbers kept, dropped;
  const auto a = model->Start(), b = model->Start();
  std::vector<Work> batch;
  batch.push_back(Asking(*model, a.get(), RandomSet(random, 6000), &dropped));
  batch.push_back(Asking(*model, b.get(), small, &kept));
  const auto pass = model->Begin(&batch);
  int turns = 1;
  for (; pass->Advance(threads); ++turns) {
    if (turns == 5) pass->Drop(0);
  }
  EXPECT_GT(turns, 6);
  EXPECT_TRUE(dropped.empty());
  EXPECT_EQ(kept, Answer(*model, small, threads));
}

// What the model keeps of a pass's workspaces: all of them, where they are small.
int64_t KeptBytes(const Model& model) {
  return static_cast<const Transformer&>(model).workspaces().kept_bytes();
}

TEST(SetStack, APassHoldsWhatIsDeclared) {
  for (const auto& blocks : {std::vector<Json>{kIsab, kIsab, kPma}, {kSab, kSab}, {kPmaOfRelu, kSab}}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      for (int64_t rows : {1, 70, 300}) {
        const RandomModel model = MakeRandomModel(SetConfig(blocks), precision);
        Threads threads(3);
        std::mt19937 random(1);
        std::vector<std::unique_ptr<Sequence>> sequences;
        std::vector<Work> batch;
        std::vector<Numbers> out(2);
        for (Numbers& answer : out) {
          sequences.push_back(model->Start());
          batch.push_back(Asking(*model, sequences.back().get(), RandomSet(random, rows), &answer));
        }
        const int64_t state = model->StateBytes(rows), before = LastingMemory::Bytes();
        LastingMemory::MeasureAnew();
        RunPass(*model, batch, threads);
        EXPECT_LE(LastingMemory::Most() - before, 2 * state) << rows;
        EXPECT_GE(LastingMemory::Most() - before, state / 2) << rows;
        const int64_t declared = model->WorkspaceBytes(
            {.rows = 2 * rows, .answers = 2 * model->Answers(rows, 0), .threads = 3, .works = 2});
        EXPECT_LE(KeptBytes(*model), declared) << rows;
        EXPECT_GE(KeptBytes(*model), declared * 0.95) << rows;
      }
    }
  }
}

TEST(SetStack, WorkGrowsWithASetThroughInducingPointsAndWithItsSquareWithoutThem) {
  const auto counted = [](const Model& model, int64_t n) {
    Threads threads(1);
    std::mt19937 random(1);
    const int64_t before = MicroKernel::MultiplyAdds();
    Answer(model, RandomSet(random, n), threads);
    return static_cast<double>(MicroKernel::MultiplyAdds() - before);
  };
  Json through = kIsab;
  through["num_inducing"] = 32;
  const auto wide = [](const std::vector<Json>& blocks) {
    Json config = SetConfig(blocks);
    config["hidden_size"] = 64;
    return MakeRandomModel(config);
  };
  const RandomModel isab = wide({through, through}), sab = wide({kSab});
  EXPECT_NEAR(isab->Cost(20000) / isab->Cost(2000), 10, 0.5);
  EXPECT_GT(sab->Cost(20000) / sab->Cost(2000), 50);
  for (const Model* model : {isab.model.get(), sab.model.get()})
    EXPECT_NEAR(counted(*model, 3200) / model->Cost(3200), 1, 0.25);
}

}  // namespace
}  // namespace heed
