#include "engine/generation/stopping.h"

#include <random>

#include "engine/text/tokenizer.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

struct Shown {
  std::string text;
  std::string match;
  bool operator==(const Shown&) const = default;
};

Shown Feed(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
           bool include_stop = false) {
  StopStrings filter(stops, include_stop);
  Shown shown;
  for (const std::string& piece : pieces) shown.text += filter.Add(piece);
  shown.text += filter.Finish();
  shown.match = filter.match();
  EXPECT_EQ(filter.matched(), !shown.match.empty());
  return shown;
}

// The definition: character by character, until what was read ends with a stop string.
Shown Naive(const std::string& text, const std::vector<std::string>& stops, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string match;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop) && stop.size() > match.size()) match = stop;
    }
    if (!match.empty()) return {text.substr(0, include_stop ? end : end - match.size()), match};
  }
  return {text, ""};
}

std::string Refusal(const StopOptions& options) { return std::string(Validate(options, 100).message()); }

TEST(StopStrings, LetTextThroughAndHoldBeginningsBack) {
  StopStrings filter({"stop"}, false);
  EXPECT_EQ(filter.Add("one"), "one");
  EXPECT_EQ(filter.Add(" st"), " ");
  EXPECT_EQ(filter.Add("and"), "stand");
  EXPECT_EQ(filter.Add("s"), "");
  EXPECT_EQ(filter.Finish(), "s");
  EXPECT_FALSE(filter.matched());
}

TEST(StopStrings, MayStretchOverPieces) {
  EXPECT_EQ(Feed({"a s", "t", "op b"}, {"stop"}), (Shown{"a ", "stop"}));
  EXPECT_EQ(Feed({"a s", "t", "op b"}, {"stop"}, true), (Shown{"a stop", "stop"}));
  EXPECT_EQ(Feed({"ss", "stop"}, {"stop"}), (Shown{"ss", "stop"}));
}

TEST(StopStrings, GiveNothingAfterAMatch) {
  StopStrings filter({"."}, false);
  EXPECT_EQ(filter.Add("a.b"), "a");
  EXPECT_EQ(filter.Add("c"), "");
  EXPECT_EQ(filter.Finish(), "");
}

TEST(StopStrings, TheFirstCompleteOneWinsAndOfTheseTheLongest) {
  EXPECT_EQ(Feed({"xabcd"}, {"abcd", "bc"}), (Shown{"xa", "bc"}));
  EXPECT_EQ(Feed({"xabc"}, {"abc", "bc"}), (Shown{"x", "abc"}));
  EXPECT_EQ(Feed({"abab"}, {"ab", "abab"}), (Shown{"", "ab"}));
}

TEST(StopStrings, WithoutAnyTextPassesUnchanged) { EXPECT_EQ(Feed({"a", "", "b"}, {}), (Shown{"ab", ""})); }

// All ways to cut short texts into pieces, against the definition.
TEST(StopStrings, AreFoundHoweverTheTextIsCut) {
  std::mt19937 random(1);
  auto word = [&](size_t longest) {
    std::string text;
    for (size_t i = 0, n = 1 + random() % longest; i < n; ++i) text += "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    const std::string text = word(10);
    std::vector<std::string> stops;
    for (size_t i = 0, n = 1 + random() % 3; i < n; ++i) stops.push_back(word(5));
    const bool include_stop = round % 2 == 0;
    const Shown expected = Naive(text, stops, include_stop);
    for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
      std::vector<std::string> pieces(1);
      for (size_t i = 0; i < text.size(); ++i) {
        pieces.back() += text[i];
        if (cuts >> i & 1) pieces.emplace_back();
      }
      ASSERT_EQ(Feed(pieces, stops, include_stop), expected) << text;
    }
  }
}

TEST(StopStrings, ShowWholeCharactersOnly) {
  const std::vector<std::string> characters = {"a",      "\u00e9",     "\u00ea",    "\u20ac",
                                               "\u20ad", "\U0001f600", "\U0001f601"};
  std::mt19937 random(1);
  auto any = [&] { return characters[random() % characters.size()]; };
  for (int round = 0; round < 1'000; ++round) {
    StopStrings filter({any() + any(), any() + any() + any()}, round % 2 == 0);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(ValidUtf8(filter.Add(any())));
    ASSERT_TRUE(ValidUtf8(filter.Finish()));
  }
}

TEST(StopOptions, AreCheckedWithNameValueAndLimit) {
  EXPECT_EQ(Refusal({.max_tokens = 1}), "");
  EXPECT_EQ(Refusal({.max_tokens = 0}), "stopping.max_tokens: 0 is below 1");
  EXPECT_EQ(Refusal({.max_tokens = INT32_MIN}), "stopping.max_tokens: -2147483648 is below 1");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_tokens = {0, 100}}),
            "stopping.stop_tokens[1]: 100 is not in [0, 100)");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_tokens = {-1}}),
            "stopping.stop_tokens[0]: -1 is not in [0, 100)");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_strings = std::vector<std::string>(16, "a")}), "");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_strings = std::vector<std::string>(17, "a")}),
            "stopping.stop: 17 strings are above 16");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_strings = {"a", ""}}), "stopping.stop[1]: the string is empty");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_strings = {std::string(257, 'a')}}),
            "stopping.stop[0]: 257 bytes are above 256");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_strings = {std::string(256, 'a')}}), "");
  EXPECT_EQ(Refusal({.max_tokens = 1, .stop_strings = {"\xff"}}),
            "stopping.stop[0]: the string is not valid UTF-8");
}

}  // namespace
}  // namespace heed
