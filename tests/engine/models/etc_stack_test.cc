// "etc-encoder" with random weights. What it computes is the golden cases' affair, but for what must be the
// same in another way.
#include <algorithm>
#include <map>

#include "engine/base/status.h"
#include "engine/models/native.h"
#include "gmock/gmock.h"
#include "tests/engine/models/whole_inputs.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Etc(const std::string& head, const Json& options = Json::object()) {
  Json attention = {{"type", "etc"}, {"radius", 5}, {"max_distance", 3}};
  attention.update(options);
  Json config = SmallConfig("etc-encoder", head, attention);
  config.update({{"tokens_per_global", 6}, {"global_token", 3}, {"positions", "sinusoidal"}});
  return config;
}

const Json kApart = {{"share_projections", false}}, kUnlabelled = {{"max_distance", 0}},
           kHard = {{"hard_l2g", true}, {"hard_g2l", true}};

TEST(EtcStack, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Json lm = Etc("lm"), none = Etc("none");
  const std::string where = "config.json: layers[1].attention";
  const auto attention = [&](const std::string& key, const Json& value) {
    return With(lm, "/layers/1/attention/" + key, value);
  };
  Json radius = lm;
  radius["layers"][1]["attention"].erase("radius");
  const Case cases[] = {
      {Without(lm, "vocab_size"), {"vocab_size is missing"}},
      {Without(lm, "layers"), {"layers is not a list"}},
      {With(lm, "/layers/1/attention", {{"type", "full"}}), {"layers[1].attention", "\"etc\""}},
      {With(lm, "/layers/1/attention/type", 3), {"layers[1].attention", "\"etc\""}},
      {SmallConfig("encoder", "lm", {{"type", "etc"}, {"radius", 3}}), {"layers[0].attention", "etc"}},
      {radius, {where + ".radius is missing"}},
      {attention("radius", -1), {where + ".radius: -1 is below 0"}},
      {attention("radius", int64_t{1} << 40), {where + ".radius", "above 1073741824"}},
      {attention("max_distance", -1), {where + ".max_distance: -1 is below 0"}},
      {attention("max_distance", int64_t{1} << 40), {where + ".max_distance", "above 4096"}},
      {attention("share_projections", 1), {where + ".share_projections"}},
      {attention("hard_l2g", "yes"), {where + ".hard_l2g"}},
      {attention("hard_g2l", 0.5), {where + ".hard_g2l"}},
      {attention("window", 3), {where + ": unknown key \"window\""}},
      {attention("num_heads", 33), {where, "num_heads: 33", "32"}},
      {attention("num_heads", 5), {where, "hidden_size 32", "5 heads"}},
      {With(lm, "/share_ffn", 3), {"share_ffn"}},
      {With(lm, "/tokens_per_global", -1), {"tokens_per_global: -1 is below 0"}},
      {With(lm, "/tokens_per_global", int64_t{1} << 40), {"tokens_per_global", "above 1073741824"}},
      {With(lm, "/global_token", 50), {"global_token: 50 is above 49"}},
      {With(lm, "/global_token", -1), {"global_token: -1 is below 0"}},
      {With(none, "/pooling", "mean"), {"pooling", "both streams"}},
      {With(lm, "/positions", "learned"), {"max_position_embeddings"}},
      {With(lm, "/reversible", true), {"unknown key \"reversible\""}},
      {With(lm, "/layers/0/ffn", {{"type", "sparse"}}), {"layers[0].ffn"}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says)
      EXPECT_THAT(RefusalOf(c.config), HasSubstr(word)) << Shown(c.config);
  }
  for (const char* head : {"none", "lm", "token_classification", "classification"})
    EXPECT_EQ(RefusalOf(Etc(head)), "accepted") << head;
}

Json WithAllTensors() {
  Json config = With(With(Etc("classification", kApart), "/share_ffn", false), "/norm", "pre");
  config.update({{"positions", "learned"}, {"max_position_embeddings", 64}});
  return config;
}

TEST(EtcStack, AMissingTensorIsNamed) {
  const Json config = WithAllTensors();
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  for (const char* name :
       {"embed.tokens.weight", "embed.positions.weight", "embed.positions_global.weight",
        "layers.0.norm1.weight", "layers.1.norm1_global.bias", "layers.0.attention.q.weight",
        "layers.0.attention.q_global.weight", "layers.1.attention.k_l2g.weight",
        "layers.1.attention.v_g2g.weight", "layers.0.attention.v_g2l.weight", "layers.0.attention.o.weight",
        "layers.1.attention.o_global.weight", "layers.0.attention.relative_embedding",
        "layers.0.attention.relative_bias_global", "layers.1.norm2_global.weight",
        "layers.1.ffn_global.up.weight", "norm.weight", "norm_global.weight", "classifier.weight"}) {
    auto missing = tensors;
    ASSERT_EQ(missing.erase(name), 1u) << name;
    const auto model = NewNativeModel(config, *Weights::Of(missing), {});
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(name));
  }
}

// What a model does without the other half of its tensors, it must not have.
TEST(EtcStack, SharedTensorsHaveNoOtherHalf) {
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(WithAllTensors());
  Json shared = WithAllTensors();
  shared["share_ffn"] = true;
  EXPECT_THAT(NewNativeModel(shared, *Weights::Of(tensors), {}).status().message(), HasSubstr("_global"));
  for (Json& layer : shared["layers"]) layer["attention"]["share_projections"] = true;
  EXPECT_FALSE(NewNativeModel(shared, *Weights::Of(tensors), {}).ok());
}

TEST(EtcStack, LabelsAreAsManyAsDistancesNeedOrMore) {
  const Json config = Etc("lm");
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  const auto loaded = [&](const std::string& name, int64_t labels) {
    auto changed = tensors;
    Tensor& tensor = changed.at("layers.1.attention." + name);
    std::vector<float> numbers(labels * tensor.size() / tensor.shape[0], 0.25F);
    tensor = {.dtype = DType::kF32, .shape = tensor.shape, .data = numbers.data()};
    tensor.shape[0] = labels;
    return NewNativeModel(config, *Weights::Of(changed), {}).status();
  };
  for (const char* name :
       {"relative_embedding", "relative_embedding_global", "relative_bias", "relative_bias_global"}) {
    EXPECT_TRUE(loaded(name, 9).ok());
    EXPECT_TRUE(loaded(name, 12).ok());
    EXPECT_THAT(loaded(name, 8).message(), HasSubstr(Cat("layers.1.attention.", name, ": 8 labels")));
    EXPECT_THAT(loaded(name, 8).message(), HasSubstr("at least 9"));
  }
}

// A model whose streams have weights of their own, all copies.
TEST(EtcStack, SharedWeightsAreAsCopiesOfThemAndHeldOnce) {
  const Json shared = Etc("none");
  Json apart = With(Etc("none", kApart), "/share_ffn", false);
  std::map<std::string, Tensor> tensors = RandomTensorsOf(shared);
  for (const auto& [name, tensor] : std::map(tensors)) {
    const auto copy = [&](const std::string& part, const std::vector<std::string>& others) {
      const size_t at = name.find(part);
      for (const std::string& other : at == name.npos ? std::vector<std::string>() : others) {
        std::string copied = name;
        tensors[copied.replace(at, part.size(), other)] = tensor;
      }
    };
    copy("attention.q.", {"attention.q_global."});
    copy("attention.k.", {"attention.k_l2g.", "attention.k_g2g.", "attention.k_g2l."});
    copy("attention.v.", {"attention.v_l2g.", "attention.v_g2g.", "attention.v_g2l."});
    copy("norm2.", {"norm2_global."});
    copy("ffn.", {"ffn_global."});
  }
  Threads threads(2);
  std::mt19937 random(5);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const auto one = NewNativeModel(shared, *Weights::Of(tensors), {.precision = precision});
    EXPECT_FALSE(one.ok()) << "what it does not read";
    const RandomModel once = MakeRandomModel(shared, precision);
    const auto copies = NewNativeModel(apart, *Weights::Of(tensors), {.precision = precision});
    ASSERT_TRUE(copies.ok()) << copies.status();
    EXPECT_LT(once->info().weight_bytes, (*copies)->info().weight_bytes * 0.6);
    for (int rows : {1, 30, 300}) {
      const WholeInput input = RandomInput(once->info(), random, rows);
      EXPECT_EQ(Alone(*once, input, threads), Alone(**copies, input, threads)) << rows << " rows";
    }
  }
}

TEST(EtcStack, AnInputThatIsLeftOutIsAsTheModelsFileSays) {
  std::vector<int32_t> source, labels;
  CompleteGlobalInput({.read = true, .tokens_per_global = 3, .token = 7}, 7, source, labels);
  EXPECT_EQ(source, (std::vector<int32_t>{7, 7, 7}));
  EXPECT_EQ(labels, (std::vector<int32_t>{1, 1, 1, 2, 2, 2, 3}));
  source = {4, 5};
  labels.clear();
  CompleteGlobalInput({.read = true, .tokens_per_global = 3, .token = 7}, 7, source, labels);
  EXPECT_EQ(source, (std::vector<int32_t>{4, 5})) << "given";
  EXPECT_EQ(labels, (std::vector<int32_t>{1, 1, 1, 2, 2, 2, 0})) << "there is no third";
  labels = {0, 2, 0, 1, 0, 0, 0};
  CompleteGlobalInput({.read = true, .tokens_per_global = 3, .token = 7}, 7, source, labels);
  EXPECT_EQ(labels, (std::vector<int32_t>{0, 2, 0, 1, 0, 0, 0})) << "given";
  labels.clear();
  CompleteGlobalInput({.read = true}, 7, source, labels);
  EXPECT_TRUE(labels.empty()) << "they belong to none";
}

// Where there are no labels and nothing is hard, all that it says is without effect.
TEST(EtcStack, MembershipIsOfEffectWhereItIsReadAlone) {
  Threads threads(2);
  std::mt19937 random(5);
  for (const Json& options : {kUnlabelled, kHard, Json::object()}) {
    const RandomModel model = MakeRandomModel(Etc("none", options));
    WholeInput input = RandomInput(model->info(), random, 60), other = input;
    std::ranges::reverse(other.labels);
    std::ranges::replace(other.labels, 1, 0);
    const bool same = Alone(*model, input, threads) == Alone(*model, other, threads);
    EXPECT_EQ(same, options == kUnlabelled) << options.dump();
    // Nobody belongs to any: none are given, or all are 0.
    input.labels.assign(60, 0);
    other.labels.clear();
    const Output none = Alone(*model, input, threads), zeros = Alone(*model, other, threads);
    for (size_t i = 0; i < none.size(); ++i) ASSERT_NEAR(none[i], zeros[i], 1e-5) << options.dump();
  }
}

TEST(EtcStack, LongRowsSeeNoFartherThanTheirLayersAndGlobalRowsEverything) {
  Json config = Etc("lm", kHard);  // without a global token nobody's, all is local
  const RandomModel model = MakeRandomModel(config);
  WholeInput input{.ids = std::vector<int32_t>(100, 7), .numbers = {}, .global_ids = {3}, .labels = {}};
  Threads threads(2);
  const Output before = Alone(*model, input, threads);
  input.ids[50] = 8;
  const Output after = Alone(*model, input, threads);
  for (int64_t row = 0; row < 100; ++row) {
    const bool same = std::equal(&before[row * 50], &before[row * 50] + 50, &after[row * 50]);
    EXPECT_EQ(same, row < 50 - 2 * 5 || row > 50 + 2 * 5) << row;
  }
}

TEST(EtcStack, AnswersAreOfTheStreamThatTheHeadIsFor) {
  EXPECT_EQ(MakeRandomModel(Etc("lm"))->Answers(70, 0, 12), 70);
  EXPECT_EQ(MakeRandomModel(Etc("token_classification"))->Answers(70, 0, 12), 70);
  EXPECT_EQ(MakeRandomModel(Etc("classification"))->Answers(70, 0, 12), 1);
  const RandomModel none = MakeRandomModel(Etc("none"));
  ASSERT_EQ(none->Answers(70, 0, 12), 82);
  Threads threads(2);
  std::mt19937 random(5);
  const WholeInput input = RandomInput(none->info(), random, 70);
  const Output all = Alone(*none, input, threads);
  ASSERT_EQ(all.size(), 82u * 32);
  const auto sequence = none->Start();
  Output some;
  std::vector<Work> batch;
  batch.push_back(AskingAll(*none, input, sequence.get(), &some));
  batch[0].wanted = {2, 69, 70, 81};
  const auto pass = none->Begin(&batch);
  while (pass->Advance(threads)) {
  }
  Output expected;
  for (int64_t row : {2, 69, 70, 81})
    expected.insert(expected.end(), all.begin() + row * 32, all.begin() + (row + 1) * 32);
  EXPECT_EQ(some, expected);
}

class EtcStackIn : public testing::TestWithParam<Precision> {};

TEST_P(EtcStackIn, SameBitsWhateverTheCompanyAndTheThreads) {
  for (const Json& config : {Etc("classification"), Etc("none", kHard), Etc("lm", kApart),
                             With(Etc("lm", kUnlabelled), "/share_ffn", false)}) {
    ExpectSameBitsInAnyCompany(*MakeRandomModel(config, GetParam()), 1500);
  }
}

TEST_P(EtcStackIn, AWorkspaceIsWhatIsDeclared) {
  ExpectAWorkspaceAsDeclared(Etc("classification"), GetParam());
  ExpectAWorkspaceAsDeclared(Etc("none", kHard), GetParam());
  ExpectAWorkspaceAsDeclared(Etc("lm", kApart), GetParam());
}

TEST_P(EtcStackIn, APassHoldsWhatIsDeclared) {
  for (const Json& options : {kHard, kApart}) {
    const RandomModel model = MakeRandomModel(Etc("classification", options), GetParam());
    Threads threads(2);
    std::mt19937 random(5);
    for (int64_t rows : {1, 300, 2000}) {
      const WholeInput input = RandomInput(model->info(), random, rows);
      const int64_t state = model->StateBytes(rows, std::ssize(input.global_ids)),
                    before = LastingMemory::Bytes();
      LastingMemory::MeasureAnew();
      Alone(*model, input, threads);
      EXPECT_LE(LastingMemory::Most() - before, state) << rows;
      EXPECT_GE(LastingMemory::Most() - before, state * 0.5) << rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, EtcStackIn,
                         testing::Values(Precision::kF32, Precision::kBf16, Precision::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(EtcStack, ADroppedWorkIsNotReadAndTheOthersAreUnchanged) {
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Etc("classification", kHard)), 4);
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Etc("none", kApart)), 4);
}

TEST(EtcStack, CostsItsProductsAndThePairsThatSeeOneAnother) {
  constexpr double kLong = 1000, kGlobal = 167, kWidth = 32, kHidden = 64, kRadius = 5, kLabels = 9;
  const auto cost = [](const Json& config) { return MakeRandomModel(config)->Cost(1000, 167); };
  const double local = kLong * (2 * kRadius + 1) - kRadius * (kRadius + 1),
               pairs = local + kGlobal * kGlobal + 2 * kLong * kGlobal, rows = kLong + kGlobal,
               layer = rows * (4 * kWidth * kWidth + 2 * kWidth * kHidden) + 2 * kWidth * pairs;
  EXPECT_DOUBLE_EQ(cost(Etc("none", kUnlabelled)), 2 * layer);
  EXPECT_DOUBLE_EQ(cost(Etc("none")), 2 * (layer + rows * kLabels * kWidth));
  EXPECT_DOUBLE_EQ(cost(Etc("none", {{"share_projections", false}, {"max_distance", 0}})),
                   2 * (layer + rows * 2 * kWidth * kWidth))
      << "keys and values of the other stream have weights of their own";
  EXPECT_LT(cost(Etc("none", {{"hard_g2l", true}, {"hard_l2g", true}, {"max_distance", 0}})), 2 * layer);
}

TEST(EtcStack, OfTheLastLayerOnlyTheStreamThatIsReadIsComputed) {
  constexpr double kLong = 1000, kGlobal = 167, kWidth = 32, kHidden = 64, kRadius = 5, kLabels = 5;
  const auto cost = [](const Json& config) { return MakeRandomModel(config)->Cost(1000, 167); };
  const double local = kLong * (2 * kRadius + 1) - kRadius * (kRadius + 1),
               whole = cost(Etc("none", kUnlabelled)),
               row = kWidth * kWidth + 2 * kWidth * kHidden;  // of "o" and of the ffn
  EXPECT_DOUBLE_EQ(cost(Etc("classification", kUnlabelled)),
                   whole - kLong * row - 2 * kWidth * (local + kLong * kGlobal) + kWidth * kLabels);
  EXPECT_DOUBLE_EQ(
      cost(Etc("token_classification", kUnlabelled)),
      whole - kGlobal * row - 2 * kWidth * (kGlobal * kGlobal + kLong * kGlobal) + kLong * kWidth * kLabels);
}

TEST(EtcStack, TellsWhatServersNeed) {
  Json config = Etc("lm");
  config["max_position_embeddings"] = 64;
  const RandomModel model = MakeRandomModel(config);
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, Architecture::kEncoder);
  EXPECT_EQ(info.decode, DecodeClass::kNone);
  EXPECT_TRUE(info.global_input.read);
  EXPECT_TRUE(info.global_input.has_default());
  EXPECT_EQ(info.global_input.tokens_per_global, 6);
  EXPECT_EQ(info.global_input.token, 3);
  EXPECT_EQ(info.max_tokens, 64);
  EXPECT_EQ(info.max_source_tokens, 64);
  EXPECT_EQ(info.layers, 2);
  EXPECT_EQ(info.attention, "etc");
  EXPECT_EQ(info.max_global_tokens, 0) << "its global tokens are none of the input's";
  EXPECT_TRUE(info.answers_tokens);
  ASSERT_EQ(info.attentions.size(), 2u);
  EXPECT_FALSE(info.attentions[0].cross);
  EXPECT_EQ(info.attentions[0].weighing_heads, 0);
  EXPECT_FALSE(MakeRandomModel(Without(config, "global_token"))->info().global_input.has_default());
  EXPECT_FALSE(MakeRandomModel(Without(config, "tokens_per_global"))->info().global_input.has_default());
}

}  // namespace
}  // namespace heed
