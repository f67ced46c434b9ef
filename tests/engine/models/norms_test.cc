// Norms without a weight or a bias, and whether one stands after the last layer, in whole models.
#include "engine/blocks/norm.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/naive_rows.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Decoder(const Json& options) {
  Json config = SmallConfig("decoder", "lm");
  config.update(options);
  return config;
}

bool IsOfNorm(const std::string& name, const std::string& part) {
  return name.ends_with(part) && name.find("norm") != std::string::npos;
}

WholeInput Tokens() { return {.ids = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}}; }

TEST(Norms, WithoutABiasOrAWeightAreThoseOfZeroAndOne) {
  for (const char* type : {"layer", "rms"}) {
    for (const char* placement : {"pre", "post", "res_post"}) {
      const Json full = Decoder({{"norm_type", type}, {"norm", placement}});
      for (const bool weight : {true, false}) {
        const Json config = With(full, weight ? "/norm_bias" : "/norm_weight", false);
        const Tensors tensors = RandomTensorsOf(config);
        Tensors plain = RandomTensorsOf(full);
        for (auto& [name, tensor] : plain) {
          const bool gone = IsOfNorm(name, ".bias") || (!weight && IsOfNorm(name, ".weight"));
          EXPECT_EQ(tensors.contains(name), !gone) << name;
          if (!gone) continue;
          const std::vector<int64_t> shape = tensor.shape;
          tensor = TensorOf({Row(shape[0], name.ends_with(".bias") ? 0 : 1)});
          tensor.shape = shape;
        }
        EXPECT_EQ(Answers(*ModelOf(config, tensors), Tokens()), Answers(*ModelOf(full, plain), Tokens()))
            << type << " " << placement << (weight ? "" : " without weights");
      }
    }
  }
}

// The same stack with and without it, and the definition of the one between.
TEST(Norms, OneStandsAfterTheLastLayerWhereTheConfigurationSaysSo) {
  for (const char* placement : {"pre", "post", "res_post"}) {
    Json with = Decoder({{"norm", placement}, {"norm_last", true}, {"head", "none"}});
    const Json without = With(with, "/norm_last", false);
    const Tensors tensors = RandomTensorsOf(with);
    Tensors of_layers = tensors;
    EXPECT_EQ(of_layers.erase("norm.weight") + of_layers.erase("norm.bias"), 2);
    std::vector<Row> rows = Answers(*ModelOf(without, of_layers), Tokens());
    for (Row& row : rows) row = Normed(tensors, "norm", row);
    ExpectNear(Answers(*ModelOf(with, tensors), Tokens()), rows, 1e-4, placement);
    const bool by_default = placement == std::string("pre");
    EXPECT_EQ(RandomTensorsOf(Without(with, "norm_last")).contains("norm.weight"), by_default) << placement;
  }
}

TEST(Norms, RefusalsNameTheField) {
  EXPECT_THAT(RefusalOf(Decoder({{"norm_bias", "no"}})),
              HasSubstr("config.json: norm_bias: \"no\" is not true or false"));
  EXPECT_THAT(RefusalOf(Decoder({{"norm_weight", 0}})),
              HasSubstr("config.json: norm_weight: 0 is not true or false"));
  EXPECT_THAT(RefusalOf(Decoder({{"norm_last", 1}})), HasSubstr("norm_last: 1 is not true or false"));
  const Json config = Decoder({{"norm_bias", false}});
  Tensors tensors = RandomTensorsOf(Decoder(Json::object()));
  EXPECT_THAT(NewNativeModel(config, *Weights::Of(tensors), {}).status().message(), HasSubstr("norm"))
      << "a bias that nobody asks for";
}

}  // namespace
}  // namespace heed
