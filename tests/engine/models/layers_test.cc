// How layers stand in the residual stream: whole models against their formulas, written out in double.
#include "engine/models/layers.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/naive_rows.h"

namespace heed {
namespace {

using Table = std::vector<Row>;

// f of each row.
template <typename F>
Table Each(Table x, F f) {
  for (Row& row : x) row = f(row);
  return x;
}

Table Plus(Table x, const Table& y) {
  for (size_t r = 0; r < x.size(); ++r) x[r] = Sum(std::move(x[r]), y[r]);
  return x;
}

// A model of tokens whose layers have "full" attention, all rows seeing all, and "relu" between dense
// products.
class Definition {
 public:
  explicit Definition(const Json& config) : config_(config), tensors_(RandomTensorsOf(config)) {
    for (auto& [name, tensor] : tensors_) {
      if (name.find("norm") != std::string::npos && name.ends_with(".weight")) tensor = Offset(tensor);
    }
  }

  Table Answer(const std::vector<int32_t>& ids) const {
    Table x;
    for (int32_t id : ids) x.push_back(RowOf(tensors_, "embed.tokens.weight", id));
    for (size_t i = 0; i < config_["layers"].size(); ++i) x = Convolved(i, x, Layer(i, x));
    const std::string norm = config_.value("norm", "pre");
    return norm == "pre" || norm == "sandwich" || norm == "normed" ? Norm("norm", x) : x;
  }

 private:
  Tensor Offset(const Tensor& weight) const {
    Row row;
    for (float number : ToFloats(weight)) row.push_back(number + config_.value("norm_offset", 0.0));
    Tensor offset = TensorOf({row});
    offset.shape = weight.shape;
    return offset;
  }

  Table Layer(size_t i, const Table& x) const {
    const Json& layer = config_["layers"][i];
    const std::string own = layer.value("norm", config_.value("norm", "pre")),
                      at = "layers." + std::to_string(i);
    const auto attention = [&](const Table& in) { return Attention(at + ".attention.", in); };
    const auto ffn = [&](const Table& in) { return FeedForward(at + ".ffn.", in); };
    if (layer.value("parallel", false))
      return PlusScaled(PlusScaled(x, attention(Norm(at + ".norm1", x))), ffn(Norm(at + ".norm2", x)));
    const Table between = Sublayer(layer.value("attention_norm", own), at + ".norm1", x, attention);
    return Sublayer(own, at + ".norm2", between, ffn);
  }

  // What the layer gives, with what its convolution makes of what it read.
  Table Convolved(size_t i, const Table& x, const Table& given) const {
    const Json convolution = config_["layers"][i].value("convolution", Json());
    if (!convolution.is_object()) return given;
    const int64_t kernel = convolution["kernel"], n = std::ssize(x);
    const std::string at = "layers." + std::to_string(i);
    Table neighbours(n);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t row = r - kernel / 2; row <= r + kernel / 2; ++row) {
        const Row beside = row < 0 || row >= n ? Row(x[0].size()) : x[row];
        neighbours[r].insert(neighbours[r].end(), beside.begin(), beside.end());
      }
    }
    const Table made = Each(Product(at + ".convolution", neighbours), [](Row row) {
      for (double& number : row) number = std::tanh(number);
      return row;
    });
    return Norm(at + ".norm_convolution", Plus(given, made));
  }

  template <typename F>
  Table Sublayer(const std::string& placement, const std::string& norm, const Table& x, F f) const {
    if (placement == "none") return PlusScaled(x, f(x));
    if (placement == "pre") return PlusScaled(x, f(Norm(norm, x)));
    if (placement == "post") return Norm(norm, PlusScaled(x, f(x)));
    if (placement == "normed") return PlusScaled(Norm(norm, x), f(Norm(norm, x)));
    if (placement == "res_post") return PlusScaled(x, Norm(norm, f(x)));
    return PlusScaled(x, Norm(norm + "_post", f(Norm(norm, x))));
  }

  Table PlusScaled(const Table& x, const Table& y) const {
    const double multiplier = config_.value("residual_multiplier", 1.0);
    return Plus(x, Each(y, [&](const Row& row) { return Times(row, multiplier); }));
  }
  Table Norm(const std::string& name, const Table& x) const {
    const bool rms = config_.value("norm_type", "layer") == "rms";
    return Each(x, [&](const Row& row) { return Normed(tensors_, name, row, rms); });
  }
  Table Product(const std::string& name, const Table& x) const {
    return Each(x, [&](const Row& row) { return Projected(tensors_, name, row); });
  }

  Table Attention(const std::string& scope, const Table& x) const {
    const size_t heads = config_["num_attention_heads"], dim = x[0].size() / heads;
    const Table q = Product(scope + "q", x), k = Product(scope + "k", x), v = Product(scope + "v", x);
    Table attended(x.size(), Row(x[0].size()));
    for (size_t h = 0; h < heads; ++h) {
      for (size_t i = 0; i < x.size(); ++i) {
        double sum = 0;
        for (size_t j = 0; j < x.size(); ++j) {
          double score = 0;
          for (size_t t = h * dim; t < (h + 1) * dim; ++t) score += q[i][t] * k[j][t];
          const double p = std::exp(score / std::sqrt(static_cast<double>(dim)));
          sum += p;
          for (size_t t = h * dim; t < (h + 1) * dim; ++t) attended[i][t] += p * v[j][t];
        }
        for (size_t t = h * dim; t < (h + 1) * dim; ++t) attended[i][t] /= sum;
      }
    }
    return Product(scope + "o", attended);
  }

  Table FeedForward(const std::string& scope, const Table& x) const {
    const Table hidden = Each(Product(scope + "up", x), [](Row row) {
      for (double& number : row) number = std::max(number, 0.0);
      return row;
    });
    return Product(scope + "down", hidden);
  }

  Json config_;
  Tensors tensors_;
};

Json Encoder(const Json& keys, const Json& of_first_layer = Json::object()) {
  Json config = SmallConfig("encoder", "none");
  config["hidden_act"] = "relu";
  config.update(keys);
  config["layers"][0].update(of_first_layer);
  return config;
}

void ExpectTheDefinition(const Json& config) {
  const WholeInput input{.ids = {3, 1, 4, 1, 49, 0, 7}};
  const std::string what = Shown(config["layers"][0]) + Shown(config.value("norm", Json()));
  ExpectNear(Answers(*MakeRandomModel(config), input), Definition(config).Answer(input.ids), 2e-4, what);
}

TEST(Layers, AreTheFormulaWhereverTheModelsNormsStand) {
  for (const char* norm : {"pre", "post", "res_post", "sandwich", "normed"}) {
    for (const char* type : {"layer", "rms"})
      ExpectTheDefinition(Encoder({{"norm", norm}, {"norm_type", type}}));
  }
}

TEST(Layers, MayHaveNormsOfTheirOwn) {
  for (const char* model : {"pre", "post", "sandwich"}) {
    for (const char* own : {"pre", "post", "res_post", "sandwich", "normed", "none"}) {
      ExpectTheDefinition(Encoder({{"norm", model}}, {{"norm", own}}));
      ExpectTheDefinition(Encoder({{"norm", model}}, {{"attention_norm", own}}));
    }
  }
  ExpectTheDefinition(Encoder(Json::object(), {{"norm", "post"}, {"attention_norm", "none"}}));
}

TEST(Layers, MultiplyWhatTheyAddAndOffsetTheirNorms) {
  for (const char* norm : {"pre", "post", "res_post", "sandwich"}) {
    ExpectTheDefinition(
        Encoder({{"norm", norm}, {"norm_type", "rms"}, {"residual_multiplier", 0.22}, {"norm_offset", 1}}));
  }
}

TEST(Layers, ParallelOnesReadTheLayersInputTwice) {
  ExpectTheDefinition(Encoder(Json::object(), {{"parallel", true}}));
  ExpectTheDefinition(Encoder({{"norm", "post"}}, {{"parallel", true}, {"norm", "pre"}}));
  Json all = Encoder({{"residual_multiplier", 0.5}}, {{"parallel", true}});
  all["layers"][1]["parallel"] = true;
  ExpectTheDefinition(all);
}

TEST(Layers, AreJoinedByAConvolutionOfWhatTheyRead) {
  for (int kernel : {1, 3, 9}) {
    const Json convolution = {{"convolution", {{"kernel", kernel}, {"hidden_act", "tanh"}}}};
    ExpectTheDefinition(Encoder({{"norm", "post"}}, convolution));
    Json last = Encoder({{"norm", "pre"}});
    last["layers"][1].update(convolution);
    ExpectTheDefinition(last);
  }
}

TEST(Layers, WithConvolutionsGiveTheSameBitsInAnyCompanyAndHoldWhatIsDeclared) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    Json config = SmallConfig("encoder", "classification");
    config["layers"][0]["convolution"] = {{"kernel", 5}, {"hidden_act", "gelu"}};
    ExpectSameBitsInAnyCompany(*MakeRandomModel(config, precision), 300);
    ExpectAWorkspaceAsDeclared(config, precision);
  }
}

Json Unusual(const std::string& architecture) {
  const Json attention = {{"type", "softmax"}, {"rope", Json::object()}, {"qk_norm", {{"over", "all"}}}};
  Json config = SmallConfig(architecture, architecture == "encoder" ? "classification" : "lm", attention);
  config["residual_multiplier"] = 0.5;
  config["layers"][0]["parallel"] = true;
  config["layers"][0]["ffn"] = {{"type", "moe"}, {"experts", 3}};
  config["layers"][1]["norm"] = "sandwich";
  return config;
}

// A mixture of experts beside the attention takes more rows at once than the attention's products do.
TEST(Layers, ParallelOnesHoldWhatIsDeclared) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
    ExpectAWorkspaceAsDeclared(Unusual("encoder"), precision);
}

TEST(Layers, ParallelOnesGiveTheSameBitsInAnyCompany) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
    ExpectSameBitsInAnyCompany(*MakeRandomModel(Unusual("encoder"), precision), 300);
}

TEST(Layers, ParallelOnesCostWhatOthersCost) {
  Json beside = SmallConfig("decoder", "lm"), after = beside;
  beside["layers"][0]["parallel"] = true;
  EXPECT_EQ(MakeRandomModel(beside)->Cost(100), MakeRandomModel(after)->Cost(100));
}

TEST(Layers, RefuseWhatCannotBe) {
  struct Case {
    Json config;
    std::vector<const char*> says;
  };
  const Json compressive = {
      {"type", "compressive"}, {"segment", 8}, {"memory", 8}, {"compressed_memory", 8}, {"rate", 2}};
  Json crossed = SmallConfig("encoder-decoder", "lm");
  crossed["decoder_layers"][1]["parallel"] = true;
  Json reversible = SmallConfig("decoder", "lm");
  reversible["reversible"] = true;
  Json etc = SmallConfig("etc-encoder", "none", {{"type", "etc"}, {"radius", 3}});
  const Json decoder = SmallConfig("decoder", "lm"), encoder = SmallConfig("encoder", "lm");
  const Case cases[] = {
      {With(decoder, "/layers/1/norm", "middle"), {"layers[1]", "norm", "middle", "sandwich", "none"}},
      {With(decoder, "/layers/1/attention_norm", 3), {"layers[1]", "attention_norm", "3"}},
      {With(decoder, "/layers/1/parallel", 1), {"layers[1]", "parallel", "1"}},
      {With(decoder, "/norm", "none"), {"norm", "none", "res_post"}},
      {With(decoder, "/residual_multiplier", 1e9), {"residual_multiplier", "1e+06"}},
      {With(decoder, "/norm_offset", -5000), {"norm_offset", "-5000", "-1000"}},
      {With(With(decoder, "/norm", "post"), "/layers/0/parallel", true), {"layers[0]", "parallel", "pre"}},
      {With(With(decoder, "/layers/0/attention_norm", "none"), "/layers/0/parallel", true),
       {"layers[0]", "parallel", "pre"}},
      {With(With(decoder, "/layers/1/ffn", {{"type", "none"}}), "/layers/1/parallel", true),
       {"layers[1]", "parallel", "no ffn"}},
      {With(With(decoder, "/layers/1/attention", compressive), "/layers/1/parallel", true),
       {"layers[1]", "parallel", "compressive"}},
      {crossed, {"decoder_layers[1]", "parallel", "cross_attention"}},
      {With(reversible, "/layers/1/parallel", true), {"layers[1]", "parallel", "reversible"}},
      {With(reversible, "/layers/1/norm", "post"), {"layers[1]", "norm", "reversible"}},
      {With(etc, "/layers/1/parallel", true), {"layers[1]", "parallel", "etc-encoder"}},
      {With(decoder, "/layers/1/convolution", {{"kernel", 3}}), {"layers[1]", "convolution", "encoder"}},
      {With(encoder, "/layers/1/convolution", 3), {"layers[1]", "convolution is not an object"}},
      {With(encoder, "/layers/1/convolution", Json::object()), {"convolution", "kernel is missing"}},
      {With(encoder, "/layers/1/convolution", {{"kernel", 4}}), {"convolution", "kernel: 4", "even"}},
      {With(encoder, "/layers/1/convolution", {{"kernel", 3}, {"hidden_act", "swiglu"}}),
       {"convolution", "swiglu", "gate"}},
  };
  for (const Case& c : cases) {
    for (const char* word : c.says)
      EXPECT_THAT(RefusalOf(c.config), testing::HasSubstr(word)) << Shown(c.config["layers"]);
  }
}

}  // namespace
}  // namespace heed
