#include "engine/text/pre_tokenizers.h"

#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

// "[one][two]": the words of a text.
std::string Split(std::string_view json, std::string_view text) {
  auto pre_tokenizer = NewPreTokenizer(ParseJson(json, "t").value(), "t");
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  Words words;
  (*pre_tokenizer)->Split(ToChars(text), words);
  std::string shown;
  for (size_t i = 0; i < words.size(); ++i) shown += "[" + ToUtf8(words[i]) + "]";
  return shown;
}

std::string Refusal(std::string_view json) {
  return std::string(NewPreTokenizer(ParseJson(json, "t").value(), "t").status().message());
}

TEST(PreTokenizers, WhitespaceSplitsWordsFromOtherCharacters) {
  EXPECT_EQ(Split(R"({"type": "Whitespace"})", " Hello,  world!? a_1\u00e9 "),
            "[Hello][,][world][!?][a_1\u00e9]");
  EXPECT_EQ(Split(R"({"type": "Whitespace"})", " \n"), "");
}

TEST(PreTokenizers, WhitespaceSplitKeepsPunctuation) {
  EXPECT_EQ(Split(R"({"type": "WhitespaceSplit"})", "a, b\u3000c"), "[a,][b][c]");
}

TEST(PreTokenizers, BertSplitsEveryPunctuationMark) {
  EXPECT_EQ(Split(R"({"type": "BertPreTokenizer"})", "don't  stop!!"), "[don]['][t][stop][!][!]");
}

TEST(PreTokenizers, PunctuationHasFiveBehaviors) {
  auto split = [](std::string_view behavior) {
    return Split(Cat(R"({"type": "Punctuation", "behavior": ")", behavior, "\"}"), "a-b!!c?");
  };
  EXPECT_EQ(split("Isolated"), "[a][-][b][!][!][c][?]");
  EXPECT_EQ(split("Removed"), "[a][b][c]");
  EXPECT_EQ(split("Contiguous"), "[a][-][b][!!][c][?]");
  EXPECT_EQ(split("MergedWithPrevious"), "[a-][b!][!][c?]");
  EXPECT_EQ(split("MergedWithNext"), "[a][-b][!][!c][?]");
  EXPECT_EQ(Split(R"({"type": "Punctuation"})", "a!!"), "[a][!][!]");
}

TEST(PreTokenizers, DigitsStandTogetherOrAlone) {
  EXPECT_EQ(Split(R"({"type": "Digits"})", "ab12c\u00b2"), "[ab][12][c][\u00b2]");
  EXPECT_EQ(Split(R"({"type": "Digits", "individual_digits": true})", "ab12c"), "[ab][1][2][c]");
}

TEST(PreTokenizers, SequenceSplitsWhatIsSplit) {
  EXPECT_EQ(
      Split(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Digits"}]})",
            "a1 b2"),
      "[a][1][b][2]");
}

TEST(PreTokenizers, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(Refusal(R"({"type": "ByteLevel"})"), "t: type \"ByteLevel\" is none that Heed reads");
  EXPECT_EQ(Refusal(R"({"type": "Punctuation", "behavior": "Doubled"})"),
            "t: behavior: \"Doubled\" is none of \"Isolated\", \"Removed\", \"MergedWithPrevious\", "
            "\"MergedWithNext\", \"Contiguous\"");
  EXPECT_EQ(Refusal(R"({"type": "Digits", "individual_digits": 1})"),
            "t: individual_digits: 1 is not true or false");
  EXPECT_EQ(Refusal(R"({"type": "Sequence", "pretokenizers": [{}]})"),
            "t.pretokenizers[0]: type \"\" is none that Heed reads");
}

}  // namespace
}  // namespace heed
