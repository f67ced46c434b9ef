// What stands between the rows of a stack and its answers, in whole models: layers of the head, and what
// becomes of the answer.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/naive_rows.h"
#include "tests/testing/random_weights.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Encoder(const std::string& head, const Json& options) {
  Json config = SmallConfig("encoder", head);
  config.update(options);
  return config;
}

WholeInput Tokens(int64_t rows) {
  WholeInput input;
  for (int32_t i = 0; i < rows; ++i) input.ids.push_back(i * 7 % 50);
  return input;
}

double Activated(const std::string& act, double x) {
  if (act == "relu") return std::max(x, 0.0);
  if (act == "tanh") return std::tanh(x);
  if (act == "gelu") return x * std::erfc(-x / std::sqrt(2)) / 2;
  return x;
}

Row LogSoftmax(Row x) {
  double sum = 0;
  for (const double number : x) sum += std::exp(number);
  for (double& number : x) number -= std::log(sum);
  return x;
}

// Of clusters of tokens: p(token) = p(cluster) p(token in the cluster).
Row Clustered(const Tensors& tensors, const Json& clusters, const Row& x) {
  const auto scores = [&](size_t i) {
    const std::string name = "lm_head." + std::to_string(i);
    const bool narrow = tensors.contains(name + ".projection.weight");
    return LogSoftmax(Projected(tensors, name, narrow ? Projected(tensors, name + ".projection", x) : x));
  };
  const Row first = scores(0);
  const auto tokens = clusters[0]["tokens"].get<int64_t>();
  Row all(first.begin(), first.begin() + tokens);
  for (size_t i = 1; i < clusters.size(); ++i) {
    for (const double number : scores(i)) all.push_back(first[tokens + i - 1] + number);
  }
  return all;
}

// The definition, of a row of the stack or a pooled one.
Row Answered(const Tensors& tensors, const Json& config, Row x) {
  const Json layers = config.value("head_layers", Json::array());
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = "head_layers." + std::to_string(i);
    x = Projected(tensors, name, x);
    for (double& number : x) number = Activated(layers[i].value("hidden_act", ""), number);
    if (layers[i].value("norm", false)) x = Normed(tensors, name + ".norm", x);
  }
  if (config.contains("head_clusters")) {
    x = Clustered(tensors, config["head_clusters"], x);
  } else if (config["head"] == "lm") {
    Tensors last = tensors;
    if (!tensors.contains("lm_head.weight")) last["lm_head.weight"] = tensors.at("embed.tokens.weight");
    x = Projected(last, "lm_head", x);
  } else if (config["head"] != "none") {
    x = Projected(tensors, "classifier", x);
  }
  const double cap = config.value("logits_soft_cap", 0.0);
  for (double& number : x) {
    number *= config.value("logits_scale", 1.0);
    if (cap > 0) number = cap * std::tanh(number / cap);
  }
  return x;
}

// Of the rows that the same stack gives without a head.
std::vector<Row> AnswersByDefinition(const Json& config, const Tensors& tensors, const WholeInput& input) {
  Json bare = config;
  for (const char* key : {"head_layers", "head_clusters", "logits_scale", "logits_soft_cap", "num_labels"})
    bare.erase(key);
  bare["head"] = "none";
  if (config["head"] == "classification" && !config.contains("pooling")) bare["pooling"] = "first";
  Tensors of_stack = tensors;
  std::erase_if(of_stack, [](const auto& tensor) {
    return tensor.first.starts_with("head_layers.") || tensor.first.starts_with("classifier.") ||
           tensor.first.starts_with("lm_head.");
  });
  std::vector<Row> rows = Answers(*ModelOf(bare, of_stack), input);
  for (Row& row : rows) row = Answered(tensors, config, row);
  return rows;
}

const Json kTanh = {{"hidden_act", "tanh"}};
const Json kTransform = {{"hidden_act", "gelu"}, {"norm", true}};
const Json kWide = {{"width", 100}, {"hidden_act", "relu"}, {"norm", true}};
const Json kNarrow = {{"width", 24}, {"norm", true}};
const Json kPlain = {{"width", 70}};
const Json kClusters = {{{"tokens", 30}}, {{"tokens", 12}, {"width", 16}}, {{"tokens", 8}, {"width", 5}}};

std::vector<Json> Examples() {
  return {
      Encoder("lm", {{"head_layers", Json::array({kTransform})}}),
      Encoder("lm", {{"head_layers", Json::array({kWide, kPlain, Json::object()})}, {"logits_scale", 0.25}}),
      Encoder("lm",
              {{"head_layers", Json::array({{{"width", 16}, {"norm", true}}})}, {"embedding_size", 16}}),
      Encoder("lm", {{"logits_soft_cap", 3}}),
      Encoder("lm", {{"head_clusters", kClusters}}),
      Encoder("lm", {{"head_clusters", Json::array({{{"tokens", 50}, {"width", 20}}})}, {"logits_scale", 2}}),
      Encoder("lm", {{"logits_soft_cap", 2.5}, {"logits_scale", 4}, {"norm_type", "rms"}}),
      Encoder("classification", {{"head_layers", Json::array({kTanh})}}),
      Encoder("classification",
              {{"head_layers", Json::array({kWide, kNarrow, kPlain})}, {"pooling", "mean"}}),
      Encoder("token_classification", {{"head_layers", Json::array({kTransform})}, {"logits_scale", -2}}),
      Encoder("none", {{"head_layers", Json::array({kWide, kNarrow})}}),
      Encoder("none", {{"head_layers", Json::array({kPlain, kTanh})}, {"pooling", "last"}}),
  };
}

TEST(Head, IsItsDefinition) {
  for (const Json& config : Examples()) {
    const Tensors tensors = RandomTensorsOf(config);
    const WholeInput input = Tokens(70);
    ExpectNear(Answers(*ModelOf(config, tensors), input), AnswersByDefinition(config, tensors, input), 5e-4,
               CanonicalText(config));
  }
}

TEST(Head, OfReducedPrecisionIsNear) {
  for (const Json& config : Examples()) {
    const Tensors tensors = RandomTensorsOf(config);
    const WholeInput input = Tokens(70);
    const std::vector<Row> exact = Answers(*ModelOf(config, tensors), input);
    const double size = MeanDistance(exact, std::vector<Row>(exact.size(), Row(exact[0].size())));
    for (Precision precision : {Precision::kBf16, Precision::kInt8}) {
      const std::vector<Row> near = Answers(*ModelOf(config, tensors, precision), input);
      EXPECT_LT(MeanDistance(near, exact), 0.15 * size) << CanonicalText(config) << Name(precision);
    }
  }
}

TEST(Head, HasTheSameBitsInAnyCompany) {
  for (const Json& config : Examples()) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
      ExpectSameBitsInAnyCompany(*MakeRandomModel(config, precision), 100);
  }
}

TEST(Head, AWorkspaceIsAsDeclared) {
  const Json config = Encoder("lm", {{"head_layers", Json::array({kWide, {{"width", 300}}, kTransform})}});
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
    ExpectAWorkspaceAsDeclared(config, precision);
}

TEST(Head, AWorkspaceOfClustersIsAsDeclared) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
    ExpectAWorkspaceAsDeclared(Encoder("lm", {{"head_clusters", kClusters}}), precision);
}

TEST(Head, RefusesClustersThatAreNotTheVocabulary) {
  const auto refusal = [](const Json& config) {
    return std::string(NewNativeModel(config, *Weights::Of({}), {}).status().message());
  };
  EXPECT_THAT(refusal(Encoder("lm", {{"head_clusters", Json::array({{{"tokens", 49}}})}})),
              HasSubstr("head_clusters: 49 tokens, where vocab_size is 50"));
  EXPECT_THAT(refusal(Encoder("lm", {{"head_clusters", Json::array()}})),
              HasSubstr("head_clusters is no list"));
  EXPECT_THAT(refusal(Encoder("lm", {{"head_clusters", Json::array({{{"tokens", 50}, {"width", 33}}})}})),
              HasSubstr("head_clusters[0]"));
  EXPECT_THAT(refusal(Encoder("none", {{"head_clusters", kClusters}})),
              HasSubstr("head_clusters: of head \"lm\" alone"));
  EXPECT_THAT(refusal(Encoder("lm", {{"head_clusters", kClusters}, {"head_layers", Json::array({kPlain})}})),
              HasSubstr("head_clusters: of a head without head_layers"));
}

TEST(Head, CountsItsLayers) {
  const RandomModel bare = MakeRandomModel(Encoder("none", Json::object())),
                    model = MakeRandomModel(Encoder("none", {{"head_layers", Json::array({kPlain})}}));
  EXPECT_EQ(model->info().output_width, 70);
  EXPECT_EQ(model->Cost(10) - bare->Cost(10), 10 * 32 * 70);
  EXPECT_GE(model->info().weight_bytes, bare->info().weight_bytes + 32 * 70 * 4);
}

// A head of its own is wider than what it is tied to.
TEST(Head, OfALanguageModelMayReadWhatTheTablesAreNot) {
  const Json config = Encoder("lm", {{"head_layers", Json::array({kPlain})}});
  EXPECT_THAT(RefusalOf(config), HasSubstr("rows have 32 numbers, where the head reads 70"));
  Tensors tensors = RandomTensorsOf(Encoder("none", {{"head_layers", Json::array({kPlain})}}));
  tensors["lm_head.weight"] = RandomTensor({"lm_head.weight", {50, 70}}, 1);
  const WholeInput input = Tokens(5);
  ExpectNear(Answers(*ModelOf(config, tensors), input), AnswersByDefinition(config, tensors, input), 5e-4,
             "untied");
}

TEST(Head, RefusalsNameTheFieldTheValueAndTheLimit) {
  const auto layers = [](const Json& layer) {
    return Encoder("lm", {{"head_layers", Json::array({layer})}});
  };
  const struct {
    Json config;
    std::string says;
  } cases[] = {
      {Encoder("lm", {{"head_layers", 3}}), "config.json: head_layers is not a list"},
      {Encoder("lm", {{"head_layers", Json(std::vector<Json>(65, kTanh))}}),
       "config.json: head_layers: 65 layers; at most 64 can be served"},
      {layers({{"width", 0}}), "config.json: head_layers[0].width: 0 is below 1"},
      {layers({{"width", 1 << 20}}), "config.json: head_layers[0].width: 1048576 is above 65536"},
      {layers({{"hidden_act", "swish"}}), "config.json: head_layers[0]: hidden_act 'swish' is none of relu"},
      {layers({{"hidden_act", "swiglu"}}), "head_layers[0]: hidden_act: \"swiglu\" has a gate"},
      {layers({{"norm", "rms"}}), "config.json: head_layers[0].norm: \"rms\" is not true or false"},
      {layers({{"bias", true}}), "config.json: head_layers[0]: unknown key \"bias\""},
      {layers(3), "config.json: head_layers[0]: 3 is not an object"},
      {Encoder("lm", {{"logits_scale", 1e7}}), "config.json: logits_scale: 10000000.0 is above"},
      {Encoder("lm", {{"logits_soft_cap", 0}}), "config.json: logits_soft_cap: 0 is below 0.001"},
      {Encoder("lm", {{"logits_soft_cap", "30"}}), "config.json: logits_soft_cap: \"30\" is not a number"},
  };
  for (const auto& c : cases) EXPECT_THAT(RefusalOf(c.config), HasSubstr(c.says));
  EXPECT_EQ(RefusalOf(layers({{"hidden_act", nullptr}})), "accepted");
}

TEST(Head, OfAnArchitecturesOwnHasNoOtherLayers) {
  Json config = SmallConfig("tab-transformer", "classification");
  config.erase("vocab_size");
  config.erase("intermediate_size");
  config.update({{"categories", {3, 4}},
                 {"num_numerical", 2},
                 {"intermediate_size", 64},
                 {"mlp", {{"sizes", {10}}, {"act", "relu"}}}});
  ASSERT_EQ(RefusalOf(config), "accepted");
  config["head_layers"] = Json::array({kTanh});
  EXPECT_THAT(RefusalOf(config), HasSubstr("config.json: head_layers: 1 layers, where the architecture"));
}

}  // namespace
}  // namespace heed
