// What layers have beside their rows: inputs of their own, and keys and values of another layer.
#include "engine/models/layer_inputs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/naive_rows.h"
#include "tests/engine/models/state.h"

namespace heed {
namespace {

using testing::HasSubstr;

constexpr int64_t kSize = 6;

WholeInput Tokens() { return {.ids = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}}; }

// Layers without a feed-forward, whose attention gives nothing.
Json Still(const Json& attention) {
  Json config = SmallConfig("decoder", "none", attention);
  config["norm_last"] = false;
  for (Json& layer : config["layers"]) layer["ffn"] = {{"type", "none"}};
  return config;
}

void Silence(const std::string& layer, Tensors& tensors) {
  for (const char* part : {".weight", ".bias"}) {
    const auto found = tensors.find(layer + ".attention.o" + part);
    if (found == tensors.end()) continue;
    const std::vector<int64_t> shape = found->second.shape;
    found->second = TensorOf({Row(found->second.size(), 0)});
    found->second.shape = shape;
  }
}

// ------------------------------------------------------------------------------------------- inputs

Row Part(const Row& row, int64_t i) { return {row.begin() + i * kSize, row.begin() + (i + 1) * kSize}; }

Row Product(Row x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] *= y.at(i);
  return x;
}

Row Gelu(Row x) {
  for (double& number : x) number *= std::erfc(-number / std::sqrt(2)) / 2;
  return x;
}

Row Defined(const Tensors& tensors, int32_t id, int64_t layers, bool table) {
  Row x = RowOf(tensors, "embed.tokens.weight", id);
  const Row all = Projected(tensors, "layer_inputs.projection", x);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    Row input = Normed(tensors, "layer_inputs.norm", Part(all, i));
    if (table) {
      const Row token = Part(RowOf(tensors, "embed.layer_inputs.weight", id), i);
      input = Times(Sum(input, Times(token, std::sqrt(kSize))), std::sqrt(0.5));
    }
    const Row gated = Product(Gelu(Projected(tensors, layer + ".input.gate", x)), input);
    x = Sum(x, Normed(tensors, layer + ".input.norm", Projected(tensors, layer + ".input.out", gated)));
    x = Times(x, RowOf(tensors, layer + ".layer_scale.weight")[0]);
  }
  return x;
}

TEST(LayerInputs, AreMadeOfTheFirstRowAndOfTheToken) {
  for (const bool table : {false, true}) {
    Json config = Still({{"type", "full"}});
    config["layer_inputs"] = {{"size", kSize}, {"table", table}};
    for (Json& layer : config["layers"]) layer["layer_scale"] = true;
    const int64_t layers = std::ssize(config["layers"]);
    Tensors tensors = RandomTensorsOf(config);
    EXPECT_EQ(tensors.contains("embed.layer_inputs.weight"), table);
    for (int64_t i = 0; i < layers; ++i) Silence("layers." + std::to_string(i), tensors);
    std::vector<Row> expected;
    for (const int32_t id : Tokens().ids) expected.push_back(Defined(tensors, id, layers, table));
    ExpectNear(Answers(*ModelOf(config, tensors), Tokens()), expected, 1e-4, table ? "table" : "rows alone");
    EXPECT_LT(MeanDistance(Answers(*ModelOf(config, tensors, Precision::kBf16), Tokens()), expected), 0.05);
    EXPECT_LT(MeanDistance(Answers(*ModelOf(config, tensors, Precision::kInt8), Tokens()), expected), 0.1);
  }
}

Json WithInputs(const std::string& architecture) {
  Json config = SmallConfig(architecture, "lm");
  config["layer_inputs"] = {{"size", 40}, {"table", true}};
  return config;
}

TEST(LayerInputs, ChangeNoBitInAnyCompany) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
    ExpectSameBitsInAnyCompany(*MakeRandomModel(WithInputs("encoder"), precision), 300);
}

TEST(LayerInputs, AreCountedInTheWorkspace) {
  for (Precision precision : {Precision::kF32, Precision::kInt8})
    ExpectAWorkspaceAsDeclared(WithInputs("encoder"), precision);
}

TEST(LayerInputs, RefusalsNameTheField) {
  const Json config = WithInputs("decoder");
  EXPECT_THAT(RefusalOf(With(config, "/layer_inputs/size", 0)), HasSubstr("layer_inputs.size: 0"));
  EXPECT_THAT(RefusalOf(With(config, "/layer_inputs/size", 200000)), HasSubstr("above 262144"));
  EXPECT_THAT(RefusalOf(With(config, "/layer_inputs", 8)), HasSubstr("layer_inputs is not an object"));
  EXPECT_THAT(RefusalOf(With(config, "/reversible", true)), HasSubstr("layer_inputs: of an encoder or a"));
  EXPECT_THAT(RefusalOf(WithInputs("encoder-decoder")), HasSubstr("layer_inputs: of an encoder or a"));
}

// --------------------------------------------------------------------------------------- shared keys

const Json kWindow = {
    {"type", "softmax"}, {"window", 150}, {"rope", Json::object()}, {"num_key_value_heads", 2}};

// Two layers that read the same rows.
struct Both {
  std::unique_ptr<const Model> shared, own;
};

Both SharedAndOwn(const Json& attention, Precision precision) {
  const Json own = Still(attention);
  Tensors tensors = RandomTensorsOf(own);
  Silence("layers.0", tensors);
  for (const char* name : {"attention.k.weight", "attention.k.bias", "attention.v.weight", "attention.v.bias",
                           "norm1.weight", "norm1.bias"}) {
    const std::string first = std::string("layers.0.") + name, second = std::string("layers.1.") + name;
    if (tensors.contains(first)) tensors[second] = tensors[first];
  }
  Both both{.shared = {}, .own = ModelOf(own, tensors, precision)};
  std::erase_if(tensors, [](const auto& tensor) {
    return tensor.first.starts_with("layers.1.attention.k.") ||
           tensor.first.starts_with("layers.1.attention.v.");
  });
  both.shared = ModelOf(With(own, "/layers/1/keys_of", 0), tensors, precision);
  return both;
}

Output Feed(const Model& model, Sequence& sequence, int64_t first, int64_t count, bool more = false) {
  WholeInput input;
  for (int64_t i = first; i < first + count; ++i) input.ids.push_back(static_cast<int32_t>(i * 7 % 50));
  Output output;
  std::vector<Work> batch;
  batch.push_back(AskingAll(model, input, &sequence, &output));
  batch.back().more = more;
  Threads threads(2);
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return output;
}

TEST(SharedKeys, AreThoseOfTheOtherLayerAndHeldOnce) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    for (const Json& attention : {Json{{"type", "softmax"}, {"v_norm", true}}, kWindow}) {
      const Both both = SharedAndOwn(attention, precision);
      const auto a = both.shared->Start(), b = both.own->Start();
      int64_t at = 0;
      for (const int64_t count : {1, 1, 300, 7, 520, 1, 40}) {
        EXPECT_EQ(Feed(*both.shared, *a, at, count), Feed(*both.own, *b, at, count)) << at;
        at += count;
        EXPECT_LE(MeasuredBytes(*a), both.shared->StateBytes(at)) << at;
        EXPECT_LT(MeasuredBytes(*a), MeasuredBytes(*b) * 0.6) << at;
      }
    }
  }
}

TEST(SharedKeys, AreTheSameBitsHoweverRowsComeAndWhereverASequenceGoesOn) {
  const Both both = SharedAndOwn(kWindow, Precision::kF32);
  const Model& model = *both.shared;
  const auto whole = model.Start(), chunks = model.Start();
  const Output all = Feed(model, *whole, 0, 600);
  Output parts = Feed(model, *chunks, 0, 256, /*more=*/true);
  const auto copy = chunks->Clone(), restored = RestoredSequence(model, StateOf(*chunks));
  Output rest = Feed(model, *chunks, 256, 344);
  EXPECT_EQ(Feed(model, *copy, 256, 344), rest);
  EXPECT_EQ(Feed(model, *restored, 256, 344), rest);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, all);
  EXPECT_EQ(StateOf(*chunks), StateOf(*whole));
  ExpectDamageIsNoCrash(model, StateOf(*whole));
}

TEST(SharedKeys, RefusalsNameTheField) {
  const Json config = SmallConfig("decoder", "lm", kWindow);
  EXPECT_EQ(RefusalOf(With(config, "/layers/1/keys_of", 0)), "accepted");
  EXPECT_THAT(RefusalOf(With(config, "/layers/1/keys_of", 1)),
              HasSubstr("layers[1].keys_of: 1 is no layer before it"));
  EXPECT_THAT(RefusalOf(With(config, "/layers/0/keys_of", 5)), HasSubstr("layers[0].keys_of: 5"));
  EXPECT_THAT(RefusalOf(With(With(config, "/layers/1/keys_of", 0), "/layers/1/attention/window", 9)),
              HasSubstr("layers[1].keys_of: 0: both attentions must have the same options"));
  EXPECT_THAT(RefusalOf(With(SmallConfig("decoder", "lm"), "/layers/1/keys_of", 0)),
              HasSubstr("of type \"softmax\""));
  EXPECT_THAT(RefusalOf(With(SmallConfig("encoder", "lm", kWindow), "/layers/1/keys_of", 0)),
              HasSubstr("keys_of: of layers of one decoder"));
  Json sinks = SmallConfig("decoder", "lm", {{"type", "softmax"}, {"learned_sink", true}});
  EXPECT_THAT(RefusalOf(With(sinks, "/layers/1/keys_of", 0)), HasSubstr("keys_of: not with relative_bias"));
}

}  // namespace
}  // namespace heed
