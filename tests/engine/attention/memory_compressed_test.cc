// `memory_compressed` against its definition, written out in double after the paper.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

struct Definition {
  explicit Definition(const Layer& layer)
      : layer(layer),
        width(layer.example().width),
        dim(width / layer.example().num_heads),
        stride(layer.options()["stride"]),
        compression(layer.options().value("compression", "conv")) {}

  // Column `a` of slot p of K (product 1) or V (2).
  double Slot(const Passage& passage, int product, int64_t p, int64_t a) const {
    const int64_t begin = p * stride, end = std::min(passage.n(), begin + stride);
    const OwnedRows& rows = passage.product(product);
    const std::string name = product == 1 ? "compress_k" : "compress_v";
    const bool conv = compression == "conv";
    const float* weight = conv ? layer.tensor(name + ".weight") : nullptr;
    double slot = conv ? layer.tensor(name + ".bias")[a] : compression == "max" ? -INFINITY : 0;
    for (int64_t i = begin; i < end; ++i) {
      if (compression == "mean") slot += rows.At(i, a) / static_cast<double>(end - begin);
      if (compression == "max") slot = std::max(slot, rows.At(i, a));
      for (int64_t b = 0; b < width && conv; ++b)
        slot += weight[(a * width + b) * stride + i - begin] * rows.At(i, b);
    }
    return slot;
  }

  bool Sees(int64_t i, int64_t p) const { return !layer.causal() || (p + 1) * stride <= i; }

  std::vector<double> Row(const Passage& passage, int64_t i, int head) const {
    std::vector<double> result(dim);
    double sum = 0;
    const auto add = [&](const auto& key, const auto& value) {
      double score = 0;
      for (int64_t c = head * dim; c < (head + 1) * dim; ++c) score += passage.product(0).At(i, c) * key(c);
      const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
      sum += weight;
      for (int64_t t = 0; t < dim; ++t) result[t] += weight * value(head * dim + t);
    };
    add([&](int64_t c) { return layer.tensor("null_k")[c]; },
        [&](int64_t c) { return layer.tensor("null_v")[c]; });
    for (int64_t p = 0; p * stride < passage.n(); ++p) {
      if (Sees(i, p)) {
        add([&](int64_t c) { return Slot(passage, 1, p, c); },
            [&](int64_t c) { return Slot(passage, 2, p, c); });
      }
    }
    for (double& x : result) x /= sum;
    return result;
  }

  const Layer& layer;
  int64_t width, dim, stride;
  std::string compression;
};

std::vector<AttentionExample> Examples() {
  std::vector<AttentionExample> examples;
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type == "memory_compressed") examples.push_back(example);
  }
  return examples;
}

// Rows before, in and after a slot, in and after a page of them; a last slot that is not whole.
TEST(MemoryCompressed, IsTheDefinition) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const Definition definition(layer);
    for (int64_t n : {1, 2, 22, 1027}) {
      const Passage passage = Whole(layer, n);
      for (int64_t i : {0, 1, 2, 3, 4, 6, 7, 8, 20, 21, 379, 380, 381, 507, 508, 510, 1026}) {
        for (int head = 0; head < example.num_heads && i < n; ++head) {
          const std::vector<double> expected = definition.Row(passage, i, head);
          for (int64_t t = 0; t < definition.dim; ++t) {
            ASSERT_NEAR(passage.out().At(i, head * definition.dim + t), expected[t], 5e-5)
                << example.options << " row " << i << " of " << n << " head " << head;
          }
        }
      }
    }
  }
}

// Many slots attend part by part.
TEST(MemoryCompressed, StepsOfManySlotsAreTheWhole) {
  const Layer layer(
      {"memory_compressed", R"({"stride": 2, "compression": "max"})", Place::kDecoder, 16, 2, WithSlots(16)},
      Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5);
}

// The products of a page of slots are too many for a task: several stages share them.
TEST(MemoryCompressed, ALongConvolutionIsDoneInStages) {
  const Layer layer({"memory_compressed", R"({"stride": 250})", Place::kDecoder, 192, 1, WithSlots(192, 250)},
                    Precision::kF32);
  constexpr int64_t kTokens = 32 * 250 + 1;  // the last slot is the second stage's
  EXPECT_EQ(std::ssize(Passage(layer, kTokens).Plan(*layer.attention().Start())), 4 + 1);
  const Passage passage = Whole(layer, kTokens);
  const Definition definition(layer);
  const std::vector<double> expected = definition.Row(passage, kTokens - 1, 0);
  for (int64_t t = 0; t < definition.dim; ++t)
    EXPECT_NEAR(passage.out().At(kTokens - 1, t), expected[t], 1e-4);
}

TEST(MemoryCompressed, AStepIsOneStage) {
  for (const AttentionExample& example : Examples()) {
    if (!example.causal()) continue;
    const Layer layer(example, Precision::kF32);
    EXPECT_EQ(std::ssize(Passage(layer, 1).Plan(*layer.attention().Start())), 1);
  }
}

// Of the rows of a slot that is not whole, their sum is all that is kept, however long the stride.
TEST(MemoryCompressed, KeepsNoRows) {
  const auto bytes = [](int64_t stride) {
    const Layer layer({"memory_compressed", Cat(R"({"compression": "mean", "stride": )", stride, "}"),
                       Place::kDecoder, 32, 4, WithSlots(32)},
                      Precision::kF32);
    return layer.attention().StateBytes(100);
  };
  EXPECT_EQ(bytes(3), bytes(1000));
}

TEST(MemoryCompressed, CostsWhatItSeesAndFolds) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const Definition definition(layer);
    constexpr int64_t kTokens = 500;
    const auto width = static_cast<double>(definition.width);
    double pairs = kTokens;
    for (int64_t i = 0; i < kTokens; ++i) {
      for (int64_t p = 0; p * definition.stride < kTokens; ++p) pairs += definition.Sees(i, p);
    }
    const double folded = kTokens * 2 * width * (definition.compression == "conv" ? width : 1);
    EXPECT_DOUBLE_EQ(layer.attention().Cost(kTokens, kTokens), 2 * width * pairs + folded) << example.options;
  }
}

TEST(MemoryCompressed, RefusesWhatCannotBe) {
  const Layer layer(Examples().front(), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(
      layer, WeightScope(*weights),
      {{Place::kDecoder, "{}", {"layers[0].attention", "stride is missing"}},
       {Place::kDecoder, R"({"stride": 0})", {"stride", "0", "below 1"}},
       {Place::kDecoder, R"({"stride": 3, "compression": "median"})", {"compression", "median", "conv"}},
       {Place::kCross, R"({"stride": 3})", {"no cross-attention"}}});
  ExpectRefused(layer, layer.scope(),
                {{Place::kDecoder, R"({"stride": 4})", {"compress_k.weight", "[32, 32, 3]", "[32, 32, 4]"}}});
  for (const char* missing : {"null_k", "null_v", "compress_k.bias", "compress_v.weight"}) {
    AttentionExample example = Examples().front();
    std::map<std::string, Tensor> others;
    for (const auto& [name, shape] : example.tensors) {
      if (name != missing) others[name] = {DType::kF32, shape, layer.tensor(name)};
    }
    const auto scarce = Weights::Of(others);
    ExpectRefused(layer, WeightScope(*scarce), {{Place::kDecoder, R"({"stride": 3})", {missing}}});
  }
}

}  // namespace
}  // namespace heed
