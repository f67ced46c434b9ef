// The dense feed-forward beside its definition.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/blocks/definitions.h"

namespace heed {
namespace {

TEST(DenseFeedForward, IsItsDefinitionInEveryPrecision) {
  for (const char* act : {"relu", "gelu", "gelu_new", "silu", "tanh", "quick_gelu", "relu2", "swiglu",
                          "geglu", "reglu", "geglu_new", "clamped_glu"}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      const FeedForwardLayer layer(DenseExample(act), precision);
      const Numbers x = RandomInput(layer, 11), out = Pass(layer, x).out;
      for (int64_t r = 0; r < 11; ++r) {
        ExpectWithin(Dense(layer, "", RowOf(x, r, layer.width())), RowOf(out, r, layer.width()),
                     std::string(act) + " in " + std::string(Name(precision)));
      }
    }
  }
}

// What xIELU makes of a number, and how steep it is there.
Bounded Xielu(Bounded x, double above, double below, double beta, double eps) {
  for (size_t i = 0; i < x.value.size(); ++i) {
    const double read = x.value[i], steepest = 2 * above * (std::abs(read) + x.error[i]) + below + beta;
    x.value[i] =
        beta * read + (read > 0 ? above * read * read : below * (std::expm1(std::min(read, eps)) - read));
    x.error[i] = steepest * x.error[i] + 30 * kFloat * (1 + above + below) * (1 + read * read);
  }
  return x;
}

TEST(DenseFeedForward, XieluHasNumbersThatAreTheLayersOwn) {
  std::map<std::string, Numbers> tensors = RandomTensors(XieluExample());
  tensors["xielu.alpha_p"] = {0.25f}, tensors["xielu.alpha_n"] = {-0.5f};
  tensors["xielu.beta"] = {0.5f}, tensors["xielu.eps"] = {-1e-6f};
  const double above = std::log1p(std::exp(0.25)), below = 0.5 + std::log1p(std::exp(-0.5));
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const FeedForwardLayer layer(XieluExample(), precision, tensors);
    const Numbers x = RandomInput(layer, 11), out = Pass(layer, x).out;
    for (int64_t r = 0; r < 11; ++r) {
      const Bounded up = Linear(layer, "up", Exactly(RowOf(x, r, layer.width())), layer.precision());
      Bounded hidden = Xielu(up, above, below, 0.5, -1e-6);
      for (size_t i = 0; i < hidden.value.size() && ActivationType(layer.precision()) == DType::kBf16; ++i)
        hidden.error[i] += kBfloat * (std::abs(hidden.value[i]) + hidden.error[i]);
      ExpectWithin(Linear(layer, "down", hidden, layer.precision()), RowOf(out, r, layer.width()),
                   std::string("xielu in ") + std::string(Name(precision)));
    }
  }
}

TEST(DenseFeedForward, XieluHasNoGate) {
  const auto refused = FeedForwardLayer(DenseExample("swiglu"), Precision::kF32).New({{"xielu", true}});
  EXPECT_THAT(std::string(refused.status().message()),
              testing::HasSubstr("xielu: true, of a hidden_act without"));
}

TEST(DenseFeedForward, MayHaveAnIntermediateSizeOfItsOwn) {
  const FeedForwardLayer layer(DenseExample(), Precision::kF32);
  const int64_t hidden = layer.example().hidden;
  EXPECT_TRUE(layer.New({{"type", "dense"}, {"intermediate_size", hidden}}).ok());
  const auto refused = layer.New({{"type", "dense"}, {"intermediate_size", hidden - 1}});
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("up.weight"));
}

TEST(DenseFeedForward, NeedsTheModelsIntermediateSize) {
  FeedForwardExample example = PkmExample();  // has none
  const FeedForwardLayer layer(example, Precision::kF32);
  for (const char* type : {"dense", "moe"}) {
    const auto refused =
        layer.New({{"type", type}, {"experts", type == std::string("moe") ? Json(2) : Json()}});
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("intermediate_size")) << type;
  }
}

}  // namespace
}  // namespace heed
