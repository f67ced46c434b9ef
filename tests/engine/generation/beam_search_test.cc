// The search against its definition, written slowly: every extension of every hypothesis, sorted.

#include "engine/generation/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Logits = std::function<std::vector<float>(const Ids& text)>;
struct Found {
  double score;
  Ids tokens;
};

std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  std::vector<double> logprobs;
  for (float x : logits) logprobs.push_back(x - std::log(sum));
  return logprobs;
}

std::vector<Found> Slow(const Logits& model, const BeamOptions& o, int32_t end, int64_t most) {
  std::vector<Found> live = {{0, {}}}, ended;
  const auto keep = [&] {
    std::ranges::stable_sort(ended, std::greater(), &Found::score);
    if (std::ssize(ended) > o.width) ended.resize(o.width);
  };
  for (int64_t length = 1; length <= most; ++length) {
    const double penalty = std::pow(static_cast<double>(length), o.length_penalty);
    std::vector<Found> all, next;
    for (const Found& parent : live) {
      const std::vector<double> logprobs = LogSoftmax(model(parent.tokens));
      for (int32_t t = 0; t < std::ssize(logprobs); ++t) {
        all.push_back({parent.score + logprobs[t], parent.tokens});
        all.back().tokens.push_back(t);
      }
    }
    std::ranges::stable_sort(all, std::greater(), &Found::score);
    for (int64_t place = 0; place < std::ssize(all) && std::ssize(next) < o.width; ++place) {
      if (all[place].tokens.back() != end)
        next.push_back(all[place]);
      else if (place < o.width)
        ended.push_back({all[place].score / penalty, all[place].tokens});
    }
    live = next;
    keep();
    const bool full = std::ssize(ended) == o.width;
    if (live.empty() || (full && live[0].score / penalty <= ended.back().score)) return ended;
    if (length < most) continue;
    for (const Found& rest : live) ended.push_back({rest.score / penalty, rest.tokens});
    keep();
  }
  return ended;
}

std::vector<BeamSearch::Hypothesis> Fast(const Logits& model, const BeamOptions& o, Ids ends, int64_t most) {
  BeamSearch search(o, std::move(ends), most);
  std::vector<Ids> texts = {{}};
  while (search.live() > 0) {
    EXPECT_EQ(search.live(), std::ssize(texts));
    for (int i = search.live() - 1; i >= 0; --i) search.Read(i, model(texts[i]));
    const auto extensions = search.Advance();
    EXPECT_TRUE(extensions.ok());
    std::vector<Ids> next;
    for (const auto& [parent, token] : *extensions) {
      next.push_back(texts[parent]);
      next.back().push_back(token);
    }
    texts = std::move(next);
  }
  return search.Results();
}

// Clear enough that no two sums are near each other.
Logits RandomModel(uint32_t seed, int vocabulary) {
  return [=](const Ids& text) {
    std::seed_seq sequence(text.begin(), text.end());
    std::vector<uint32_t> mixed(2);
    sequence.generate(mixed.begin(), mixed.end());
    std::mt19937 random(mixed[0] ^ seed);
    std::normal_distribution<float> normal(0, 1.5);
    std::vector<float> logits(vocabulary);
    for (float& x : logits) x = normal(random);
    return logits;
  };
}

TEST(BeamSearch, FindsWhatItsDefinitionFinds) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int vocabulary = 2 + static_cast<int>(random() % 9);
    const BeamOptions options{.width = 1 + static_cast<int32_t>(random() % 6),
                              .length_penalty = std::vector<double>{0, 1, 0.6, -1, 2}[random() % 5]};
    const int64_t most = 1 + random() % 7;
    const auto end = static_cast<int32_t>(random() % vocabulary);
    const Logits model = RandomModel(round, vocabulary);
    const auto slow = Slow(model, options, end, most);
    const auto fast = Fast(model, options, {end}, most);
    ASSERT_EQ(fast.size(), slow.size()) << round;
    for (size_t i = 0; i < slow.size(); ++i) {
      EXPECT_EQ(fast[i].tokens, slow[i].tokens) << round << " text " << i;
      EXPECT_NEAR(fast[i].score, slow[i].score, 1e-6 * (1 + std::abs(slow[i].score)));
      EXPECT_EQ(fast[i].ended, slow[i].tokens.back() == end);
    }
  }
}

TEST(BeamSearch, OfWidthOneIsGreedy) {
  const Logits model = RandomModel(77, 20);
  Ids greedy;
  while (greedy.size() < 8) {
    const auto logits = model(greedy);
    greedy.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  const auto found = Fast(model, {.width = 1}, {}, 8);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tokens, greedy);
  EXPECT_FALSE(found[0].ended);
}

TEST(BeamSearch, OfEqualSumsTheBetterParentAndTheLowerTokenGoFirst) {
  const auto found = Fast([](const Ids&) { return std::vector<float>(5, 0.0f); }, {.width = 3}, {}, 2);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].tokens, (Ids{0, 0}));
  EXPECT_EQ(found[1].tokens, (Ids{0, 1}));
  EXPECT_EQ(found[2].tokens, (Ids{0, 2}));
}

TEST(BeamSearch, AnyEndTokenEndsAHypothesis) {
  const auto found =
      Fast([](const Ids&) { return std::vector<float>{0, 3, 2, 1}; }, {.width = 2}, {1, 2}, 10);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].tokens, Ids{1});
  EXPECT_EQ(found[1].tokens, Ids{2});
  EXPECT_TRUE(found[0].ended);
}

TEST(BeamSearch, WhatIsNoChoiceIsInNoText) {
  const Logits model = RandomModel(78, 20);
  for (const auto& found : Fast(model, {.width = 6, .results = 6, .choices = 3}, {7}, 5)) {
    EXPECT_EQ(found.tokens.size(), 5u) << "no end token ends it";
    EXPECT_THAT(found.tokens, testing::Each(testing::Lt(3)));
  }
}

TEST(BeamSearch, ManyEndTokensLeaveRoomForWhatGoesOn) {
  BeamSearch search({.width = 2}, {0, 1, 2, 3}, 10);
  search.Read(0, std::vector<float>{9, 8, 7, 6, 5, 4, 3});
  EXPECT_TRUE(search.Advance()->empty()) << "two have ended, and nothing is better";
  BeamSearch wide({.width = 3}, {1, 2, 3, 4, 5}, 10);
  wide.Read(0, std::vector<float>{9, 8, 7, 6, 5, 4, 3, 2});
  const auto going_on = wide.Advance();
  ASSERT_TRUE(going_on.ok());
  Ids tokens;
  for (const auto& extension : *going_on) tokens.push_back(extension.token);
  EXPECT_EQ(tokens, (Ids{0, 6, 7}));
}

TEST(BeamSearch, WhatIsOnlyAsGoodAsTheWorstThatEndedDoesNotGoOn) {
  BeamSearch search({.width = 1, .length_penalty = 0}, {0}, 10);
  search.Read(0, std::vector<float>{1, 1, 0});
  EXPECT_TRUE(search.Advance()->empty());
  EXPECT_EQ(search.live(), 0);
}

TEST(BeamSearch, TokensHaveTheirLogprobabilities) {
  const Logits model = RandomModel(3, 6);
  const auto all = Fast(model, {.width = 4, .length_penalty = 0}, {5}, 6);
  ASSERT_EQ(all.size(), 4u);
  for (const auto& found : all) {
    double sum = 0;
    for (float logprob : found.logprobs) sum += logprob;
    EXPECT_EQ(found.logprobs.size(), found.tokens.size());
    EXPECT_NEAR(sum, found.score, 1e-5);
  }
}

TEST(BeamSearch, LogitsThatAreNoNumbersAreAnError) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    BeamSearch search({.width = 2}, {}, 5);
    search.Read(0, std::vector<float>{0, bad, 1});
    EXPECT_EQ(search.Advance().status().code(), absl::StatusCode::kInternal);
  }
}

TEST(BeamOptions, NameTheFieldTheValueAndTheLimit) {
  const auto message = [](const BeamOptions& options) { return std::string(Validate(options).message()); };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.width = 16, .length_penalty = -10, .results = 16}), "");
  for (const char* part : {"beam.width", "17", "16"}) EXPECT_THAT(message({.width = 17}), HasSubstr(part));
  EXPECT_THAT(message({.width = -1}), HasSubstr("beam.width"));
  for (const double bad : {10.5, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(message({.width = 2, .length_penalty = bad}), HasSubstr("beam.length_penalty"));
  }
  for (const char* part : {"beam.results", "3", "2"})
    EXPECT_THAT(message({.width = 2, .results = 3}), HasSubstr(part));
}

}  // namespace
}  // namespace heed
