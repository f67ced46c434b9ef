// Spans of an answer among two logits a token, against transformers' question-answering pipeline written out.
#include "server/jobs/find_spans.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace heed {
namespace {

// select_starts_ends and decode_spans of transformers 4.57, all spans instead of the best.
std::vector<FoundSpan> EverySpan(const std::vector<float>& starts, const std::vector<float>& ends,
                                 const SpanPlace& place, const SpanOptions& options) {
  const auto softmax = [&](const std::vector<float>& logits) {
    std::vector<double> p(logits.size());
    double sum = 0;
    for (int64_t i = 0; i < std::ssize(logits); ++i) {
      const bool may = i == place.none || (i >= place.begin && i < place.end);
      sum += p[i] = may ? std::exp(double{logits[i]}) : 0;
    }
    for (double& x : p) x /= sum;
    return p;
  };
  const std::vector<double> p_start = softmax(starts), p_end = softmax(ends);
  std::vector<FoundSpan> spans;
  for (int64_t i = place.begin; i < place.end; ++i) {
    for (int64_t j = i; j < place.end && j - i < options.max_tokens; ++j)
      spans.push_back({i, j, p_start[i] * p_end[j]});
  }
  std::ranges::stable_sort(spans, [](const auto& a, const auto& b) { return a.score > b.score; });
  return spans;
}

TEST(FindSpans, AreThoseOfTheDefinition) {
  std::mt19937 random(7);
  std::normal_distribution<float> logit(0, 3);
  for (int round = 0; round < 200; ++round) {
    const auto tokens = static_cast<int64_t>(3 + random() % 30);
    std::vector<float> starts(tokens), ends(tokens);
    for (float& x : starts) x = logit(random);
    for (float& x : ends) x = logit(random);
    SpanPlace place{.begin = static_cast<int64_t>(1 + random() % (tokens - 1))};
    place.end = place.begin + 1 + static_cast<int64_t>(random() % (tokens - place.begin));
    place.none = round % 2 == 0 ? 0 : -1;
    const SpanOptions options{.top = 1 + static_cast<int32_t>(random() % 6),
                              .max_tokens = 1 + static_cast<int32_t>(random() % 8)};
    const FoundSpans found = BestSpans(starts, ends, place, options);
    const std::vector<FoundSpan> all = EverySpan(starts, ends, place, options);
    ASSERT_EQ(found.spans.size(), std::min<size_t>(options.top, all.size()));
    for (size_t i = 0; i < found.spans.size(); ++i) {
      EXPECT_NEAR(found.spans[i].score, all[i].score, 1e-12);
      EXPECT_EQ(found.spans[i].first, all[i].first);
      EXPECT_EQ(found.spans[i].last, all[i].last);
    }
    EXPECT_EQ(found.none.has_value(), place.none >= 0);
  }
}

TEST(FindSpans, OfEqualOnesTheEarlierAndShorterIsFirst) {
  const std::vector<float> same(5, 0.0f);
  const FoundSpans found = BestSpans(same, same, {.begin = 1, .end = 4}, {.top = 4, .max_tokens = 2});
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const FoundSpan& span : found.spans) places.emplace_back(span.first, span.last);
  EXPECT_EQ(places, (std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 2}, {2, 2}, {2, 3}}));
  EXPECT_DOUBLE_EQ(found.spans[0].score, 1.0 / 9);
}

TEST(FindSpans, NoAnswerTakesItsPartOfBoth) {
  const std::vector<float> starts = {2, 0, 0}, ends = {3, 0, 0};
  const FoundSpans found = BestSpans(starts, ends, {.begin = 1, .end = 3, .none = 0}, {});
  const double start = std::exp(2) / (std::exp(2) + 2), end = std::exp(3) / (std::exp(3) + 2);
  ASSERT_TRUE(found.none.has_value());
  EXPECT_NEAR(*found.none, start * end, 1e-12);
  EXPECT_NEAR(found.spans[0].score, (1 - start) / 2 * (1 - end) / 2, 1e-12);
}

TEST(FindSpans, LogitsOfAnySizeGiveProbabilities) {
  const std::vector<float> starts = {-3e38f, 3e38f, 0}, ends = {3e38f, 3e38f, -3e38f};
  const FoundSpans found = BestSpans(starts, ends, {.begin = 0, .end = 3}, {});
  EXPECT_EQ(found.spans[0].first, 1);
  EXPECT_EQ(found.spans[0].last, 1);
  EXPECT_DOUBLE_EQ(found.spans[0].score, 0.5);
}

}  // namespace
}  // namespace heed
