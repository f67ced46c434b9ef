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
  const Chars chars = ToChars(text);
  const absl::Status status = (*pre_tokenizer)->Split(chars, words);
  EXPECT_TRUE(status.ok()) << status;
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

TEST(PreTokenizers, ByteLevelSpellsTheWordsOfGpt2) {
  EXPECT_EQ(Split(R"({"type": "ByteLevel", "add_prefix_space": false})", "I'll  go 12\u20ac!\n"),
            "[I]['ll][\u0120][\u0120go][\u012012][\u00e2\u0124\u00ac!][\u010a]");
  EXPECT_EQ(Split(R"({"type": "ByteLevel"})", "a b"), "[\u0120a][\u0120b]");
  EXPECT_EQ(Split(R"({"type": "ByteLevel"})", " a"), "[\u0120a]");
  EXPECT_EQ(Split(R"({"type": "ByteLevel", "use_regex": false})", "a b"), "[\u0120a\u0120b]");
}

TEST(PreTokenizers, MetaspaceBeginsWordsWithAVisibleSpace) {
  EXPECT_EQ(Split(R"({"type": "Metaspace"})", "a  b"), "[\u2581a][\u2581][\u2581b]");
  EXPECT_EQ(Split(R"({"type": "Metaspace"})", " a"), "[\u2581a]");
  EXPECT_EQ(Split(R"({"type": "Metaspace", "prepend_scheme": "never"})", "a b"), "[a][\u2581b]");
  EXPECT_EQ(Split(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", "a b"),
            "[a][_b]");
  EXPECT_EQ(Split(R"({"type": "Metaspace", "split": false})", "a b"), "[\u2581a\u2581b]");
}

TEST(PreTokenizers, MetaspaceMayPrependToTheTextsFirstWordOnly) {
  EXPECT_EQ(Split(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                       {"type": "Metaspace", "prepend_scheme": "first"}]})",
                  "a b"),
            "[\u2581a][b]");
}

TEST(PreTokenizers, SplitByAPatternHasFiveBehaviorsBothWays) {
  auto split = [](std::string_view behavior, std::string_view invert) {
    return Split(Cat(R"({"type": "Split", "pattern": {"Regex": "-+"}, "invert": )", invert,
                     R"(, "behavior": ")", behavior, "\"}"),
                 "a-b--c-");
  };
  EXPECT_EQ(split("Isolated", "false"), "[a][-][b][--][c][-]");
  EXPECT_EQ(split("Removed", "false"), "[a][b][c]");
  EXPECT_EQ(split("Contiguous", "false"), "[a][-][b][--][c][-]");
  EXPECT_EQ(split("MergedWithPrevious", "false"), "[a-][b--][c-]");
  EXPECT_EQ(split("MergedWithNext", "false"), "[a][-b][--c][-]");
  EXPECT_EQ(split("Removed", "true"), "[-][--][-]");
  EXPECT_EQ(split("MergedWithPrevious", "true"), "[a][-b][--c][-]");
}

TEST(PreTokenizers, MatchesThatTouchStayApartUnlessTheyAreContiguous) {
  auto split = [](std::string_view behavior) {
    return Split(Cat(R"({"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": ")", behavior, "\"}"),
                 "a12b3");
  };
  EXPECT_EQ(split("Isolated"), "[a][1][2][b][3]");
  EXPECT_EQ(split("Contiguous"), "[a][12][b][3]");
  EXPECT_EQ(split("MergedWithPrevious"), "[a1][2][b3]");
  EXPECT_EQ(split("MergedWithNext"), "[a][1][2b][3]");
}

TEST(PreTokenizers, SplitByAStringIsNoPattern) {
  EXPECT_EQ(Split(R"({"type": "Split", "pattern": {"String": ".*"}, "behavior": "Removed"})", "a.*b.c"),
            "[a][b.c]");
  EXPECT_EQ(Split(R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated"})", "abc"),
            "[a][b][c]");
}

TEST(PreTokenizers, CharDelimiterSplitAndFixedLength) {
  EXPECT_EQ(Split(R"({"type": "CharDelimiterSplit", "delimiter": "\u00e9"})", "a\u00e9\u00e9b"), "[a][b]");
  EXPECT_EQ(Split(R"({"type": "FixedLength", "length": 2})", "abcde"), "[ab][cd][e]");
}

TEST(PreTokenizers, UnicodeScriptsCutWhereTheScriptChanges) {
  EXPECT_EQ(Split(R"({"type": "UnicodeScripts"})", "  Apples are \u308a\u3093\u3054 \u6797\u6a8e"),
            "[Apples are ][\u308a\u3093\u3054 \u6797\u6a8e]");
  EXPECT_EQ(Split(R"({"type": "UnicodeScripts"})", "a1 2b!\u30fc"), "[a][1 2][b][!][\u30fc]");
}

TEST(PreTokenizers, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(Refusal(R"({"type": "Bytes"})"), "t: type \"Bytes\" is none that Heed reads");
  EXPECT_EQ(Refusal(R"({"type": "Punctuation", "behavior": "Doubled"})"),
            "t: behavior: \"Doubled\" is none of \"Isolated\", \"Removed\", \"MergedWithPrevious\", "
            "\"MergedWithNext\", \"Contiguous\"");
  EXPECT_EQ(Refusal(R"({"type": "Digits", "individual_digits": 1})"),
            "t: individual_digits: 1 is not true or false");
  EXPECT_EQ(Refusal(R"({"type": "Sequence", "pretokenizers": [{}]})"),
            "t.pretokenizers[0]: type \"\" is none that Heed reads");
  EXPECT_EQ(Refusal(R"({"type": "Split", "pattern": {"Regex": "[b-a]"}})"),
            "t.pattern.Regex: \"[b-a]\": range out of order in character class at character 3");
  EXPECT_EQ(Refusal(R"({"type": "Metaspace", "replacement": "ab"})"),
            "t: replacement: \"ab\" is not one character");
  EXPECT_EQ(Refusal(R"({"type": "CharDelimiterSplit"})"), "t: delimiter: \"\" is not one character");
  EXPECT_EQ(Refusal(R"({"type": "FixedLength", "length": 0})"), "t: length: 0 is below 1");
}

}  // namespace
}  // namespace heed
