#include "engine/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "engine/base/status.h"
#include "engine/generation/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomRow(size_t n, uint32_t seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

std::vector<double> Softmax(const std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  std::vector<double> p;
  for (double v : x) p.push_back(std::exp(v - largest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

// Removes all but the first tokens in `order` until their sum of p reaches mass.
void KeepUntil(std::vector<double>& x, const std::vector<size_t>& order, const std::vector<double>& p,
               double mass) {
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && sum >= mass) x[order[i]] = -kInf;
    sum += p[order[i]];
  }
}

std::vector<size_t> Order(const std::vector<double>& key) {
  std::vector<size_t> order(key.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key[a] < key[b]; });
  return order;
}

// The definition with full sorts, for rows without ties and options without penalties.
std::vector<double> Naive(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<double> x;
  for (float v : logits) x.push_back(v / options.temperature);
  if (options.top_k > 0) {
    std::vector<double> sorted = x;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (double& v : x) v = v >= sorted[options.top_k - 1] ? v : -kInf;
  }
  if (options.typical_p < 1) {
    const std::vector<double> p = Softmax(x);
    double entropy = 0;
    for (double v : p) entropy -= v > 0 ? v * std::log(v) : 0;
    std::vector<double> key;
    for (double v : p) key.push_back(std::abs(-std::log(v) - entropy));
    KeepUntil(x, Order(key), p, options.typical_p);
  }
  if (options.top_p < 1) {
    const std::vector<double> p = Softmax(x);
    std::vector<double> key;
    for (double v : p) key.push_back(-v);
    KeepUntil(x, Order(key), p, options.top_p);
  }
  if (options.min_p > 0) {
    const std::vector<double> p = Softmax(x);
    const double largest = *std::max_element(p.begin(), p.end());
    for (size_t i = 0; i < x.size(); ++i) x[i] = p[i] >= options.min_p * largest ? x[i] : -kInf;
  }
  return Softmax(x);
}

TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(UniformAt, IsEvenInEveryArgument) {
  EXPECT_EQ(UniformAt(0, 0, 0), 0xe169c58d6627e8d5 / 2048 * 0x1p-53);
  for (const auto& at :
       {std::function<double(uint64_t)>([](uint64_t i) { return UniformAt(i, 0, 0); }),
        std::function<double(uint64_t)>([](uint64_t i) { return UniformAt(UINT64_MAX, i, 0); }),
        std::function<double(uint64_t)>([](uint64_t i) { return UniformAt(7, 3, i << 40); })}) {
    std::vector<int> counts(10);
    for (uint64_t i = 0; i < 100'000; ++i) {
      const double u = at(i);
      ASSERT_TRUE(u >= 0 && u < 1);
      ++counts[static_cast<int>(u * 10)];
    }
    for (int count : counts) EXPECT_NEAR(count, 10'000, 500);
  }
}

TEST(UniformAt, ReadsEveryBitOfItsArguments) {
  std::set<double> numbers = {UniformAt(0, 0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t x = uint64_t{1} << bit;
    numbers.insert({UniformAt(x, 0, 0), UniformAt(0, x, 0), UniformAt(0, 0, x)});
  }
  EXPECT_EQ(numbers.size(), 1u + 3 * 64);
}

TEST(Sampler, TopPStopsWhereItsMassIsReached) {
  const std::vector<float> row = {0, 0, 0, 0};
  for (const auto& [mass, expected] : {std::pair{0.5, 0.5}, {0.75, 1.0 / 3}, {0.51, 1.0 / 3}}) {
    const SamplingOptions options{.top_p = mass};
    const std::vector<double> p = Sampler(options, {}, {}, 0).Probabilities(row).value();
    EXPECT_NEAR(p[0], expected, 1e-12) << mass;
    EXPECT_EQ(p[3], 0) << mass;
  }
}

TEST(Sampler, AgreesWithFullSorts) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> row = RandomRow(50 + seed * 7, seed, seed % 3 == 0 ? 0.01f : 3);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(0.01, 1);
    SamplingOptions options{.temperature = uniform(random) * 2};
    if (seed & 1) options.top_k = 1 + static_cast<int32_t>(random() % row.size());
    if (seed & 2) options.typical_p = uniform(random);
    if (seed & 4) options.top_p = uniform(random);
    if (seed & 8) options.min_p = uniform(random) / 2;
    const std::vector<double> expected = Naive(row, options);
    const std::vector<double> found = Sampler(options, {}, {}, 0).Probabilities(row).value();
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_EQ(found[i] > 0, expected[i] > 0) << seed << " " << i;
      ASSERT_NEAR(found[i], expected[i], 1e-12);
    }
  }
}

TEST(Sampler, DrawsAsOftenAsProbable) {
  const std::vector<float> row = RandomRow(20, 1, 1);
  SamplingOptions options{.top_k = 12, .top_p = 0.95};
  const std::vector<double> p = Sampler(options, {}, {}, 0).Probabilities(row).value();
  std::map<int32_t, int> counts;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    options.seed = i;
    ++counts[Sampler(options, {}, {}, 5).Next(row)->token];
  }
  for (int32_t id = 0; id < 20; ++id) {
    EXPECT_NEAR(counts[id], kDraws * p[id], 5 * std::sqrt(kDraws * p[id]) + 1e-9) << id;
  }
}

TEST(Sampler, SameSeedSameTextWhateverHappensBeside) {
  auto text = [](uint64_t seed, uint64_t stream) {
    Sampler sampler({.seed = seed}, {}, {}, stream);
    for (uint32_t i = 0; i < 30; ++i) sampler.Next(RandomRow(1000, i)).IgnoreError();
    return std::vector<int32_t>(sampler.generated().begin(), sampler.generated().end());
  };
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, UINT64_MAX, uint64_t{1} << 63}) {
    EXPECT_EQ(text(seed, 0), text(seed, 0));
    EXPECT_NE(text(seed, 0), text(seed, 1));
    EXPECT_NE(text(seed, 0), text(seed ^ (uint64_t{1} << 32), 0));
  }
}

TEST(Sampler, GreedyTakesTheLargestAndOfEqualOnesTheLowestId) {
  EXPECT_EQ(Sampler({.temperature = 0}, {}, {}, 0).Next(std::vector<float>{1, 3, 3, 2})->token, 1);
  const SamplingOptions biased{.logit_bias = {{3, 1}}, .temperature = 0};
  EXPECT_EQ(Sampler(biased, {}, {}, 0).Next(std::vector<float>{1, 3, 3, 2})->token, 1);
  const SamplingOptions nothing_else_acts{.temperature = 0, .top_k = 1, .typical_p = 0.1, .min_p = 1};
  EXPECT_EQ(Sampler(nothing_else_acts, {}, {}, 0).Next(std::vector<float>{1, 3, 3, 2})->token, 1);
}

TEST(Sampler, PenaltiesCountWhatWasSaid) {
  const std::vector<int32_t> prompt = {0, 0, 1};
  Sampler sampler({.repetition_penalty = 2, .presence_penalty = 0.5, .frequency_penalty = 0.25}, {}, prompt,
                  0);
  sampler.Remember(1);
  sampler.Remember(1);
  sampler.Remember(2);
  const std::vector<double> p = sampler.Probabilities(std::vector<float>{1, -1, 4, 0.5}).value();
  const std::vector<double> expected = Softmax({0.5, -2 - 0.5 - 2 * 0.25, 2 - 0.5 - 0.25, 0.5});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(p[i], expected[i], 1e-15);
}

TEST(Sampler, EveryPenaltyAloneTurnsGreedyFromWhatWasSaid) {
  for (const SamplingOptions& options : {SamplingOptions{.repetition_penalty = 2, .temperature = 0},
                                         {.presence_penalty = 0.5, .temperature = 0},
                                         {.frequency_penalty = 0.5, .temperature = 0}}) {
    Sampler sampler(options, {}, {}, 0);
    const std::vector<float> row = {1, 0.9f, 0.1f};
    EXPECT_EQ(sampler.Next(row)->token, 0);
    EXPECT_EQ(sampler.Next(row)->token, 1);
  }
}

TEST(Sampler, EndTokensWaitForMinTokens) {
  Sampler sampler({.min_tokens = 2, .temperature = 0}, {1, 2}, {}, 0);
  const std::vector<float> row = {0, 9, 8, 1};
  EXPECT_EQ(sampler.Next(row)->token, 3);
  EXPECT_EQ(sampler.Next(row)->token, 3);
  EXPECT_EQ(sampler.Next(row)->token, 1);
}

TEST(Sampler, WhatIsNoChoiceIsNeverChosenWhateverIsAddedToIt) {
  const std::vector<float> row = {0, 2, 1, 9, 8};
  EXPECT_EQ(Sampler({.temperature = 0, .choices = 3}, {}, {}, 0).Next(row)->token, 1);
  const SamplingOptions hot{.logit_bias = {{3, 100}}, .temperature = 100, .choices = 3};
  const auto shares = *Sampler(hot, {}, {}, 0).Probabilities(row);
  EXPECT_NEAR(shares[0] + shares[1] + shares[2], 1, 1e-12);
  EXPECT_EQ(shares[3] + shares[4], 0);
  EXPECT_NEAR(Sampler(hot, {}, {}, 0).Next(row)->logprob, -9, 2.5) << "of all tokens, as the model gave it";
  EXPECT_EQ(Sampler(hot, {}, {}, 0).Next(std::vector<float>{-kInf, -kInf, -kInf, 1, 2}).status(),
            absl::InternalError("the model gave logit -inf for every token below 3"));
}

TEST(Sampler, TellsLogprobsUnderTheModelsOwnDistribution) {
  const std::vector<float> row = {1, 3, 3, 2, -kInf};
  Sampler sampler({.logit_bias = {{0, 50}}, .temperature = 0, .top_logprobs = 4}, {}, {}, 0);
  const TokenChoice choice = sampler.Next(row).value();
  EXPECT_EQ(choice.token, 0);
  const double log_sum = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_NEAR(choice.logprob, 1 - log_sum, 1e-6);
  ASSERT_EQ(choice.top.size(), 4u);
  const int32_t order[] = {1, 2, 3, 0};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(choice.top[i].first, order[i]);
    EXPECT_NEAR(choice.top[i].second, row[order[i]] - log_sum, 1e-6);
  }
}

TEST(Sampler, RefusesRowsThatAreNoDistribution) {
  for (double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature}, {}, {}, 0);
    EXPECT_EQ(sampler.Next(std::vector<float>{1, kNan, 2}).status(),
              absl::InternalError("the model gave logit nan for token 1"));
    EXPECT_EQ(sampler.Next(std::vector<float>{-kInf, 1, kInf}).status(),
              absl::InternalError("the model gave logit inf for token 2"));
    EXPECT_EQ(sampler.Next(std::vector<float>{-kInf, -kInf}).status(),
              absl::InternalError("the model gave logit -inf for every token"));
    EXPECT_TRUE(sampler.generated().empty());
    Sampler ended({.min_tokens = 1, .temperature = temperature}, {0, 1}, {}, 0);
    EXPECT_EQ(ended.Next(std::vector<float>{1, 2}).status(),
              absl::FailedPreconditionError(
                  "min_tokens is 1, and before that the model gives end tokens only: ask for fewer"));
  }
}

TEST(Sampler, SurvivesExtremeOptionsThatAreValid) {
  const std::vector<float> row = {3e38f, -3e38f, 0, 3e38f};
  for (double temperature : {1e-300, 100.0}) {
    const SamplingOptions options{.repetition_penalty = 1e-300,
                                  .temperature = temperature,
                                  .typical_p = 1e-300,
                                  .top_p = 0,
                                  .min_p = 1};
    ASSERT_TRUE(Validate(options, 4).ok());
    const std::vector<int32_t> prompt = {0, 1, 3};
    const std::vector<double> p = Sampler(options, {}, prompt, 0).Probabilities(row).value();
    EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-12);
  }
}

std::string Refusal(const SamplingOptions& options) { return std::string(Validate(options, 100).message()); }

TEST(SamplingOptions, EveryNumberIsRefusedOutsideItsRange) {
  struct Field {
    const char* name;
    double SamplingOptions::* value;
    double min, max;
    bool without_min;
  };
  const Field fields[] = {{"sampling.repetition_penalty", &SamplingOptions::repetition_penalty, 0, 10, true},
                          {"sampling.presence_penalty", &SamplingOptions::presence_penalty, -2, 2, false},
                          {"sampling.frequency_penalty", &SamplingOptions::frequency_penalty, -2, 2, false},
                          {"sampling.temperature", &SamplingOptions::temperature, 0, 100, false},
                          {"sampling.typical_p", &SamplingOptions::typical_p, 0, 1, true},
                          {"sampling.top_p", &SamplingOptions::top_p, 0, 1, false},
                          {"sampling.min_p", &SamplingOptions::min_p, 0, 1, false}};
  using Limits = std::numeric_limits<double>;
  for (const Field& field : fields) {
    auto refusal = [&](double value) {
      SamplingOptions options;
      options.*field.value = value;
      return Refusal(options);
    };
    for (double value :
         {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(), Limits::infinity(),
          -Limits::infinity(), -0.0, Limits::denorm_min(), -Limits::denorm_min(), 1e-310}) {
      EXPECT_THAT(refusal(value), HasSubstr("is not a plain number")) << field.name;
    }
    for (double value : {Limits::max(), std::nextafter(field.max, 1e9)}) {
      EXPECT_THAT(refusal(value), HasSubstr(Cat(" is above ", field.max))) << field.name;
    }
    for (double value : {Limits::lowest(), field.min - 1}) {
      EXPECT_EQ(refusal(value), Cat(field.name, ": ", value, " is below ", field.min));
    }
    EXPECT_EQ(refusal(field.max), "");
    EXPECT_EQ(refusal(field.min), field.without_min ? Cat(field.name, ": 0 is not above 0") : "");
  }
}

TEST(SamplingOptions, IdsAndCountsAreRefusedOutsideTheirRange) {
  EXPECT_EQ(Refusal({}), "");
  EXPECT_EQ(Refusal({.top_k = -1}), "sampling.top_k: -1 is below 0");
  EXPECT_EQ(Refusal({.top_k = 101}), "sampling.top_k: 101 is above 100");
  EXPECT_EQ(Refusal({.min_tokens = -1}), "stopping.min_tokens: -1 is below 0");
  EXPECT_EQ(Refusal({.top_logprobs = 21}), "details.top_logprobs: 21 is above 20");
  EXPECT_EQ(Refusal({.top_logprobs = -1}), "details.top_logprobs: -1 is below 0");
  EXPECT_EQ(Refusal({.logit_bias = {{100, 1}}}), "sampling.logit_bias: id 100 is not in [0, 100)");
  EXPECT_EQ(Refusal({.logit_bias = {{-1, 1}}}), "sampling.logit_bias: id -1 is not in [0, 100)");
  EXPECT_EQ(Refusal({.logit_bias = {{1, 101}}}), "sampling.logit_bias[1]: 101 is above 100");
  EXPECT_EQ(Refusal({.logit_bias = {{1, kNan}}}), "sampling.logit_bias[1]: nan is not a plain number");
  EXPECT_EQ(Refusal({.logit_bias = {{1, 0x1p-140f}}}),
            "sampling.logit_bias[1]: 7.17465e-43 is not a plain number");
  EXPECT_EQ(Refusal({.top_k = 100, .top_logprobs = 20}), "");
  EXPECT_EQ(Refusal({.logit_bias = std::vector<std::pair<int32_t, float>>(1024, {99, -100})}), "");
  EXPECT_EQ(Refusal({.logit_bias = std::vector<std::pair<int32_t, float>>(1025, {0, 1})}),
            "sampling.logit_bias: 1025 entries are above 1024");
}

}  // namespace
}  // namespace heed
