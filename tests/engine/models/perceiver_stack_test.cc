// The Perceiver with random weights. What it computes is the golden cases' affair.
#include <map>

#include "engine/models/native.h"
#include "gmock/gmock.h"
#include "tests/engine/models/whole_inputs.h"

namespace heed {
namespace {

using testing::HasSubstr;

// Blocks of which the third has the first's weights.
Json Perceiver(const std::string& kind, const std::string& head) {
  Json config = SmallConfig("perceiver-encoder", head);
  config["layers"] = Json::array({config["layers"][0]});
  config.update({{"input", {{"kind", kind}}},
                 {"input_size", 24},
                 {"num_latents", 10},
                 {"cross_attention", {{"type", "full"}, {"num_heads", 2}}},
                 {"block_weights", {0, 1, 0}},
                 {"positions", "sinusoidal"}});
  if (kind == "floats") config.erase("vocab_size");
  return config;
}

TEST(PerceiverStack, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Json tokens = Perceiver("tokens", "none"), floats = Perceiver("floats", "classification");
  const std::string where = "config.json: cross_attention";
  const Case cases[] = {
      {Without(tokens, "input"), {"config.json: input", "null"}},
      {With(tokens, "/input", "tokens"), {"config.json: input", "\"tokens\""}},
      {With(tokens, "/input", Json::object()), {"config.json: input: kind is missing"}},
      {With(tokens, "/input/kind", "patches"), {"config.json: input.kind", "patches", "tokens", "floats"}},
      {With(tokens, "/input/size", 3), {"config.json: input: unknown key \"size\""}},
      {Without(tokens, "vocab_size"), {"vocab_size"}},
      {With(floats, "/vocab_size", 50), {"vocab_size: 50", "floats"}},
      {Without(tokens, "input_size"), {"input_size is missing"}},
      {With(tokens, "/input_size", 0), {"input_size: 0 is below 1"}},
      {With(tokens, "/input_size", int64_t{1} << 62), {"input_size", "above 65536"}},
      {Without(tokens, "num_latents"), {"num_latents is missing"}},
      {With(tokens, "/num_latents", 0), {"num_latents: 0 is below 1"}},
      {With(tokens, "/num_latents", int64_t{1} << 62), {"num_latents", "above 1048576"}},
      {With(tokens, "/cross_attention", 3), {"cross_attention is not an object"}},
      {With(tokens, "/cross_attention", Json::object()), {where}},
      {With(tokens, "/cross_attention/type", 3), {where + ".type"}},
      {With(tokens, "/cross_attention/type", "axial"), {where}},
      {With(tokens, "/cross_attention/type", "sliding_window"), {where}},
      {With(tokens, "/cross_attention", {{"type", "synthesizer"}, {"form", "dense"}, {"n_max", 20}}),
       {where}},
      {With(tokens, "/cross_attention/num_heads", 33), {where + ".num_heads", "33", "32"}},
      {With(tokens, "/cross_attention/num_heads", 5), {where, "5 heads"}},
      {With(tokens, "/cross_attention", {{"type", "softmax"}, {"window", 4}}), {where + ".window", "4"}},
      {Without(tokens, "layers"), {"layers is not a list"}},
      {With(tokens, "/layers/0/attention/type", "sparse_fixed"), {"config.json: layers[0].attention"}},
      {With(tokens, "/layers/0/attention",
            {{"type", "linformer"}, {"k", 4}, {"n_max", 9}, {"sharing", "headwise"}}),
       {"linformer", "9 rows", "fewer"}},
      {Without(tokens, "block_weights"), {"block_weights is missing"}},
      {With(tokens, "/block_weights", 0), {"block_weights: 0", "1 to 1024"}},
      {With(tokens, "/block_weights", Json::array()), {"block_weights: []", "1 to 1024"}},
      {With(tokens, "/block_weights", Json::array_t(1025, 0)), {"block_weights", "1 to 1024"}},
      {With(tokens, "/block_weights", {0, -1}), {"block_weights: -1", "0 to 1023"}},
      {With(tokens, "/block_weights", {1024}), {"block_weights: 1024", "0 to 1023"}},
      {With(tokens, "/block_weights", {0.5}), {"block_weights: 0.5"}},
      {With(tokens, "/norm", "post"), {"norm", "\"pre\""}},
      {With(tokens, "/head", "lm"), {"head", "lm", "classification"}},
      {With(tokens, "/cross_ffn", 3), {"cross_ffn is not an object"}},
      {With(tokens, "/cross_ffn", {{"type", "none of these"}}), {"config.json: cross_ffn"}},
      {With(tokens, "/layer_passes", 0), {"layer_passes: 0 is below 1"}},
      {With(tokens, "/output", 3), {"config.json: output"}},
      {With(tokens, "/output", Json::object()), {"config.json: output.queries is missing"}},
      {With(tokens, "/output", {{"queries", 0}}), {"queries: 0 is below 1"}},
      {With(tokens, "/output", {{"queries", 2}, {"size", 0}}), {"size: 0 is below 1"}},
      {With(tokens, "/output", {{"queries", 2}, {"ffn", 7}}), {"output", "ffn is not an object"}},
      {With(tokens, "/output", {{"queries", 2}, {"layers", 7}}), {"unknown key \"layers\""}},
      {With(tokens, "/output", {{"queries", 2}, {"cross_attention", {{"type", "axial"}}}}),
       {"config.json: output.cross_attention"}},
      {With(With(tokens, "/output", {{"queries", 2}}), "/head", "token_classification"),
       {"head", "token_classification"}},
      {With(tokens, "/head", "token_classification"), {"head", "token_classification"}},
      {With(tokens, "/pooling", "mean"), {"pooling", "all latents"}},
      {With(floats, "/pooling", "first"), {"pooling", "first", "mean"}},
      {With(tokens, "/positions", "learned"), {"max_position_embeddings"}},
      {With(tokens, "/reversible", true), {"unknown key \"reversible\""}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says)
      EXPECT_THAT(RefusalOf(c.config), HasSubstr(word)) << Shown(c.config);
  }
}

TEST(PerceiverStack, ReadsAnyAttentionThatReadsASource) {
  const Json tokens = Perceiver("tokens", "none");
  EXPECT_EQ(RefusalOf(Without(tokens, "cross_attention")), "accepted");
  for (const Json& attention :
       {Json{{"type", "softmax"}, {"num_key_value_heads", 1}}, Json{{"type", "linear"}},
        Json{{"type", "performer"}, {"kernel", "softmax"}, {"num_features", 8}}}) {
    EXPECT_EQ(RefusalOf(With(tokens, "/cross_attention", attention)), "accepted") << Shown(attention);
  }
  EXPECT_EQ(RefusalOf(With(Perceiver("floats", "classification"), "/pooling", "mean")), "accepted");
}

TEST(PerceiverStack, AMissingTensorIsNamed) {
  Json config = Perceiver("tokens", "classification");
  config.update({{"positions", "learned"}, {"max_position_embeddings", 64}});
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  for (const char* name :
       {"latents", "embed.tokens.weight", "embed.positions.weight", "blocks.0.norm_cross.weight",
        "blocks.1.norm_input.bias", "blocks.1.norm_ffn.weight", "blocks.0.cross_attention.k.weight",
        "blocks.1.ffn.up.weight", "blocks.0.layers.0.attention.q.weight", "norm.weight", "classifier.bias"}) {
    auto missing = tensors;
    ASSERT_EQ(missing.erase(name), 1u) << name;
    const auto model = NewNativeModel(config, *Weights::Of(missing), {});
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(name));
  }
}

TEST(PerceiverStack, BlocksOfOneWeightAreAsBlocksWithCopiesOfIt) {
  const Json shared = Perceiver("tokens", "classification");
  std::map<std::string, Tensor> tensors = RandomTensorsOf(shared);
  const Json apart = With(shared, "/block_weights", {0, 1, 2});
  const std::string first = "blocks.0.";
  for (const auto& [name, tensor] : std::map(tensors)) {
    if (name.starts_with(first)) tensors["blocks.2." + name.substr(first.size())] = tensor;
  }
  Threads threads(2);
  std::mt19937 random(5);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const auto one = NewNativeModel(shared, *RandomWeightsFor(shared), {.precision = precision}),
               other = NewNativeModel(apart, *Weights::Of(tensors), {.precision = precision});
    ASSERT_TRUE(one.ok() && other.ok());
    for (int rows : {1, 30, 300}) {
      const WholeInput input = RandomInput((*one)->info(), random, rows);
      EXPECT_EQ(Alone(**one, input, threads), Alone(**other, input, threads)) << rows << " rows";
    }
  }
}

TEST(PerceiverStack, BlocksWithoutLayersAreAsBlocksWhoseLayersAddNothing) {
  const Json layered = Perceiver("tokens", "classification"), bare = With(layered, "/layers", Json::array());
  std::map<std::string, Tensor> tensors = RandomTensorsOf(layered), rest;
  for (auto& [name, tensor] : tensors) {
    const bool of_layer = name.find(".layers.") != name.npos;
    if (!of_layer) rest[name] = tensor;
    if (!of_layer || (name.find(".o.") == name.npos && name.find(".down.") == name.npos)) continue;
    const auto zeros = std::make_shared<Buffer>(Buffer::Zeros(tensor.size() * SizeOf(tensor.dtype)));
    tensor.data = zeros->as<char>();
    tensor.memory = zeros;
  }
  const auto one = NewNativeModel(bare, *Weights::Of(rest), {}),
             other = NewNativeModel(layered, *Weights::Of(tensors), {});
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*one)->info().layers, 2) << "two weights of a cross-attention";
  Threads threads(2);
  std::mt19937 random(5);
  const WholeInput input = RandomInput((*one)->info(), random, 30);
  EXPECT_EQ(Alone(**one, input, threads), Alone(**other, input, threads));
}

TEST(PerceiverStack, WeightsCountOnceAndMultiplyAddsAsOftenAsTheyRun) {
  const Json once = With(Perceiver("floats", "none"), "/block_weights", {0}),
             thrice = With(once, "/block_weights", {0, 0, 0});
  const RandomModel one = MakeRandomModel(once), three = MakeRandomModel(thrice);
  EXPECT_EQ(three->info().weight_bytes, one->info().weight_bytes);
  EXPECT_EQ(three->info().layers, one->info().layers);
  EXPECT_EQ(three->StateBytes(1000), one->StateBytes(1000));
  EXPECT_DOUBLE_EQ(three->Cost(1000), 3 * one->Cost(1000));
  constexpr int64_t kLatents = 10, kWidth = 32, kInput = 24, kHidden = 64;
  const int64_t cross = kLatents * 2 * kWidth * kWidth + 1000 * 2 * kWidth * kInput +
                        kLatents * 1000 * 2 * kWidth,
                layer = kLatents * 4 * kWidth * kWidth + kLatents * kLatents * 2 * kWidth,
                feed_forward = kLatents * 2 * kWidth * kHidden;
  EXPECT_EQ(one->Cost(1000), cross + layer + 2 * feed_forward);
}

TEST(PerceiverStack, AnswersItsLatentsWhateverTheLengthOfTheInput) {
  const RandomModel model = MakeRandomModel(Perceiver("floats", "none"));
  Threads threads(2);
  std::mt19937 random(5);
  for (int rows : {1, 10, 100}) {
    const WholeInput input = RandomInput(model->info(), random, rows);
    const Output all = Alone(*model, input, threads);
    ASSERT_EQ(all.size(), 10u * 32);
    const auto sequence = model->Start();
    Output some;
    std::vector<Work> batch;
    batch.push_back(AskingAll(*model, input, sequence.get(), &some));
    batch[0].wanted = {2, 9};
    const auto pass = model->Begin(&batch);
    while (pass->Advance(threads)) {
    }
    EXPECT_EQ(Output(all.begin() + 2 * 32, all.begin() + 3 * 32), Output(some.begin(), some.begin() + 32));
    EXPECT_EQ(Output(all.begin() + 9 * 32, all.end()), Output(some.begin() + 32, some.end()));
  }
}

// Queries of another width that read the latents; a table of tokens as wide.
Json WithOutput(const std::string& head, int64_t queries = 7) {
  Json config = Perceiver("tokens", head);
  config["output"] = {{"queries", queries},
                      {"size", 24},
                      {"cross_attention", {{"type", "softmax"}, {"num_heads", 3}, {"head_dim", 5}}},
                      {"ffn", {{"type", "dense"}, {"intermediate_size", 20}}}};
  config["layer_passes"] = 2;
  return config;
}

TEST(PerceiverStack, AnswersAsManyRowsAsThereAreQueries) {
  Threads threads(2);
  std::mt19937 random(5);
  const RandomModel rows = MakeRandomModel(WithOutput("none")), tokens = MakeRandomModel(WithOutput("lm")),
                    one = MakeRandomModel(WithOutput("classification", 1));
  EXPECT_EQ(rows->info().output_width, 24);
  EXPECT_TRUE(one->info().pooled);
  for (int n : {1, 10, 100}) {
    const WholeInput input = RandomInput(rows->info(), random, n);
    EXPECT_EQ(Alone(*rows, input, threads).size(), 7u * 24);
    EXPECT_EQ(Alone(*tokens, input, threads).size(), 7u * 50);
    EXPECT_EQ(Alone(*one, input, threads).size(), 5u);
  }
}

TEST(PerceiverStack, QueriesOfZerosHaveNoResidualEither) {
  const Json adds = WithOutput("none"), replaces = With(adds, "/output/residual", false);
  std::map<std::string, Tensor> tensors = RandomTensorsOf(adds);
  Threads threads(2);
  const auto answer = [&](const Json& config) {
    std::mt19937 same(7);
    const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
    return Alone(**model, RandomInput((*model)->info(), same, 30), threads);
  };
  EXPECT_NE(answer(adds), answer(replaces));
  const std::vector<float> zeros(7 * 24);
  tensors["output.queries"] = {DType::kF32, {7, 24}, zeros.data()};
  EXPECT_EQ(answer(adds), answer(replaces));
}

TEST(PerceiverStack, LayersThatArePassedTwiceAreAsLayersWithCopiesOfTheirWeights) {
  Json twice = With(Perceiver("tokens", "classification"), "/layer_passes", 2),
       copied = Perceiver("tokens", "classification");
  copied["layers"].push_back(copied["layers"][0]);
  std::map<std::string, Tensor> tensors = RandomTensorsOf(twice);
  for (const auto& [name, tensor] : std::map(tensors)) {
    const size_t at = name.find(".layers.0.");
    if (at != name.npos) tensors[std::string(name).replace(at, 10, ".layers.1.")] = tensor;
  }
  const auto one = NewNativeModel(twice, *RandomWeightsFor(twice), {}),
             other = NewNativeModel(copied, *Weights::Of(tensors), {});
  ASSERT_TRUE(one.ok() && other.ok());
  Threads threads(2);
  std::mt19937 random(5);
  for (int rows : {1, 30, 300}) {
    const WholeInput input = RandomInput((*one)->info(), random, rows);
    EXPECT_EQ(Alone(**one, input, threads), Alone(**other, input, threads)) << rows << " rows";
  }
  EXPECT_LT((*one)->info().weight_bytes, (*other)->info().weight_bytes);
}

class PerceiverStackIn : public testing::TestWithParam<Precision> {};

TEST_P(PerceiverStackIn, SameBitsWhateverTheCompanyAndTheThreads) {
  for (const Json& config :
       {Perceiver("tokens", "classification"), Perceiver("floats", "none"),
        With(Perceiver("floats", "classification"), "/cross_attention", {{"type", "linear"}}),
        WithOutput("lm"), With(WithOutput("classification", 1), "/output/residual", false)}) {
    ExpectSameBitsInAnyCompany(*MakeRandomModel(config, GetParam()), 2500);
  }
}

TEST_P(PerceiverStackIn, AWorkspaceIsWhatIsDeclared) {
  ExpectAWorkspaceAsDeclared(Perceiver("tokens", "classification"), GetParam());
  ExpectAWorkspaceAsDeclared(Perceiver("floats", "none"), GetParam());
  ExpectAWorkspaceAsDeclared(WithOutput("lm"), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Every, PerceiverStackIn,
                         testing::Values(Precision::kF32, Precision::kBf16, Precision::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(PerceiverStack, ADroppedWorkIsNotReadAndTheOthersAreUnchanged) {
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Perceiver("tokens", "classification")), 7);
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Perceiver("floats", "none")), 7);
}

TEST(PerceiverStack, GivesALayerBetweenTwoTurnsThoseThatArePassedAgainToo) {
  const RandomModel model = MakeRandomModel(Perceiver("tokens", "classification"));
  Threads threads(2);
  const auto sequence = model->Start();
  Output out;
  std::vector<Work> batch;
  batch.push_back(AskingAll(*model, {.ids = {1, 2, 3}, .numbers = {}}, sequence.get(), &out));
  const auto pass = model->Begin(&batch);
  for (int i = 0; i < 3 * 2; ++i) EXPECT_TRUE(pass->Advance(threads)) << i;
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(pass->Advance(threads));
  EXPECT_EQ(out.size(), 5u);
}

TEST(PerceiverStack, TellsWhatServersNeed) {
  Json config = Perceiver("floats", "none");
  config["max_position_embeddings"] = 64;
  config["layers"][0]["attention"] = {{"type", "sliding_window"}, {"window", 4}, {"global_tokens", {0}}};
  const RandomModel model = MakeRandomModel(config);
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, Architecture::kEncoder);
  EXPECT_EQ(info.decode, DecodeClass::kNone);
  EXPECT_EQ(info.input.ids, 0);
  EXPECT_EQ(info.input.numbers, 24);
  EXPECT_EQ(info.vocab_size, 0);
  EXPECT_EQ(info.max_tokens, 64);
  EXPECT_EQ(info.layers, 4) << "two weights of a cross-attention and a layer each";
  EXPECT_EQ(info.attention, "full+sliding_window");
  EXPECT_FALSE(info.pooled);
  EXPECT_EQ(info.max_global_tokens, 0) << "a request has no word on latents";
  EXPECT_TRUE(info.attentions.empty()) << "weights are of tokens, and latents are none";
}

}  // namespace
}  // namespace heed
