// The Funnel-Transformer with random weights. What it computes is the golden cases' affair.
#include <map>

#include "engine/models/native.h"
#include "gmock/gmock.h"
#include "tests/engine/models/whole_inputs.h"

namespace heed {
namespace {

using testing::HasSubstr;

const Json kFull = {{"type", "full"}};

Json Layer(const Json& attention = kFull) { return {{"attention", attention}, {"ffn", {{"type", "dense"}}}}; }

// Three blocks of one layer, two and one.
Json Funnel(const std::string& head, const Json& attention = kFull) {
  Json config = SmallConfig("funnel-encoder", head);
  config.erase("layers");
  const Json layer = Layer(attention);
  config["blocks"] = {{{"layers", {layer}}}, {{"layers", {layer, layer}}}, {{"layers", {layer}}}};
  return config;
}

Json WithDecoder(const std::string& head, const Json& attention = kFull) {
  Json config = Funnel(head);
  config["decoder_layers"] = {Layer(attention)};
  return config;
}

Json Relative(int64_t max_distance = 4000) {
  return {{"type", "relative_segments"}, {"max_distance", max_distance}, {"any_segment", 2}};
}

// Blocks and a decoder whose attentions are alike, and tokens with types.
Json Typed(const Json& attention) {
  Json config = WithDecoder("token_classification", attention);
  config["blocks"] = Funnel("none", attention)["blocks"];
  config["type_vocab_size"] = 3;
  return config;
}

const Stack& StackOf(const Model& model) { return static_cast<const Transformer&>(model).stack(); }

TEST(FunnelStack, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Json funnel = Funnel("none");
  const std::string first = "/blocks/1/layers/0/attention",
                    where = "config.json: blocks[1].layers[0].attention";
  const Case cases[] = {
      {Without(funnel, "vocab_size"), {"vocab_size"}},
      {Without(funnel, "blocks"), {"config.json: blocks: null", "1 to 63"}},
      {With(funnel, "/blocks", 3), {"config.json: blocks: 3", "1 to 63"}},
      {With(funnel, "/blocks", Json::array()), {"config.json: blocks: []", "1 to 63"}},
      {With(funnel, "/blocks", Json::array_t(64, funnel["blocks"][0])), {"config.json: blocks", "1 to 63"}},
      {With(funnel, "/blocks/1", 7), {"config.json: blocks[1]", "7"}},
      {With(funnel, "/blocks/1", Json::object()), {"config.json: blocks[1]", "layers is not a list"}},
      {With(funnel, "/blocks/1/layers", Json::array()), {"config.json: blocks[1]", "layers: 0", "1024"}},
      {With(funnel, "/blocks/1/layer", 1), {"config.json: blocks[1]: unknown key \"layer\""}},
      {With(funnel, "/blocks/1/layers/0/cross_attention", kFull),
       {"config.json: blocks[1].layers[0]: unknown key \"cross_attention\""}},
      {With(funnel, first, 7), {"config.json: blocks[1].layers[0]", "attention is not an object"}},
      {With(funnel, first, {{"type", 7}}), {where, "type: 7"}},
      {With(funnel, first, {{"type", "lsh"}}), {where + ".type", "\"lsh\"", "\"performer\", \"softmax\""}},
      {With(funnel, first, {{"type", "full"}, {"window", 0}}), {where, "window"}},
      {With(funnel, first, {{"type", "softmax"}, {"rope", {{"theta", 10000}}}}),
       {where, "rope", "positions"}},
      {With(funnel, first, {{"type", "softmax"}, {"rope", Json::object()}}), {where, "rope", "positions"}},
      {With(funnel, first, {{"type", "softmax"}, {"alibi", true}}), {where, "alibi", "positions"}},
      {With(funnel, first, {{"type", "softmax"}, {"window", 4}}), {where, "window", "positions"}},
      {With(funnel, first, {{"type", "softmax"}, {"shaw", {{"max_distance", 4}}}}), {where, "shaw"}},
      {With(funnel, first, {{"type", "softmax"}, {"relative_bias", {{"buckets", 4}, {"max_distance", 9}}}}),
       {where, "relative_bias", "positions"}},
      {With(funnel, "/blocks/0/layers/0/attention", {{"type", "axial"}}), {"blocks[0].layers[0]", "axial"}},
      {With(funnel, "/decoder_layers", 3), {"config.json: decoder_layers"}},
      {With(funnel, "/decoder_layers", {{{"ffn", Json::object()}}}), {"decoder_layers[0]", "attention"}},
      {WithDecoder("none", {{"type", "sparse_fixed"}}), {"config.json: decoder_layers[0].attention"}},
      {With(funnel, "/separate_cls", 3), {"separate_cls", "3"}},
      {With(funnel, "/truncate", "no"), {"truncate", "no"}},
      {With(funnel, "/pool", "min"), {"pool", "min", "mean", "max"}},
      {With(funnel, "/pool_keys", 1), {"pool_keys", "1"}},
      {With(funnel, "/pooled_above", 3), {"pooled_above: 3 is above 2"}},
      {With(With(funnel, "/separate_cls", false), "/pooled_above", 2), {"pooled_above: 2 is above 1"}},
      {With(funnel, first, {{"type", "relative_segments"}}), {where, "max_distance is missing"}},
      {With(funnel, "/layers", Json::array({Layer()})), {"unknown key \"layers\""}},
      {With(funnel, "/reversible", true), {"unknown key \"reversible\""}},
      {With(funnel, "/positions", "learned"), {"max_position_embeddings"}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says)
      EXPECT_THAT(RefusalOf(c.config), HasSubstr(word)) << Shown(c.config);
  }
}

TEST(FunnelStack, ReadsOptionsThatAreOff) {
  const Json off = {{"type", "softmax"}, {"alibi", false}, {"window", 0}, {"rope", nullptr}};
  EXPECT_EQ(RefusalOf(Funnel("none", off)), "accepted");
  EXPECT_EQ(RefusalOf(With(Funnel("none"), "/decoder_layers", nullptr)), "accepted");
}

TEST(FunnelStack, AnyEncodersAttentionMayFollowWhereRowsAreTokensAgain) {
  for (const Json& attention :
       {Json{{"type", "softmax"}, {"rope", {{"theta", 10000}}}},
        Json{{"type", "lsh"}, {"chunk_length", 16}, {"num_hashes", 2}, {"num_buckets", 8}},
        Json{{"type", "sliding_window"}, {"window", 16}}}) {
    EXPECT_EQ(RefusalOf(WithDecoder("none", attention)), "accepted") << Shown(attention);
  }
}

TEST(FunnelStack, AMissingTensorIsNamed) {
  const Json config = WithDecoder("token_classification");
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  for (const char* name : {"embed.tokens.weight", "blocks.0.layers.0.norm1.weight",
                           "blocks.1.layers.1.attention.q.weight", "blocks.2.layers.0.ffn.up.weight",
                           "decoder.layers.0.norm2.bias", "norm.weight", "classifier.weight"}) {
    auto missing = tensors;
    ASSERT_EQ(missing.erase(name), 1u) << name;
    const auto model = NewNativeModel(config, *Weights::Of(missing), {});
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(name));
  }
}

// As the definition has it: x[:cls], then pairs of x[cls:-1] or x[cls:].
int64_t PooledOnce(int64_t n, bool separate, bool truncate) {
  int64_t begin = separate ? 1 : 0, end = n - (separate && truncate ? 1 : 0), rows = std::min(begin, n);
  for (; begin < end; begin += 2) ++rows;
  return rows;
}

TEST(FunnelStack, AnswersAsManyRowsAsTheLastBlockHas) {
  for (const bool separate : {true, false}) {
    for (const bool truncate : {true, false}) {
      const Json options = {{"separate_cls", separate}, {"truncate", truncate}};
      Json config = Funnel("none"), decoding = WithDecoder("none");
      config.update(options);
      decoding.update(options);
      const RandomModel model = MakeRandomModel(config), decoder = MakeRandomModel(decoding);
      for (int64_t n = 1; n < 70; ++n) {
        const int64_t once = PooledOnce(n, separate, truncate);
        EXPECT_EQ(model->Answers(n, 0), PooledOnce(once, separate, truncate)) << n << " of " << options;
        EXPECT_EQ(decoder->Answers(n, 0), n);
      }
    }
  }
  EXPECT_EQ(MakeRandomModel(Funnel("classification"))->Answers(50, 0), 1);
}

TEST(FunnelStack, FewRowsMayStay) {
  Json config = Funnel("none");
  const RandomModel all = MakeRandomModel(config), some = MakeRandomModel(With(config, "/pooled_above", 2));
  EXPECT_EQ(all->Answers(2, 0), 1);
  EXPECT_EQ(some->Answers(2, 0), 2);
  for (int64_t n = 5; n < 40; ++n)
    EXPECT_EQ(some->Answers(n, 0), std::max<int64_t>(all->Answers(n, 0), 2)) << n;
  config = With(config, "/separate_cls", false);
  const RandomModel one = MakeRandomModel(With(config, "/pooled_above", 1));
  for (int64_t n = 1; n < 40; ++n) EXPECT_EQ(one->Answers(n, 0), MakeRandomModel(config)->Answers(n, 0)) << n;
}

TEST(FunnelStack, PoolsToTheMeanOrTheLargest) {
  const Json config = Funnel("none");
  Threads threads(2);
  std::mt19937 random(5);
  const RandomModel mean = MakeRandomModel(config), largest = MakeRandomModel(With(config, "/pool", "max")),
                    keys = MakeRandomModel(With(config, "/pool_keys", true));
  const WholeInput few = RandomInput(mean->info(), random, 1), many = RandomInput(mean->info(), random, 50);
  EXPECT_EQ(Alone(*mean, few, threads), Alone(*largest, few, threads)) << "one row is its own mean";
  EXPECT_NE(Alone(*mean, many, threads), Alone(*largest, many, threads));
  EXPECT_NE(Alone(*mean, many, threads), Alone(*keys, many, threads));
  EXPECT_LT(keys->Cost(1000), mean->Cost(1000));
}

TEST(FunnelStack, ReadsAsManyTokensAsItsDistancesReach) {
  const RandomModel model = MakeRandomModel(Funnel("none", Relative(100)));
  EXPECT_EQ(model->info().max_tokens, 102);
  const RandomModel whole = MakeRandomModel(With(Funnel("none", Relative(100)), "/separate_cls", false));
  EXPECT_EQ(whole->info().max_tokens, 101);
}

TEST(FunnelStack, TypesThatAllTokensShareAreNone) {
  const Json config = With(Typed(Relative()), "/head", "none");
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  const std::vector<float> zeros(3 * 32);
  tensors["embed.types.weight"] = {DType::kF32, {3, 32}, zeros.data()};
  const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
  ASSERT_TRUE(model.ok()) << model.status();
  Threads threads(2);
  std::mt19937 random(5);
  WholeInput input = RandomInput((*model)->info(), random, 41);
  input.types.clear();
  const Output none = Alone(**model, input, threads);
  input.types.assign(41, 1);
  EXPECT_EQ(Alone(**model, input, threads), none);
  input.types[20] = 0;
  EXPECT_NE(Alone(**model, input, threads), none);
  input.types.assign(41, 1);
  input.types[20] = 2;
  EXPECT_EQ(Alone(**model, input, threads), none) << "2 is of all segments";
}

TEST(FunnelStack, CountsOfAllInputsTogetherAreNeverMoreThanIsDeclared) {
  std::mt19937 random(3);
  for (const Json& options : {Json{{"separate_cls", true}}, Json{{"truncate", false}},
                              Json{{"separate_cls", false}}, Json{{"pooled_above", 2}}}) {
    Json config = Funnel("none");
    config.update(options);
    const RandomModel model = MakeRandomModel(config);
    for (int round = 0; round < 300; ++round) {
      const int64_t sequences = 1 + random() % 20, longest = 1 + random() % 30;
      ShareSize sum;
      std::vector<int64_t> exact(3);
      for (int64_t i = 0; i < sequences; ++i) {
        const ShareSize size{.rows = static_cast<int64_t>(1 + random() % longest)};
        sum.rows += size.rows;
        for (int set = 0; set < 3; ++set) exact[set] += StackOf(*model).sets()[set].count.exact(size);
      }
      for (int set = 0; set < 3; ++set) {
        const RowCount& count = StackOf(*model).sets()[set].count;
        EXPECT_LE(exact[set], count.most(sum, sequences)) << options;
        EXPECT_LE(exact[set], count.most(sum, sum.rows)) << options << "of how many is not known";
        EXPECT_LE(count.most(sum, sequences), (sum.rows >> set) + 2 * sequences) << options;
      }
    }
  }
}

TEST(FunnelStack, OfAsManyBlocksAsThereMayBeOneRowIsLeft) {
  Json config = WithDecoder("none");
  config["blocks"] = Json::array_t(63, config["blocks"][0]);
  const RandomModel decoder = MakeRandomModel(config),
                    model = MakeRandomModel(Without(config, "decoder_layers"));
  Threads threads(2);
  std::mt19937 random(5);
  const WholeInput input = RandomInput(model->info(), random, 300);
  EXPECT_EQ(Alone(*model, input, threads).size(), 32u);
  EXPECT_EQ(Alone(*decoder, input, threads).size(), 300u * 32);
}

// Nothing is halved, so that what is repeated is what block 0 gave.
TEST(FunnelStack, OneBlocksRowsCountTwiceWhereTheyAreRepeated) {
  Json config = Funnel("none");
  config["norm"] = "post";
  config["blocks"] = Json::array({config["blocks"][0]});
  const RandomModel once = MakeRandomModel(config);
  const RandomModel twice = MakeRandomModel(With(config, "/decoder_layers", Json::array()));
  Threads threads(2);
  std::mt19937 random(5);
  const WholeInput input = RandomInput(once->info(), random, 50);
  Output expected = Alone(*once, input, threads);
  for (float& x : expected) x *= 2;
  EXPECT_EQ(Alone(*twice, input, threads), expected);
}

class FunnelStackIn : public testing::TestWithParam<Precision> {};

TEST_P(FunnelStackIn, SameBitsWhateverTheCompanyAndTheThreads) {
  const Json linear = {{"type", "linear"}};
  for (Json config :
       {Funnel("classification"), Funnel("lm"), WithDecoder("token_classification", linear),
        With(WithDecoder("none"), "/truncate", false), With(Funnel("none", linear), "/separate_cls", false),
        Typed(Relative()), With(With(Typed(Relative()), "/separate_cls", false), "/pool", "max"),
        With(With(Typed(Relative()), "/pool_keys", true), "/pooled_above", 2)}) {
    ExpectSameBitsInAnyCompany(*MakeRandomModel(config, GetParam()), 2500);
  }
}

TEST_P(FunnelStackIn, AWorkspaceIsWhatIsDeclared) {
  for (const Json& config : {Funnel("classification"), WithDecoder("lm"),
                             With(Funnel("none"), "/separate_cls", false), Typed(Relative())}) {
    ExpectAWorkspaceAsDeclared(config, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FunnelStackIn,
                         testing::Values(Precision::kF32, Precision::kBf16, Precision::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(FunnelStack, ADroppedWorkIsNotReadAndTheOthersAreUnchanged) {
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Funnel("classification")), 5);
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(WithDecoder("token_classification")), 6);
}

TEST(FunnelStack, GivesALayerBetweenTwoTurns) {
  const RandomModel model = MakeRandomModel(WithDecoder("lm"));
  Threads threads(2);
  const auto sequence = model->Start();
  Output out;
  std::vector<Work> batch;
  batch.push_back(AskingAll(*model, {.ids = {1, 2, 3}, .numbers = {}}, sequence.get(), &out));
  const auto pass = model->Begin(&batch);
  for (int i = 0; i < 1 + 2 + 1 + 1; ++i) EXPECT_TRUE(pass->Advance(threads)) << i;
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(pass->Advance(threads));
  EXPECT_EQ(out.size(), 3u * 50);
}

// What one layer keeps while it attends is the most that is held, and block 0's layers keep the most.
TEST(FunnelStack, HoldsAndCostsWhatItsRowsDo) {
  const RandomModel funnel = MakeRandomModel(Funnel("classification")),
                    plain = MakeRandomModel(SmallConfig("encoder", "classification"));
  for (int64_t n : {1, 100, 1000}) EXPECT_EQ(funnel->StateBytes(n), plain->StateBytes(n)) << n;
  Json config = Funnel("none");
  config["blocks"] = {config["blocks"][0], config["blocks"][0]};
  const RandomModel two = MakeRandomModel(config);
  config["blocks"] = Json::array({config["blocks"][0]});
  const RandomModel one = MakeRandomModel(config);
  constexpr int64_t kRows = 1024, kHalf = kRows / 2, kWidth = 32, kHidden = 64;
  // Queries, the output and the feed-forward of half the rows, keys and values of all; scores and their sums.
  EXPECT_EQ(
      two->Cost(kRows) - one->Cost(kRows),
      kHalf * kWidth * (2 * kWidth + 2 * kHidden) + kRows * 2 * kWidth * kWidth + kHalf * kRows * 2 * kWidth);
}

TEST(FunnelStack, TellsWhatServersNeed) {
  Json config = Funnel("classification");
  config["max_position_embeddings"] = 64;
  const RandomModel model = MakeRandomModel(config);
  EXPECT_EQ(model->info().architecture, Architecture::kEncoder);
  EXPECT_EQ(model->info().decode, DecodeClass::kNone);
  EXPECT_EQ(model->info().max_tokens, 64);
  EXPECT_EQ(model->info().layers, 4);
  EXPECT_EQ(model->info().attention, "full");
  EXPECT_TRUE(model->info().pooled);
  EXPECT_TRUE(model->info().attentions.empty())
      << "weights are of tokens, and the rows that are answered none";
}

TEST(FunnelStack, WeighsWhereRowsAreTokens) {
  const RandomModel model = MakeRandomModel(WithDecoder("none"));
  ASSERT_EQ(model->info().attentions.size(), 2u);
  EXPECT_EQ(model->info().attentions[1].layer, 4);
  Threads threads(2);
  const auto sequence = model->Start();
  Output out;
  std::vector<LayerWeights> weights;
  std::vector<Work> batch;
  batch.push_back(AskingAll(*model, {.ids = {1, 2, 3}, .numbers = {}}, sequence.get(), &out));
  batch[0].weights = &weights;
  const auto pass = model->Begin(&batch);
  while (pass->Advance(threads)) {
  }
  ASSERT_EQ(weights.size(), 2u);
  for (const LayerWeights& layer : weights) {
    EXPECT_EQ(layer.rows, 3);
    EXPECT_EQ(layer.keys, 3);
    EXPECT_NEAR(std::accumulate(layer.weights.begin(), layer.weights.end(), 0.0), 4 * 3, 1e-4);
  }
}

}  // namespace
}  // namespace heed
