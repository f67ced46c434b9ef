#include "engine/text/token_models.h"

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

struct Made {
  Vocabulary vocabulary;
  MadeTokenModel model = absl::UnknownError("");
};

std::unique_ptr<Made> Make(std::string_view json) {
  auto made = std::make_unique<Made>();
  made->model = NewTokenModel(ParseJson(json, "t").value(), "t", made->vocabulary);
  EXPECT_TRUE(made->vocabulary.Finish("t").ok());
  return made;
}

// "he:0-2 llo:2-5": a word's tokens and their code points, or why there are none.
std::string Tokenized(std::string_view json, std::string_view word) {
  const auto made = Make(json);
  if (!made->model.ok()) return std::string(made->model.status().message());
  Tokens tokens;
  const absl::Status status = (*made->model)->Tokenize(ToChars(word), tokens);
  if (!status.ok()) return std::string(status.message());
  return absl::StrJoin(tokens, " ", [&](std::string* out, const Token& token) {
    *out += Cat(made->vocabulary.Token(token.id), ":", token.begin, "-", token.end);
  });
}

constexpr char kWordPiece[] =
    R"({"type": "WordPiece", "vocab": {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "##a": 4, "a": 5, "unaff": 6,
        "##\u00e9": 7}, "max_input_chars_per_word": 10})";

TEST(WordPiece, TakesTheLongestTokensFromTheLeft) {
  EXPECT_EQ(Tokenized(kWordPiece, "unaffable"), "unaff:0-5 ##able:5-9");
  EXPECT_EQ(Tokenized(kWordPiece, "una\u00e9"), "un:0-2 ##a:2-3 ##\u00e9:3-4");
  EXPECT_EQ(Tokenized(kWordPiece, "##a"), "##a:0-3") << "a word may be spelled so";
}

TEST(WordPiece, AWordThatCannotBeCutIsUnknown) {
  EXPECT_EQ(Tokenized(kWordPiece, "unb"), "[UNK]:0-3");
  EXPECT_EQ(Tokenized(kWordPiece, "un##"), "[UNK]:0-4") << "the prefix alone is no token";
  EXPECT_EQ(Tokenized(kWordPiece, "aaaaaaaaaa"),
            "a:0-1 ##a:1-2 ##a:2-3 ##a:3-4 ##a:4-5 ##a:5-6 ##a:6-7 ##a:7-8 "
            "##a:8-9 ##a:9-10");
  EXPECT_EQ(Tokenized(kWordPiece, "aaaaaaaaaaa"), "[UNK]:0-11");
}

TEST(WordPiece, WithoutAnUnknownTokenSaysForWhatItHasNone) {
  EXPECT_EQ(Tokenized(R"({"type": "WordPiece", "vocab": {"a": 0}})", "b"),
            "the tokenizer has no token for \"b\", and no unknown token \"[UNK]\"");
}

TEST(WordLevel, WithoutAnUnknownTokenSaysForWhatItHasNone) {
  EXPECT_EQ(Tokenized(R"({"type": "WordLevel", "vocab": {"ab": 0}})", "ab"), "ab:0-2");
  EXPECT_EQ(Tokenized(R"({"type": "WordLevel", "vocab": {"ab": 0}})", "b"),
            "the tokenizer has no token for \"b\", and no unknown token \"<unk>\"");
}

// Merges "a b", "b c", "ab c", "c d", with these further fields.
std::string Bpe(std::string_view fields) {
  return Cat(R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "bc": 5, "abc": 6, "cd": 7,
                 "<u>": 8, "abcd": 9}, "merges": ["a b", "b c", ["ab", "c"], "c d"])",
             fields, "}");
}

TEST(Bpe, MergesWhatWasLearnedFirstFromTheLeft) {
  EXPECT_EQ(Tokenized(Bpe(""), "abc"), "abc:0-3");
  EXPECT_EQ(Tokenized(Bpe(""), "bcd"), "bc:0-2 d:2-3");
  EXPECT_EQ(Tokenized(Bpe(""), "abcabd"), "abc:0-3 ab:3-5 d:5-6");
  EXPECT_EQ(Tokenized(Bpe(""), "abcd"), "abc:0-3 d:3-4");
}

TEST(Bpe, MayTakeAWordThatIsATokenAsItIs) {
  EXPECT_EQ(Tokenized(Bpe(R"(, "ignore_merges": true)"), "abcd"), "abcd:0-4");
  EXPECT_EQ(Tokenized(Bpe(R"(, "ignore_merges": true)"), "abcda"), "abc:0-3 d:3-4 a:4-5");
}

TEST(Bpe, UnknownCharactersAreOneTokenOrMany) {
  EXPECT_EQ(Tokenized(Bpe(R"(, "unk_token": "<u>")"), "axya"), "a:0-1 <u>:1-2 <u>:2-3 a:3-4");
  EXPECT_EQ(Tokenized(Bpe(R"(, "unk_token": "<u>", "fuse_unk": true)"), "a\u00e9ya\u20ac"),
            "a:0-1 <u>:1-3 a:3-4 <u>:4-5");
  EXPECT_EQ(Tokenized(Bpe(R"(, "unk_token": "<v>")"), "ax"),
            "the tokenizer has no token for \"x\", and no unknown token \"<v>\"");
}

TEST(Bpe, WithoutAnUnknownTokenLeavesUnknownCharactersOut) {
  EXPECT_EQ(Tokenized(Bpe(""), "dxd"), "d:0-1 d:1-2") << "as the package counts";
}

TEST(Bpe, FallsBackToBytes) {
  const char json[] =
      R"({"type": "BPE", "byte_fallback": true, "unk_token": "<u>", "merges": [["<0xC3>", "<0xA9>"]],
      "vocab": {"a": 0, "<u>": 1, "<0xC3>": 2, "<0xA9>": 3, "<0xA8>": 4, "<0xC3><0xA9>": 5}})";
  EXPECT_EQ(Tokenized(json, "a\u00e8a"), "a:0-1 <0xC3>:1-2 <0xA8>:1-2 a:2-3");
  EXPECT_EQ(Tokenized(json, "\u00e9"), "<0xC3><0xA9>:0-1");
  EXPECT_EQ(Tokenized(json, "\u20ac"), "<u>:0-1") << "not all of its bytes are tokens";
}

TEST(Bpe, CharactersHaveAPrefixWithinAWordAndASuffixAtItsEnd) {
  const char json[] = R"({"type": "BPE", "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>",
      "merges": ["a ##b", "a ##b</w>"],
      "vocab": {"a": 0, "##a": 1, "##b": 2, "##b</w>": 3, "a</w>": 4, "ab": 5, "ab</w>": 6, "##a</w>": 7}})";
  EXPECT_EQ(Tokenized(json, "ab"), "ab</w>:0-2");
  EXPECT_EQ(Tokenized(json, "aba"), "ab:0-2 ##a</w>:2-3");
  EXPECT_EQ(Tokenized(json, "a"), "a</w>:0-1");
}

TEST(Bpe, IsTheTypeOfOlderFilesWithMerges) {
  EXPECT_EQ(Tokenized(R"({"vocab": {"a": 0, "aa": 1}, "merges": ["a a"], "unk_token": "",
                          "continuing_subword_prefix": "", "end_of_word_suffix": ""})",
                      "aaa"),
            "aa:0-2 a:2-3");
}

TEST(Bpe, RefusesWhatItCannotMerge) {
  auto refusal = [](std::string_view merges) {
    return Tokenized(Cat(R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": )", merges, "}"), "a");
  };
  EXPECT_EQ(refusal("7"), "t: merges is not a list");
  EXPECT_EQ(refusal(R"(["#version: 0.2", "a b c"])"), "t: merges[1]: \"a b c\" is not a pair of tokens");
  EXPECT_EQ(refusal(R"(["a"])"), "t: merges[0]: \"a\" is not a pair of tokens");
  EXPECT_EQ(refusal(R"([["a", 1]])"), "t: merges[0]: [\"a\",1] is not a pair of tokens");
  EXPECT_EQ(refusal(R"(["a c"])"), "t: merges[0]: \"c\" is not in the vocabulary");
  EXPECT_EQ(refusal(R"(["a b"])"), "t: merges[0]: \"ab\" is not in the vocabulary");
  EXPECT_EQ(Tokenized(Bpe(R"(, "continuing_subword_prefix": "###")"), "a"),
            "t: merges[0]: \"b\" is shorter than continuing_subword_prefix");
  EXPECT_EQ(Tokenized(Bpe(R"(, "dropout": 0.5)"), "a"),
            "t: dropout: 0.5 is above 0, and a text must always give the same tokens");
  EXPECT_EQ(Tokenized(Bpe(R"(, "dropout": 0)"), "a"), "a:0-1");
}

// What the heap does, done slowly: the first of the merges that are learned first, again and again.
TEST(Bpe, MergesLikeTheDefinition) {
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"b", "a"}, {"a", "a"}, {"aa", "a"}, {"ba", "aa"}, {"a", "b"}, {"b", "b"}, {"aa", "aa"}, {"bb", "ba"}};
  Json json = {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"merges", Json::array()}};
  for (const auto& [left, right] : merges) {
    json["vocab"][left + right] = json["vocab"].size();
    json["merges"].push_back({left, right});
  }
  for (uint32_t bits = 0; bits < 1 << 12; ++bits) {
    std::vector<std::string> parts;
    std::string word;
    for (int i = 0; i < 12; ++i) parts.push_back(bits >> i & 1 ? "b" : "a");
    for (const std::string& part : parts) word += part;
    for (size_t merge = 0; merge < merges.size();) {
      size_t at = 0;
      while (at + 1 < parts.size() &&
             (parts[at] != merges[merge].first || parts[at + 1] != merges[merge].second))
        ++at;
      if (at + 1 >= parts.size()) {
        ++merge;
        continue;
      }
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + at + 1);
      merge = 0;
    }
    static const auto made = Make(CanonicalText(json));
    ASSERT_TRUE(made->model.ok()) << made->model.status();
    Tokens tokens;
    ASSERT_TRUE((*made->model)->Tokenize(ToChars(word), tokens).ok());
    std::vector<std::string> found;
    for (const Token& token : tokens) found.push_back(made->vocabulary.Token(token.id));
    ASSERT_EQ(found, parts) << word;
  }
}

TEST(Bpe, ReadsAMegabyteOfOneWord) {
  Json json = {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}};
  std::string token = "a";
  for (int i = 0; i < 11; ++i) {
    json["merges"].push_back({token, token});
    token += token;
    json["vocab"][token] = 3 + i;
  }
  const auto made = Make(CanonicalText(json));
  ASSERT_TRUE(made->model.ok()) << made->model.status();
  Tokens tokens;
  ASSERT_TRUE((*made->model)->Tokenize(ToChars(std::string(1 << 20, 'a')), tokens).ok());
  EXPECT_EQ(tokens.size(), 512u);
  std::string both;
  while (both.size() < 1 << 20) both += "ab";
  ASSERT_TRUE((*made->model)->Tokenize(ToChars(both), tokens).ok());
  EXPECT_EQ(tokens.size(), 512u + (1 << 19));
}

constexpr char kUnigram[] =
    R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.0], ["b", -1.0], ["ab", -1.5], ["abc", -9],
        ["c", -1]]})";

TEST(Unigram, FindsTheBestSum) {
  EXPECT_EQ(Tokenized(kUnigram, "abc"), "ab:0-2 c:2-3");
  EXPECT_EQ(Tokenized(kUnigram, "ba"), "b:0-1 a:1-2");
}

TEST(Unigram, UnknownCharactersThatMeetAreOneToken) {
  EXPECT_EQ(Tokenized(kUnigram, "axyb\u00e9"), "a:0-1 <unk>:1-3 b:3-4 <unk>:4-5");
  EXPECT_EQ(Tokenized(kUnigram, "x<unk>a"), "<unk>:0-6 a:6-7")
      << "the unknown token, spelled out, is unknown too";
}

TEST(Unigram, FallsBackToBytes) {
  const char json[] = R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true,
                          "vocab": [["<unk>", 0], ["a", -1], ["<0xC3>", -2], ["<0xA9>", -2]]})";
  EXPECT_EQ(Tokenized(json, "a\u00e9\u00e9"), "a:0-1 <0xC3>:1-3 <0xA9>:1-3 <0xC3>:1-3 <0xA9>:1-3");
  EXPECT_EQ(Tokenized(json, "\u00e9\u00e8"), "<unk>:0-2") << "not all bytes are tokens";
}

TEST(Unigram, TextNeverBecomesUnusedTokens) {
  const char json[] = R"({"type": "Unigram", "unk_id": 0, "unused_ids": [0, 2],
                          "vocab": [["<unk>", 0], ["a", -1], ["aa", 0]]})";
  EXPECT_EQ(Tokenized(json, "aa"), "a:0-1 a:1-2");
  EXPECT_EQ(Tokenized(json, "<unk>aa"), "<unk>:0-5 a:5-6 a:6-7");
  EXPECT_EQ(Tokenized(R"({"type": "Unigram", "unused_ids": [1], "vocab": [["a", -1]]})", "a"),
            "t: unused_ids: 1 is no whole number from 0 to 0");
}

TEST(Unigram, OfAPieceThatIsGivenTwiceTheLastCounts) {
  EXPECT_EQ(Tokenized(R"({"type": "Unigram", "vocab": [["a", -1], ["a", -50], ["aa", -60]]})", "aa"),
            "aa:0-2");
}

TEST(Unigram, RefusesWhatIsNoListOfScores) {
  auto refusal = [](std::string_view fields) {
    return Tokenized(Cat(R"({"type": "Unigram", )", fields, "}"), "x");
  };
  EXPECT_EQ(refusal(R"("vocab": {})"), "t: vocab is not a list");
  EXPECT_EQ(refusal(R"("vocab": [["a"]])"), "t: vocab[0]: [\"a\"] is not a token and its score");
  EXPECT_EQ(refusal(R"("vocab": [["a", "b"]])"), "t: vocab[0]: [\"a\",\"b\"] is not a token and its score");
  EXPECT_EQ(refusal(R"("unk_id": 1, "vocab": [["a", 0]])"), "t: unk_id: 1 is above 0");
  EXPECT_EQ(refusal(R"("vocab": [["a", 0]])"),
            "the tokenizer has no token for \"x\", and no unknown token \"\"");
}

TEST(Unigram, ReadsAMegabyteOfOneWord) {
  for (const char* unit : {"a", "ab", "x", "\u00e9c"}) {
    std::string word;
    while (word.size() < 1 << 20) word += unit;
    const auto made = Make(kUnigram);
    Tokens tokens;
    ASSERT_TRUE((*made->model)->Tokenize(ToChars(word), tokens).ok());
    EXPECT_GT(tokens.size(), 0u) << unit;
  }
}

}  // namespace
}  // namespace heed
