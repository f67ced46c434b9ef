// Rules for tokens, alone, in the sampler and in the search.
#include "engine/generation/token_rules.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "engine/generation/beam_search.h"
#include "engine/generation/sampling.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
using Ids = std::vector<int32_t>;

constexpr int64_t kLong = 100;

// What may not come after so much of a text.
Ids Removed(const TokenRules& rules, const Ids& generated, const Ids& prompt = {}, const Ids& source = {}) {
  const TokenRuling::Verdict verdict = TokenRuling(&rules, prompt, source, kLong).After(generated);
  EXPECT_THAT(verdict.only, IsEmpty());
  return verdict.removed;
}

TEST(TokenRules, NoneRuleNothing) {
  EXPECT_FALSE(TokenRuling().acts());
  EXPECT_THAT(TokenRuling().After({}).removed, IsEmpty());
  EXPECT_THAT(Removed({}, {1, 1}), IsEmpty());
}

TEST(TokenRules, SuppressInAllPlacesOrTheFirst) {
  const TokenRules rules{.suppress_tokens = {4, 5}, .begin_suppress_tokens = {6}};
  EXPECT_THAT(Removed(rules, {}), UnorderedElementsAre(4, 5, 6));
  EXPECT_THAT(Removed(rules, {1}), UnorderedElementsAre(4, 5));
}

TEST(TokenRules, AForcedTokenComesFirstAndTheBeginningIsThenTheSecond) {
  const TokenRules rules{.begin_suppress_tokens = {6}, .forced_bos_token_id = 7};
  EXPECT_THAT(TokenRuling(&rules, {}, {}, kLong).After({}).only, ElementsAre(7));
  EXPECT_THAT(Removed(rules, {7}), ElementsAre(6));
  EXPECT_THAT(Removed(rules, {7, 1}), IsEmpty());
}

TEST(TokenRules, AForcedEndIsTheLastOfAsManyAsMayCome) {
  const TokenRules rules{.forced_eos_token_ids = {2, 3}};
  const TokenRuling ruling(&rules, {}, {}, /*most=*/3);
  EXPECT_THAT(ruling.After(Ids{5}).only, IsEmpty());
  EXPECT_THAT(ruling.After(Ids{5, 5}).only, ElementsAre(2, 3));
}

TEST(TokenRules, NoRunOfSoManyComesTwiceInPromptAndText) {
  const TokenRules rules{.no_repeat_ngram_size = 3};
  EXPECT_THAT(Removed(rules, {1, 2, 4, 1, 2}, {1, 2, 3}), UnorderedElementsAre(3, 4));
  EXPECT_THAT(Removed(rules, {2}, {1, 2, 3, 1}), ElementsAre(3));
  EXPECT_THAT(Removed(rules, {2}), IsEmpty()) << "too short for a run";
  EXPECT_THAT(Removed({.no_repeat_ngram_size = 1}, {4, 5}, {6}), UnorderedElementsAre(4, 5, 6));
}

TEST(TokenRules, NorARunOfTheSource) {
  const TokenRules rules{.encoder_no_repeat_ngram_size = 2};
  EXPECT_THAT(Removed(rules, {5}, /*prompt=*/{0}, /*source=*/{5, 6, 5, 7}), UnorderedElementsAre(6, 7));
  EXPECT_THAT(Removed(rules, {5, 6}, {0}, {5, 6, 5, 7}), ElementsAre(5));
}

TEST(TokenRules, BadWordsAreNotCompleted) {
  const TokenRules rules{.bad_words_ids = {{9}, {1, 2}, {3, 4, 5}}};
  EXPECT_THAT(Removed(rules, {}), ElementsAre(9));
  EXPECT_THAT(Removed(rules, {1}, {0}), UnorderedElementsAre(9, 2));
  EXPECT_THAT(Removed(rules, {4}, {0, 3}), UnorderedElementsAre(9, 5));
  EXPECT_THAT(Removed(rules, {4}, {3}), ElementsAre(9)) << "transformers looks at runs within the text only";
}

TEST(TokenRules, HoldWhateverTheLogitsAndTheOptions) {
  const TokenRules rules{.suppress_tokens = {3}, .forced_bos_token_id = 1, .forced_eos_token_ids = {0}};
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.logit_bias = {{3, 50}}, .temperature = temperature}, {0}, {}, 0,
                    TokenRuling(&rules, {}, {}, /*most=*/4));
    const std::vector<float> logits = {-9, -9, 5, 9};
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(sampler.Next(logits).ok());
    EXPECT_THAT(Ids(sampler.generated().begin(), sampler.generated().end()), ElementsAre(1, 2, 2, 0));
  }
}

TEST(TokenRules, ThatLeaveNoTokenAreAnError) {
  const TokenRules rules{.suppress_tokens = {0, 1}};
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature}, {}, {}, 0, TokenRuling(&rules, {}, {}, kLong));
    EXPECT_EQ(sampler.Next(std::vector<float>{1, 2}).status().message(),
              "the token_rules of the model leave no token that may come next");
  }
}

// Each text after which the logits are the same.
std::vector<BeamSearch::Hypothesis> Found(const BeamOptions& options, const Ids& ends, int64_t most,
                                          TokenRuling ruling, const std::vector<float>& logits) {
  BeamSearch search(options, ends, most, ruling);
  while (search.live() > 0) {
    for (int i = 0; i < search.live(); ++i) search.Read(i, logits);
    EXPECT_TRUE(search.Advance().ok());
  }
  return search.Results();
}

TEST(BeamSearchRules, HoldForEachHypothesis) {
  const TokenRules rules{.suppress_tokens = {3},
                         .no_repeat_ngram_size = 2,
                         .forced_bos_token_id = 1,
                         .forced_eos_token_ids = {0}};
  const auto found =
      Found({.width = 3, .length_penalty = 1}, {0}, 5, TokenRuling(&rules, {}, {}, 5), {-9, 0, 1, 8, 0.5});
  ASSERT_EQ(found.size(), 3u);
  for (const auto& text : found) {
    EXPECT_EQ(text.tokens.front(), 1);
    EXPECT_EQ(text.tokens.back(), 0);
    EXPECT_THAT(text.tokens, Each(Not(3)));
    std::set<std::pair<int32_t, int32_t>> runs;
    for (size_t i = 0; i + 1 < text.tokens.size(); ++i)
      EXPECT_TRUE(runs.emplace(text.tokens[i], text.tokens[i + 1]).second);
  }
}

TEST(BeamSearchRules, AForcedTokenCostsNothing) {
  const TokenRules rules{.forced_bos_token_id = 1};
  const std::vector<float> logits = {0, -20};
  const auto free = Found({.width = 1}, {0}, 1, {}, logits);
  const auto forced = Found({.width = 1}, {0}, 2, TokenRuling(&rules, {}, {}, 2), logits);
  EXPECT_THAT(forced[0].tokens, ElementsAre(1, 0));
  EXPECT_EQ(forced[0].score, free[0].score);
  EXPECT_LT(forced[0].logprobs[0], -19) << "as the model gave it";
}

TEST(BeamSearchRules, ProbabilitiesAreOfWhatMayComeWhereThatIsAskedFor) {
  const TokenRules rules{.suppress_tokens = {2}};
  const TokenRuling ruling(&rules, {}, {}, kLong);
  const std::vector<float> logits = {0, 0, 5};
  EXPECT_NEAR(Found({.width = 1, .renormalize = true}, {0, 1}, 1, ruling, logits)[0].score, std::log(0.5),
              1e-6);
  EXPECT_LT(Found({.width = 1}, {0, 1}, 1, ruling, logits)[0].score, -5);
}

TEST(BeamSearchRules, NoTextEndsBeforeItsLeastLength) {
  const auto found = Found({.width = 2, .min_tokens = 3}, {0}, 6, {}, {9, 0, 0});
  for (const auto& text : found) EXPECT_GE(text.tokens.size(), 4u);
  EXPECT_EQ(found.size(), 2u);
}

// The first two texts that end are short; longer ones have better scores.
TEST(BeamSearchRules, ASearchMayEndWithTheFirstTexts) {
  BeamOptions options{.width = 2, .length_penalty = 1};
  const auto length = [&] { return Found(options, {0}, 6, {}, {1, 1.7F, -2})[0].tokens.size(); };
  EXPECT_GT(length(), 2u);
  options.early_stopping = true;
  EXPECT_EQ(length(), 2u);
}

}  // namespace
}  // namespace heed
