// A Linformer's rows of long texts and in bf16, against the definition; what it refuses, and how it grows.
#include <cmath>
#include <string>
#include <vector>

#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

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

void ExpectTheDefinition(const Layer& layer, int64_t n, double bounds = 1) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < n; i += 1 + n / 20) rows.push_back(i);
  ExpectDefinition(Scaled(layer, n), rows, {.bounds = bounds});
}

TEST(Linformer, IsItsDefinition) {
  for (const AttentionExample& example : ExamplesOf("linformer")) {
    for (int64_t n : {1, 37, 128, 700, 4096}) ExpectTheDefinition(Layer(example, Precision::kF32), n);
  }
}

// More projected rows than one task keeps, or than a part of keys has.
TEST(Linformer, IsItsDefinitionWhereManyRowsAreProjected) {
  const Layer layer(
      {"linformer", R"({"k": 4500, "n_max": 4600, "sharing": "headwise"})", Place::kEncoder, 8, 1},
      Precision::kF32);
  ExpectTheDefinition(layer, 150);
}

TEST(Linformer, IsItsDefinitionWhereMoreRowsAreProjectedThanThereAre) {
  const Layer layer({"linformer", R"({"k": 150, "n_max": 9, "sharing": "key-value"})", Place::kEncoder, 8, 2},
                    Precision::kF32);
  for (int64_t n : {1, 9}) ExpectTheDefinition(layer, n);
}

TEST(Linformer, IsItsDefinitionInBf16) {
  const Precision precision = Supported(Precision::kBf16);  // f32 where the CPU has no bf16
  for (const AttentionExample& example : ExamplesOf("linformer")) {
    for (int64_t n : {1, 37, 700}) ExpectTheDefinition(Layer(example, precision), n, 1000);
  }
}

// Sums stay whole: a task of a long text takes fewer of them.
TEST(Linformer, ALongTextIsMoreTasksAndNoMoreState) {
  constexpr int64_t kLong = 140000;
  const Layer layer(
      {"linformer", R"({"k": 128, "n_max": 140000, "sharing": "key-value"})", Place::kEncoder, 64, 1},
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
  for (const AttentionExample& example : ExamplesOf("linformer")) {
    const Layer layer(example, Precision::kF32);
    const auto work = [&](int64_t n) { return MultiplyAddsOf(layer, n); };
    EXPECT_EQ(work(4096), 4 * work(1024)) << example.options;
  }
}

// In memory as the products read it: with "key-value" once.
TEST(Linformer, HoldsEOnceWhereItIsF) {
  const auto constant = [](const char* sharing) {
    const std::string options = std::string(R"({"k": 16, "n_max": 4096, "sharing": ")") + sharing + "\"}";
    return Layer({"linformer", options, Place::kEncoder}, Precision::kF32).attention().constant_bytes();
  };
  EXPECT_GE(constant("key-value"), 16 * 4096 * 4);
  EXPECT_EQ(constant("headwise"), 2 * constant("key-value"));
}

TEST(Linformer, RefusesWhatCannotBe) {
  const Layer layer(ExamplesOf("linformer")[0], Precision::kF32);
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
