// The mixture of experts beside its definition, and what it computes and does not.
#include <algorithm>

#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/blocks/definitions.h"

namespace heed {
namespace {

using testing::HasSubstr;

std::string Expert(int64_t e) { return "experts." + std::to_string(e) + "."; }

// Softmax over all experts in double; the chosen ones' shares, divided by their sum if they are two. A
// logit's error changes a share by no more than twice as much of it.
Bounded Moe(const FeedForwardLayer& layer, const Numbers& row, int64_t top_k, bool* certain) {
  const Bounded logits = Linear(layer, "router", Exactly(row), Precision::kF32);
  const std::vector<int64_t> order = Ranking(logits.value);
  *certain = IsCertain(logits, order, top_k);
  const double error = *std::max_element(logits.error.begin(), logits.error.end());
  double all = 0, chosen = 0;
  for (double logit : logits.value) all += std::exp(logit);
  for (int64_t i = 0; i < top_k; ++i) chosen += std::exp(logits.value[order[i]]);
  Bounded y{std::vector<double>(row.size()), std::vector<double>(row.size())};
  for (int64_t i = 0; i < top_k; ++i) {
    const double weight = std::exp(logits.value[order[i]]) / (top_k == 1 ? all : chosen);
    const double weight_error = weight * (2.1 * error + 8 * kFloat);
    const Bounded result = Dense(layer, Expert(order[i]), row);
    for (size_t c = 0; c < row.size(); ++c) {
      y.value[c] += weight * result.value[c];
      y.error[c] += weight * result.error[c] +
                    (weight_error + 4 * kFloat * weight) * (std::abs(result.value[c]) + result.error[c]);
    }
  }
  return y;
}

void ExpectItsDefinition(const FeedForwardLayer& layer, int64_t rows, int64_t top_k) {
  const Numbers x = RandomInput(layer, rows), out = Pass(layer, x).out;
  int64_t uncertain = 0;
  for (int64_t r = 0; r < rows; ++r) {
    bool certain = false;
    const Bounded expected = Moe(layer, RowOf(x, r, layer.width()), top_k, &certain);
    uncertain += !certain;
    if (certain) ExpectWithin(expected, RowOf(out, r, layer.width()), "row " + std::to_string(r));
  }
  EXPECT_LE(uncertain, rows / 20);
}

TEST(MoeFeedForward, IsItsDefinitionInEveryPrecision) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    for (int64_t rows : {1, 5, 60}) {
      ExpectItsDefinition(FeedForwardLayer(MoeExample(6, 1), precision), rows, 1);
      ExpectItsDefinition(FeedForwardLayer(MoeExample(5, 2, "swiglu"), precision), rows, 2);
    }
  }
}

// An example whose router puts every row to experts by its bias alone.
FeedForwardLayer Routed(const FeedForwardExample& plain, const Numbers& bias, Precision precision) {
  FeedForwardExample example = plain;
  example.shapes["router.bias"] = {std::ssize(bias)};
  auto tensors = RandomTensors(example);
  std::fill(tensors["router.weight"].begin(), tensors["router.weight"].end(), 0.0f);
  tensors["router.bias"] = bias;
  return FeedForwardLayer(example, precision, tensors);
}

TEST(MoeFeedForward, OneExpertMayGetEveryRow) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    ExpectItsDefinition(Routed(MoeExample(4, 1), {0, 0, 3, 0}, precision), kMaxGroupedRows, 1);
    ExpectItsDefinition(Routed(MoeExample(4, 2), {0, 2, 0, 3}, precision), kMaxGroupedRows, 2);
  }
}

TEST(MoeFeedForward, OfEqualProbabilitiesTheLowerIndexIsTaken) {
  const FeedForwardLayer one = Routed(MoeExample(4, 1), {1, 2, 2, 2}, Precision::kF32);
  const FeedForwardLayer same = Routed(MoeExample(4, 2), {2, 1, 2, 2}, Precision::kF32);
  const Numbers x = RandomInput(one, 1);
  Numbers first = Pass(one, x).out, two = Pass(same, x).out;
  const double p = std::exp(2.0) / (std::exp(1.0) + 3 * std::exp(2.0));
  const Bounded second = Dense(one, Expert(1), x), a = Dense(same, Expert(0), x),
                b = Dense(same, Expert(2), x);
  for (size_t c = 0; c < x.size(); ++c) {
    EXPECT_NEAR(first[c], p * second.value[c], 1e-5);
    EXPECT_NEAR(two[c], (a.value[c] + b.value[c]) / 2, 1e-5);
  }
}

// What a block of rows computes, by micro-kernel calls: a panel of a product is one, for up to 192 rows.
int64_t Calls(const FeedForwardLayer& layer, const Numbers& x, int team = 1) {
  const int64_t before = MicroKernel::Calls();
  Pass(layer, x, team);
  return MicroKernel::Calls() - before;
}

TEST(MoeFeedForward, IdleExpertsCostNothingAndAPanelIsReadOnceForAllItsRows) {
  const int64_t panels_up = 2, panels_down = 1, router = 1;  // of 72 and 40 outputs
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const FeedForwardLayer few = Routed(MoeExample(3, 1), {0, 9, 0}, precision);
    const FeedForwardLayer many = Routed(MoeExample(60, 1), Numbers(60, 1), precision);
    for (int64_t rows : {1, 30, 192}) {
      EXPECT_EQ(Calls(few, RandomInput(few, rows)), router + panels_up + panels_down) << rows;
      EXPECT_EQ(Calls(many, RandomInput(many, rows)), router + panels_up + panels_down) << rows;
      EXPECT_EQ(Calls(many, RandomInput(many, rows), 16), router + panels_up + panels_down) << rows;
    }
  }
}

TEST(MoeFeedForward, ASharedExpertAnswersEveryRow) {
  for (const bool gated : {false, true}) {
    const FeedForwardExample example = SharedMoeExample(gated);
    const auto tensors = RandomTensors(example);
    FeedForwardExample without = MoeExample(5, 3, "swiglu");
    auto rest = tensors;
    std::erase_if(rest, [](const auto& tensor) { return tensor.first.starts_with("shared"); });
    const FeedForwardLayer all(example, Precision::kF32, tensors), alone(without, Precision::kF32, rest);
    const Numbers x = RandomInput(all, 7), y = Pass(all, x).out, routed = Pass(alone, x).out;
    for (int64_t r = 0; r < 7; ++r) {
      const Numbers row = RowOf(x, r, all.width());
      const Bounded shared = Dense(all, "shared.", row);
      double gate = 1;
      if (gated)
        gate = 1 / (1 + std::exp(-Linear(all, "shared_gate", Exactly(row), Precision::kF32).value[0]));
      for (int64_t c = 0; c < all.width(); ++c) {
        const int64_t i = r * all.width() + c;
        EXPECT_NEAR(y[i] - routed[i], gate * shared.value[c], 1e-3) << gated << " " << r << " " << c;
      }
    }
  }
}

// (x - mean) / deviation, times a weight and plus a bias.
Numbers LayerNormed(const FeedForwardLayer& layer, const std::string& name, const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double number : x) mean += number / n;
  for (const double number : x) variance += (number - mean) * (number - mean) / n;
  Numbers y;
  for (size_t c = 0; c < x.size(); ++c)
    y.push_back(
        static_cast<float>((x[c] - mean) / std::sqrt(variance + 1e-5) * layer.tensor(name + ".weight")[c] +
                           layer.tensor(name + ".bias")[c]));
  return y;
}

TEST(MoeFeedForward, WhatExpertsAndTheSharedOneSayIsNormedBeforeItIsAdded) {
  const FeedForwardLayer layer(NormedMoeExample(), Precision::kF32);
  const Numbers x = RandomInput(layer, 7), start(x.size(), 0.5f);
  const Numbers y = Pass(layer, x).out, added = Pass(layer, x, 2, &start).out;
  for (int64_t r = 0; r < 7; ++r) {
    const Numbers row = RowOf(x, r, layer.width());
    const Bounded logits = Linear(layer, "router", Exactly(row), Precision::kF32);
    const std::vector<int64_t> order = Ranking(logits.value);
    std::vector<double> sum(row.size());
    double chosen = 0;
    for (int64_t i = 0; i < 3; ++i) chosen += std::exp(logits.value[order[i]]);
    for (int64_t i = 0; i < 3; ++i) {
      const double weight = std::exp(logits.value[order[i]]) / chosen *
                            static_cast<double>(layer.tensor("router.expert_scale")[order[i]]);
      const Bounded result = Dense(layer, Expert(order[i]), row);
      for (size_t c = 0; c < row.size(); ++c) sum[c] += weight * result.value[c];
    }
    const Numbers experts = LayerNormed(layer, "experts_norm", sum),
                  shared = LayerNormed(layer, "shared_norm", Dense(layer, "shared.", row).value);
    for (int64_t c = 0; c < layer.width(); ++c) {
      const int64_t i = r * layer.width() + c;
      EXPECT_NEAR(y[i], experts[c] + shared[c], 1e-4) << r << " " << c;
      EXPECT_NEAR(added[i], y[i] + 0.5, 1e-5) << r << " " << c;
    }
  }
}

TEST(MoeFeedForward, ARowCostsItsExpertsAlone) {
  const FeedForwardLayer dense(DenseExample(), Precision::kF32);
  for (int64_t top_k : {1, 2}) {
    for (int64_t experts : {2, 50}) {
      const FeedForwardLayer moe(MoeExample(experts, top_k), Precision::kF32);
      EXPECT_EQ(moe->multiply_adds(), top_k * dense->multiply_adds() + experts * 40) << experts;
      EXPECT_GE(moe->weight_bytes(), experts * dense->weight_bytes());
      EXPECT_TRUE(moe->data_dependent());
    }
  }
}

TEST(MoeFeedForward, RefusesWithTheFieldTheValueAndTheLimit) {
  const FeedForwardLayer layer(MoeExample(4, 1), Precision::kF32);
  const struct {
    Json options;
    std::vector<const char*> says;
  } cases[] = {
      {{{"type", "moe"}}, {".experts", "missing"}},
      {{{"type", "moe"}, {"experts", 0}}, {".experts", "0", "1"}},
      {{{"type", "moe"}, {"experts", 70000}}, {".experts", "70000", "65536"}},
      {{{"type", "moe"}, {"experts", 4}, {"top_k", 5}}, {".top_k", "5", "4"}},
      {{{"type", "moe"}, {"experts", 4}, {"shared_gate", true}}, {"shared_gate", "shared_size 0"}},
      {{{"type", "moe"}, {"experts", 4}, {"result_norms", true}}, {"result_norms", "shared_size"}},
      {{{"type", "moe"}, {"experts", 4}, {"top_k", 0}}, {".top_k", "0", "1"}},
      {{{"type", "moe"}, {"experts", 1}, {"top_k", 2}}, {".top_k", "2", "1"}},
      {{{"type", "moe"}, {"experts", 4}, {"capacity", 1.25}}, {"capacity", "1.25", "null"}},
  };
  for (const auto& [options, says] : cases) {
    const auto refused = layer.New(options);
    ASSERT_FALSE(refused.ok()) << Shown(options);
    for (const char* part : says) EXPECT_THAT(refused.status().message(), HasSubstr(part)) << Shown(options);
    EXPECT_THAT(refused.status().message(), HasSubstr("config.json: layers[0].ffn")) << Shown(options);
  }
  EXPECT_TRUE(layer.New({{"type", "moe"}, {"experts", 4}, {"capacity", nullptr}}).ok());
}

TEST(MoeFeedForward, RefusesTensorsOfOtherShapesByName) {
  const FeedForwardLayer layer(MoeExample(4, 1), Precision::kF32);
  const auto other = layer.New({{"type", "moe"}, {"experts", 5}});
  for (const char* part : {"router.weight", "[4, 40]", "[5, 40]"})
    EXPECT_THAT(other.status().message(), HasSubstr(part));
  const Numbers numbers(6 * 72 * 41);
  std::map<std::string, Tensor> views;
  for (const auto& [name, shape] : layer.example().shapes) views[name] = {DType::kF32, shape, numbers.data()};
  views["experts.2.down.weight"].shape = {41, 72};
  auto weights = Weights::Of(views);
  const auto misshapen = layer.New(layer.options(), WeightScope(*weights));
  for (const char* part : {"experts.2.down.weight", "[41, 72]", "[40, 72]"})
    EXPECT_THAT(misshapen.status().message(), HasSubstr(part));
  views.erase("experts.3.up.weight");
  views["experts.2.down.weight"].shape = {40, 72};
  weights = Weights::Of(views);
  EXPECT_THAT(layer.New(layer.options(), WeightScope(*weights)).status().message(),
              HasSubstr("experts.3.up.weight"));
}

}  // namespace
}  // namespace heed
