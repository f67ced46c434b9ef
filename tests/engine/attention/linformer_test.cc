// What a Linformer's rows get, against the definition in double; what it refuses, and how it grows.
#include <cmath>
#include <string>
#include <vector>

#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

std::vector<AttentionExample> Examples() {
  std::vector<AttentionExample> examples;
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type == "linformer") examples.push_back(example);
  }
  return examples;
}

// Column `c` of what E makes of the keys (product 1), or F of the values (2), for one head.
std::vector<double> Projected(const Layer& layer, const Passage& passage, int product, int head, int64_t c) {
  const Json& o = layer.options();
  const int64_t k = o["k"], n_max = o["n_max"];
  const bool f = product == 2 && o["sharing"] != "key-value";
  const float* weights = layer.tensor(f ? "f" : "e") + (o["sharing"] == "none" ? head * k * n_max : 0);
  std::vector<double> sums(k);
  for (int64_t r = 0; r < k; ++r) {
    for (int64_t j = 0; j < passage.n(); ++j)
      sums[r] += weights[r * n_max + j] * passage.product(product).At(j, c);
  }
  return sums;
}

using Columns = std::vector<std::vector<double>>;  // of a head: [head_dim][k]

// softmax(q_i (E K)' / sqrt(head_dim)) (F V)
std::vector<double> Definition(const Passage& passage, const Columns& keys, const Columns& values, int64_t i,
                               int head) {
  const int64_t dim = std::ssize(keys), k = std::ssize(keys[0]);
  std::vector<double> result(dim);
  double sum = 0;
  for (int64_t r = 0; r < k; ++r) {
    double score = 0;
    for (int64_t t = 0; t < dim; ++t) score += passage.product(0).At(i, head * dim + t) * keys[t][r];
    const double p = std::exp(score / std::sqrt(static_cast<double>(dim)));
    sum += p;
    for (int64_t t = 0; t < dim; ++t) result[t] += p * values[t][r];
  }
  for (double& x : result) x /= sum;
  return result;
}

// Sums over n rows of variance 1 / n, so that scores are small.
Passage Scaled(const Layer& layer, int64_t n) {
  Passage passage(layer, n);
  for (int product : {1, 2}) {
    OwnedRows& rows = passage.product(product);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < rows.rows().cols; ++c)
        rows.Set(r, c, static_cast<float>(rows.At(r, c) / std::sqrt(static_cast<double>(n))));
    }
  }
  passage.Extend(*layer.attention().Start(), 0, n);
  return passage;
}

void ExpectTheDefinition(const Layer& layer, int64_t n, double tolerance) {
  const Passage passage = Scaled(layer, n);
  const int heads = layer.example().num_heads;
  const int64_t dim = layer.example().width / heads;
  for (int head = 0; head < heads; ++head) {
    Columns keys, values;
    for (int64_t t = 0; t < dim; ++t) {
      keys.push_back(Projected(layer, passage, 1, head, head * dim + t));
      values.push_back(Projected(layer, passage, 2, head, head * dim + t));
    }
    for (int64_t i = 0; i < n; i += 1 + n / 20) {
      const std::vector<double> expected = Definition(passage, keys, values, i, head);
      for (int64_t t = 0; t < dim; ++t) {
        ASSERT_NEAR(passage.out().At(i, head * dim + t), expected[t], tolerance)
            << layer.options() << " row " << i << " of " << n << ", head " << head;
      }
    }
  }
}

TEST(Linformer, IsItsDefinition) {
  for (const AttentionExample& example : Examples()) {
    for (int64_t n : {1, 37, 128, 700, 4096}) ExpectTheDefinition(Layer(example, Precision::kF32), n, 2e-5);
  }
}

// More projected rows than one task keeps, or than a part of keys has.
TEST(Linformer, IsItsDefinitionWhereManyRowsAreProjected) {
  const Layer layer({"linformer", R"({"k": 4500, "n_max": 4600, "sharing": "headwise"})", Place::kEncoder, 8,
                     1, WithProjections(8, {4500, 4600})},
                    Precision::kF32);
  ExpectTheDefinition(layer, 150, 2e-5);
}

TEST(Linformer, IsItsDefinitionWhereMoreRowsAreProjectedThanThereAre) {
  const Layer layer({"linformer", R"({"k": 150, "n_max": 9, "sharing": "key-value"})", Place::kEncoder, 8, 2,
                     WithProjections(8, {150, 9}, true)},
                    Precision::kF32);
  for (int64_t n : {1, 9}) ExpectTheDefinition(layer, n, 2e-5);
}

TEST(Linformer, IsItsDefinitionInBf16) {
  const Precision precision = Supported(Precision::kBf16);  // f32 where the CPU has no bf16
  for (const AttentionExample& example : Examples()) {
    for (int64_t n : {1, 37, 700}) ExpectTheDefinition(Layer(example, precision), n, 0.05);
  }
}

// Sums stay whole: a task of a long text takes fewer of them.
TEST(Linformer, ALongTextIsMoreTasksAndNoMoreState) {
  constexpr int64_t kLong = 140000;
  const Layer layer({"linformer", R"({"k": 128, "n_max": 140000, "sharing": "key-value"})", Place::kEncoder,
                     64, 1, WithProjections(64, {128, kLong}, true)},
                    Precision::kF32);
  const auto projecting = [&](int64_t n) {
    const AttentionStage stage = layer.attention().Start()->Begin({.count = n, .source_count = n})[0];
    EXPECT_LE(stage.cost, kTaskCost);
    return stage.tasks;
  };
  EXPECT_EQ(projecting(1000), 2);
  EXPECT_EQ(projecting(kLong), 4);
  EXPECT_EQ(layer.attention().StateBytes(1), layer.attention().StateBytes(kLong));
  EXPECT_EQ(layer.attention().max_tokens(), kLong);
}

TEST(Linformer, FourTimesTheTextIsFourTimesTheWork) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const auto work = [&](int64_t n) { return MultiplyAddsOf(layer, n); };
    EXPECT_EQ(work(4096), 4 * work(1024)) << example.options;
  }
}

// In memory as the products read it: with "key-value" once.
TEST(Linformer, HoldsEOnceWhereItIsF) {
  const auto constant = [](const char* sharing, bool one) {
    const std::string options = std::string(R"({"k": 16, "n_max": 4096, "sharing": ")") + sharing + "\"}";
    return Layer({"linformer", options, Place::kEncoder, 32, 4, WithProjections(32, {16, 4096}, one)},
                 Precision::kF32)
        .attention()
        .constant_bytes();
  };
  EXPECT_GE(constant("key-value", true), 16 * 4096 * 4);
  EXPECT_EQ(constant("headwise", false), 2 * constant("key-value", true));
}

TEST(Linformer, RefusesWhatCannotBe) {
  const Layer layer(Examples()[0], Precision::kF32);
  const auto weights = Weights::Of({});
  constexpr const char* kGood = R"({"k": 4, "n_max": 64, "sharing": "none"})";
  ExpectRefused(
      layer, WeightScope(*weights),
      {{Place::kDecoder, kGood, {"layers[0].attention", "encoders only", "later tokens"}},
       {Place::kCross, kGood, {"self-attention only"}},
       {Place::kEncoder, R"({"n_max": 64, "sharing": "none"})", {"k is missing"}},
       {Place::kEncoder, R"({"k": 4, "sharing": "none"})", {"n_max is missing"}},
       {Place::kEncoder, R"({"k": 4, "n_max": 64})", {"sharing is missing"}},
       {Place::kEncoder, R"({"k": 4, "n_max": 64, "sharing": "layerwise"})", {"layerwise", "key-value"}},
       {Place::kEncoder,
        R"({"k": 1000, "n_max": 1000000, "sharing": "headwise"})",
        {"1000", "1000000", "268435456"}},
       {Place::kEncoder, kGood, {"q.weight"}}});
  ExpectRefused(
      layer, layer.scope(),
      {{Place::kEncoder, R"({"k": 16, "n_max": 4096, "sharing": "none"})", {"tensor \"e\"", "[4, 16, 4096]"}},
       {Place::kEncoder,
        R"({"k": 16, "n_max": 4095, "sharing": "key-value"})",
        {"[16, 4096]", "[16, 4095]"}}});
}

}  // namespace
}  // namespace heed
