// The weights of the softmax, of all examples that give them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "engine/attention/softmax_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

bool Any(const Layer&) { return true; }

// f(layer) for each of which `holds` is true; there are some.
template <typename F>
void ForAll(bool (*holds)(const Layer&), F f) {
  int held = 0;
  for (const AttentionExample& example : AttentionExamples()) {
    for (Precision precision : {Precision::kF32, Supported(Precision::kBf16)}) {
      const Layer layer(example, precision);
      SCOPED_TRACE(example.type + example.options + std::string(Name(precision)));
      if (layer.attention().weighing_heads() == 0 || !holds(layer)) continue;
      ++held;
      f(layer);
    }
  }
  EXPECT_GT(held, 0);
}

Passage Weighed(const Layer& layer, int64_t n, int64_t rows) {
  Passage passage(layer, n);
  passage.AskForWeights();
  passage.ExtendBy(*layer.attention().Start(), 0, n, rows);
  return passage;
}

TEST(AttentionWeights, AreGivenByEachSoftmaxOverAllKeys) {
  std::set<std::string> types;
  ForAll(Any, [&](const Layer& layer) {
    types.insert(layer.example().type);
    EXPECT_EQ(layer.attention().weighing_heads(), layer.example().num_heads);
  });
  EXPECT_THAT(types, testing::IsSupersetOf({"full", "softmax", "sliding_window", "blockwise", "axial"}));
  EXPECT_THAT(types, testing::Not(testing::Contains("linear")));
  EXPECT_THAT(types, testing::Not(testing::Contains("memory_compressed")));
  EXPECT_THAT(types, testing::Not(testing::Contains("persistent_memory")));
}

TEST(AttentionWeights, SumToOneOrLeaveTheRestToASinkAndSeeNoFuture) {
  ForAll(Any, [](const Layer& layer) {
    const Passage passage = Weighed(layer, 300, 300);
    for (int head = 0; head < layer.attention().weighing_heads(); ++head) {
      for (int64_t i = 0; i < 300; ++i) {
        const std::span<const float> weights = passage.weights(head, i);
        double sum = 0;
        for (float w : weights) sum += w;
        ASSERT_GE(*std::ranges::min_element(weights), 0);
        ASSERT_LE(sum, 1.002);
        for (int64_t j = i + 1; j < 300 && layer.causal(); ++j)
          ASSERT_EQ(weights[j], 0) << "row " << i << " key " << j;
        if (layer.tensors().contains("sink.weight")) continue;  // it has the rest
        const bool seen = *std::ranges::max_element(weights) > 0;
        ASSERT_NEAR(sum, seen ? 1 : 0, layer.type() == DType::kF32 ? 1e-5 : 2e-3)
            << "row " << i << " head " << head;
      }
    }
  });
}

TEST(AttentionWeights, AskedForTheyChangeNoBit) {
  ForAll(Any, [](const Layer& layer) {
    EXPECT_EQ(FirstDifference(Weighed(layer, 300, 300).out(), Whole(layer, 300).out()), -1);
  });
}

TEST(AttentionWeights, OfPiecesAreThoseOfTheWhole) {
  const auto in_pieces = [](const Layer& layer) { return layer.attention().decode() != DecodeClass::kNone; };
  ForAll(in_pieces, [](const Layer& layer) {
    const Passage whole = Weighed(layer, 300, 300), pieces = Weighed(layer, 300, 7);
    for (int head = 0; head < layer.attention().weighing_heads(); ++head) {
      for (int64_t i = 0; i < 300; ++i) {
        for (size_t j = 0; j < whole.weights(head, i).size(); ++j)
          ASSERT_NEAR(pieces.weights(head, i)[j], whole.weights(head, i)[j],
                      layer.type() == DType::kF32 ? 1e-5 : 1e-3)
              << i << " " << j;
      }
    }
  });
}

// What brings more than values, or other values to some rows, is compared elsewhere.
TEST(AttentionWeights, TimesValuesAreTheResult) {
  const auto alone = [](const Layer& layer) {
    return !layer.tensors().contains("shaw_values") && !layer.options().contains("clip_qkv") &&
           !layer.options().contains("output_gate") && !layer.options().contains("v_norm") &&
           std::ranges::count(layer.attention().products(), std::string("v"), &Product::name) > 0;
  };
  ForAll(alone, [](const Layer& layer) {
    const std::vector<Product>& products = layer.attention().products();
    const auto v = std::ranges::find(products, std::string("v"), &Product::name);
    std::set<int64_t> apart;
    if (layer.options().contains("global_tokens"))
      apart = layer.options()["global_tokens"].get<std::set<int64_t>>();
    const Passage passage = Weighed(layer, 300, 300);
    const OwnedRows& values = passage.product(static_cast<int>(v - products.begin()));
    const int heads = layer.attention().weighing_heads();
    const int64_t dim = layer.attention().out_width() / heads, group = heads * dim / values.rows().cols;
    for (int64_t i = 0; i < 300; i += 13) {
      for (int head = 0; head < heads && !apart.contains(i); ++head) {
        for (int64_t t = 0; t < dim; ++t) {
          double expected = 0;
          for (int64_t j = 0; j < passage.source(); ++j)
            expected += passage.weights(head, i)[j] * values.At(j, head / group * dim + t);
          ASSERT_NEAR(passage.out().At(i, head * dim + t), expected,
                      layer.type() == DType::kF32 ? 1e-5 : 2e-2)
              << "row " << i << " head " << head;
        }
      }
    }
  });
}

// The rows of global tokens see all others, whatever the band.
TEST(AttentionWeights, OfGlobalTokensAreForAllKeys) {
  const Layer layer({"sliding_window", R"({"window": 4, "global_tokens": [150, 3]})", Place::kEncoder},
                    Precision::kF32);
  const Passage passage = Weighed(layer, 300, 300);
  for (int head = 0; head < 4; ++head) {
    for (int64_t j = 0; j < 300; ++j) {
      EXPECT_GT(passage.weights(head, 150)[j], 0) << j;
      const bool band = std::abs(j - 100) <= 2, global = j == 3 || j == 150;
      EXPECT_EQ(passage.weights(head, 100)[j] > 0, band || global) << j;
    }
  }
}

// Where results come from parts of the keys.
TEST(AttentionWeights, OfAStepThatReadsManyKeysSumToOne) {
  const Layer layer({"softmax", "{}", Place::kDecoder, 8, 1}, Precision::kF32);
  const int64_t n = kKeyPart + 300;
  Passage steps(layer, n), plain(layer, n);
  const auto run = layer.attention().Start(), other = layer.attention().Start();
  steps.Extend(*run, 0, n - 3);
  plain.Extend(*other, 0, n - 3);
  steps.AskForWeights();
  steps.Extend(*run, n - 3, n);
  plain.Extend(*other, n - 3, n);
  EXPECT_EQ(FirstDifference(steps.out(), plain.out()), -1);
  double sum = 0;
  for (float w : steps.weights(0, n - 1)) sum += w;
  EXPECT_NEAR(sum, 1, 1e-4);
}

}  // namespace
}  // namespace heed
