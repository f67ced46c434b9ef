#include "engine/text/tokenizer.h"

#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/pipeline_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A tokenizer of words, with changes: top-level fields that replace the usual ones, or null to remove them.
Json WordLevel(std::string_view changes = "{}") {
  Json json = ParseJson(R"({"version": "1.0", "truncation": null, "padding": null,
      "added_tokens": [{"id": 0, "content": "[UNK]", "special": true, "normalized": false},
                       {"id": 1, "content": "[CLS]", "special": true, "normalized": false},
                       {"id": 2, "content": "[SEP]", "special": true, "normalized": false}],
      "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
      "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4, "c": 5}, "unk_token": "[UNK]"}})",
                        "t")
                  .value();
  json.merge_patch(ParseJson(changes, "t").value());
  return json;
}

constexpr char kBertTemplate[] = R"({"post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                       "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}}})";

std::unique_ptr<const Tokenizer> Make(const Json& json) {
  auto tokenizer = NewPipelineTokenizer(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// The words' tokenizer with one more added token, of these fields.
std::unique_ptr<const Tokenizer> WithAdded(std::string_view fields) {
  Json json = WordLevel();
  Json token = ParseJson(fields, "t").value();
  token["id"] = 6;
  json["added_tokens"].push_back(token);
  return Make(json);
}

std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, std::nullopt, {}).value().ids;
}

std::vector<std::pair<int32_t, int32_t>> Offsets(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, std::nullopt, {}).value().offsets;
}

std::string Refusal(const Json& json) {
  auto tokenizer = NewPipelineTokenizer(json.dump());
  return tokenizer.ok() ? "accepted" : std::string(tokenizer.status().message());
}

std::string RefusalWithAdded(std::string_view token) {
  Json json = WordLevel();
  json["added_tokens"].push_back(ParseJson(token, "t").value());
  return Refusal(json);
}

TEST(Tokenizer, GivesIdsAndOffsetsInCodePoints) {
  auto tokenizer = Make(WordLevel());
  const Encoding encoding = tokenizer->Encode("A \u00e9\u00e9 b", std::nullopt, {}).value();
  EXPECT_THAT(encoding.ids, ElementsAre(3, 0, 4));
  EXPECT_THAT(encoding.type_ids, ElementsAre(0, 0, 0));
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 1), Pair(2, 4), Pair(5, 6)));
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->TokenId("[SEP]"), 2);
  EXPECT_EQ(tokenizer->TokenId("z"), -1);
}

TEST(Tokenizer, DecodesWithAndWithoutSpecialTokens) {
  auto tokenizer = Make(WordLevel());
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 3, 4, 2}, false), "[CLS] a b [SEP]");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 3, 4, 2}, true), "a b");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{-1, 3, 6, INT32_MAX}, true), "a");
}

TEST(Tokenizer, WordPieceDecoderJoinsPieces) {
  Json json = WordLevel(R"({"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
                            "model": {"vocab": {"##d": 6, ".": 7}}})");
  EXPECT_EQ(Make(json)->Decode(std::vector<int32_t>{3, 6, 4, 7}, true), "ad b.");
  EXPECT_EQ(Make(json)->Decode(std::vector<int32_t>{6, 6}, true), "##dd") << "the first goes on from nothing";
}

TEST(Tokenizer, WordPieceDecoderCleansEnglishUp) {
  Json json = WordLevel(R"({"decoder": {"type": "WordPiece"},
                            "model": {"vocab": {"do not": 6, "n't": 7, "'s": 8, "?": 9}}})");
  EXPECT_EQ(Make(json)->Decode(std::vector<int32_t>{3, 6, 4, 7, 5, 8, 9}, true), "a don't bn't c's?");
}

TEST(Tokenizer, MayReadSpecialTokensAsText) {
  EXPECT_THAT(Ids(*Make(WordLevel()), "[CLS] a"), ElementsAre(1, 3));
  const auto tokenizer = Make(WordLevel(R"({"encode_special_tokens": true})"));
  EXPECT_THAT(Ids(*tokenizer, "[CLS] a"), ElementsAre(0, 0, 0, 3));
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 3}, true), "a");
}

TEST(Tokenizer, TemplateAddsSpecialTokensAndTypes) {
  auto tokenizer = Make(WordLevel(kBertTemplate));
  EXPECT_THAT(Ids(*tokenizer, "a b"), ElementsAre(1, 3, 4, 2));
  EXPECT_THAT(Offsets(*tokenizer, "a b"), ElementsAre(Pair(0, 0), Pair(0, 1), Pair(2, 3), Pair(0, 0)));
  const Encoding pair = tokenizer->Encode("a", "b c", {}).value();
  EXPECT_THAT(pair.ids, ElementsAre(1, 3, 2, 4, 5, 2));
  EXPECT_THAT(pair.type_ids, ElementsAre(0, 0, 0, 1, 1, 1));
  const Encoding bare = tokenizer->Encode("a", "b c", {.add_special_tokens = false}).value();
  EXPECT_THAT(bare.ids, ElementsAre(3, 4, 5));
  EXPECT_THAT(bare.type_ids, ElementsAre(0, 1, 1));
}

TEST(Tokenizer, TruncatesTheLongerTextFirst) {
  auto tokenizer = Make(WordLevel(kBertTemplate));
  auto ids = [&](std::string_view first, std::optional<std::string_view> second, int64_t max_length) {
    return absl::StrJoin(tokenizer->Encode(first, second, {.max_length = max_length}).value().ids, " ");
  };
  EXPECT_EQ(ids("a b c", std::nullopt, 4), "1 3 4 2");
  EXPECT_EQ(ids("a b c", std::nullopt, 5), "1 3 4 5 2");
  EXPECT_EQ(ids("a", "b c a b", 6), "1 3 2 4 5 2");
  EXPECT_EQ(ids("a b c a", "b", 6), "1 3 4 2 4 2");
  EXPECT_EQ(ids("a b c a", "b c a b", 8), "1 3 4 2 4 5 3 2");
  EXPECT_EQ(ids("a", "b", 3), "1 2 2");
  EXPECT_EQ(tokenizer->Encode("a", std::nullopt, {.max_length = 1}).status().message(),
            "max_length 1 is below the 2 special tokens of every input");
}

TEST(Tokenizer, FindsAddedTokensInTheTextAsItCame) {
  auto tokenizer = Make(WordLevel());
  EXPECT_THAT(Ids(*tokenizer, "a[SEP]b [sep]"), ElementsAre(3, 2, 4, 0, 0, 0));
  EXPECT_THAT(Offsets(*tokenizer, "\u00e9[SEP]b"), ElementsAre(Pair(0, 1), Pair(1, 6), Pair(6, 7)));
}

TEST(Tokenizer, FindsTheLongestAddedToken) {
  Json json = WordLevel();
  json["added_tokens"].push_back(Json{{"id", 6}, {"content", "xy"}});
  json["added_tokens"].push_back(Json{{"id", 7}, {"content", "xyz"}});
  EXPECT_THAT(Ids(*Make(json), "xyzxyxyz"), ElementsAre(7, 6, 7));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInNormalizedText) {
  EXPECT_THAT(Ids(*WithAdded(R"({"content": "X\u00c9", "normalized": true})"), "x\u00e9 X\u00c9"),
              ElementsAre(6, 6));
  EXPECT_THAT(Ids(*WithAdded(R"({"content": "X\u00c9", "normalized": false})"), "x\u00e9 X\u00c9"),
              ElementsAre(0, 6));
}

TEST(Tokenizer, OfAddedTokensThatNormalizationMadeEqualTheFirstIsFound) {
  Json json = WordLevel();
  json["added_tokens"].push_back(Json{{"id", 6}, {"content", "Xy"}});
  json["added_tokens"].push_back(Json{{"id", 7}, {"content", "xY"}});
  EXPECT_THAT(Ids(*Make(json), "xy XY"), ElementsAre(6, 6));
}

TEST(Tokenizer, SpecialTokensAreFoundAsTheyCameUnlessTheySayOtherwise) {
  const auto tokenizer = WithAdded(R"({"content": "XY", "special": true})");
  EXPECT_THAT(Ids(*tokenizer, "XY xy"), ElementsAre(6, 0));
}

TEST(Tokenizer, NoTokenIsFoundWithinOneThatDoesNotStandAlone) {
  Json json = WordLevel();
  json["added_tokens"].push_back(Json{{"id", 6}, {"content", "xyz"}, {"single_word", true}});
  json["added_tokens"].push_back(Json{{"id", 7}, {"content", "yz"}});
  EXPECT_THAT(Ids(*Make(json), "axyz ayz xyz"), ElementsAre(0, 3, 7, 6));
}

TEST(Tokenizer, SingleWordsTouchNoWord) {
  auto tokenizer = WithAdded(R"({"content": "xx", "single_word": true})");
  EXPECT_THAT(Ids(*tokenizer, "xx a xx. axx xxb"), ElementsAre(6, 3, 6, 0, 0, 0));
}

TEST(Tokenizer, AddedTokensMayTakeTheSpacesAroundThem) {
  EXPECT_THAT(Offsets(*WithAdded(R"({"content": "<x>", "lstrip": true})"), "a  <x> b"),
              ElementsAre(Pair(0, 1), Pair(1, 6), Pair(7, 8)));
  EXPECT_THAT(Offsets(*WithAdded(R"({"content": "<x>", "rstrip": true})"), "a  <x>  b"),
              ElementsAre(Pair(0, 1), Pair(3, 8), Pair(8, 9)));
  auto both = WithAdded(R"({"content": "<x>", "lstrip": true, "rstrip": true})");
  EXPECT_THAT(Offsets(*both, " <x>  <x> "), ElementsAre(Pair(0, 6), Pair(6, 10)));
}

TEST(Tokenizer, RefusesInvalidUtf8) {
  auto tokenizer = Make(WordLevel());
  EXPECT_EQ(tokenizer->Encode("a\xff", std::nullopt, {}).status().message(), "the text is not valid UTF-8");
  EXPECT_TRUE(absl::IsInvalidArgument(tokenizer->Encode("a", "\xed\xa0\x80", {}).status()));
}

TEST(Tokenizer, RefusesVocabulariesThatAreNoNumbering) {
  auto refusal = [](std::string_view vocab) {
    return Refusal(WordLevel(Cat(R"({"model": {"vocab": )", vocab, "}}")));
  };
  const std::string where = "tokenizer.json: model: vocab: ";
  EXPECT_EQ(refusal(R"({"d": 5})"), "tokenizer.json: vocabulary: \"c\" and \"d\" share id 5");
  EXPECT_EQ(refusal(R"({"d": -1})"), where + "\"d\": -1 is not an id from 0 to 4194303");
  EXPECT_EQ(refusal(R"({"d": 4194304})"), where + "\"d\": 4194304 is not an id from 0 to 4194303");
  EXPECT_EQ(refusal(R"({"d": 6.0})"), where + "\"d\": 6.0 is not an id from 0 to 4194303");
  EXPECT_EQ(refusal(Cat("{\"", std::string(4097, 'd'), "\": 6}")),
            where + '"' + std::string(56, 'd') + "...: 4097 bytes are above 4096");
  EXPECT_EQ(refusal(R"([1])"), "tokenizer.json: model: vocab is not an object");
  EXPECT_THAT(
      std::string(NewPipelineTokenizer(R"({"model": {"vocab": {"a": 0, "a": 1}}})").status().message()),
      HasSubstr("key \"a\" appears twice"));
}

TEST(Tokenizer, IdsMayBeNobodys) {
  const auto tokenizer = Make(WordLevel(R"({"model": {"vocab": {"d": 9}}})"));
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_THAT(Ids(*tokenizer, "a d"), ElementsAre(3, 9));
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{3, 7, 9}, false), "a d");
  EXPECT_EQ(tokenizer->TokenBytes(7), "");
}

TEST(Tokenizer, RefusesAddedTokensThatAreNone) {
  EXPECT_EQ(RefusalWithAdded(R"({"id": 6, "content": ""})"),
            "tokenizer.json: added_tokens[3]: content is missing or empty");
  EXPECT_EQ(RefusalWithAdded(Cat(R"({"id": 6, "content": ")", std::string(1'000'000, 'x'), "\"}")),
            "tokenizer.json: added_tokens[3]: content: 1000000 bytes are above 1024");
  EXPECT_EQ(RefusalWithAdded(Cat(R"({"id": 6, "content": ")", std::string(1024, 'x'), "\"}")), "accepted");
  EXPECT_EQ(RefusalWithAdded(R"({"id": 6, "content": "[SEP]"})"),
            "tokenizer.json: added_tokens: \"[SEP]\" appears twice");
  EXPECT_EQ(RefusalWithAdded(R"({"id": 6, "content": "a"})"),
            "tokenizer.json: vocabulary: \"a\" has two ids, 3 and 6");
  EXPECT_EQ(RefusalWithAdded(R"({"id": 3, "content": "x"})"),
            "tokenizer.json: vocabulary: \"a\" and \"x\" share id 3");
  EXPECT_EQ(RefusalWithAdded(R"({"id": 4194304, "content": "x"})"),
            "tokenizer.json: vocabulary: \"x\": 4194304 is not an id from 0 to 4194303");
  EXPECT_EQ(RefusalWithAdded(R"({"content": "x"})"), "tokenizer.json: added_tokens[3].id is missing");
  EXPECT_EQ(RefusalWithAdded(R"({"id": 6, "content": "x", "color": 1})"),
            "tokenizer.json: added_tokens[3]: unknown key \"color\"");
  Json json = WordLevel(R"({"normalizer": {"type": "StripAccents"}})");
  json["added_tokens"].push_back(Json{{"id", 6}, {"content", "\u0301"}});
  EXPECT_EQ(Refusal(json), "added token \"\\u0301\" is empty after normalization");
}

TEST(Tokenizer, RefusesComponentsItDoesNotKnowByName) {
  EXPECT_EQ(Refusal(WordLevel(R"({"model": {"type": "Morphemes"}})")),
            "tokenizer.json: model: type \"Morphemes\" is none that Heed reads");
  EXPECT_EQ(Refusal(WordLevel(R"({"normalizer": {"type": "Uppercase"}})")),
            "tokenizer.json: normalizer: type \"Uppercase\" is none that Heed reads");
  EXPECT_EQ(Refusal(WordLevel(R"({"pre_tokenizer": {"type": "Random"}})")),
            "tokenizer.json: pre_tokenizer: type \"Random\" is none that Heed reads");
  EXPECT_EQ(Refusal(WordLevel(R"({"post_processor": {"type": "Processing"}})")),
            "tokenizer.json: post_processor: type \"Processing\" is none that Heed reads");
  EXPECT_EQ(Refusal(WordLevel(R"({"decoder": {"type": "Encoder"}})")),
            "tokenizer.json: decoder: type \"Encoder\" is none that Heed reads");
  EXPECT_EQ(Refusal(WordLevel(R"({"extra": 1})")), "tokenizer.json: unknown key \"extra\"");
  EXPECT_EQ(Refusal(WordLevel(R"({"model": {"dropout": 0.1}})")),
            "tokenizer.json: model: unknown key \"dropout\"");
  EXPECT_EQ(Refusal(WordLevel(R"({"model": null})")), "tokenizer.json: model: null is not an object");
}

TEST(Tokenizer, MessagesNameTheFileThatATokenizerIsMadeOf) {
  EXPECT_EQ(NewPipelineTokenizer(Json{{"extra", 1}}, "vocab.txt").status().message(),
            "vocab.txt: unknown key \"extra\"");
}

TEST(Tokenizer, ModelsDoNotSeeAddedTokens) {
  Json json = WordLevel();
  json["added_tokens"].push_back(Json{{"id", 6}, {"content", "xy"}, {"single_word", true}});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = ParseJson(R"({"type": "Digits"})", "t").value();
  EXPECT_THAT(Ids(*Make(json), "1xy1"), ElementsAre(0, 0, 0))
      << "xy is a word between digits, and not the token";
}

TEST(Tokenizer, RefusesTemplatesThatNameWhatIsNotThere) {
  auto refusal = [](auto change) {
    Json json = WordLevel(kBertTemplate);
    change(json["post_processor"]);
    return Refusal(json);
  };
  const std::string where = "tokenizer.json: post_processor.";
  EXPECT_EQ(refusal([](Json& p) { p["special_tokens"].erase("[SEP]"); }),
            where + "single[2].SpecialToken: special token \"[SEP]\" is not in special_tokens");
  EXPECT_EQ(refusal([](Json& p) { p["special_tokens"]["[SEP]"]["ids"] = {9}; }),
            where + "special_tokens[\"[SEP]\"].ids: 9 is not an id below 6");
  EXPECT_EQ(refusal([](Json& p) { p["special_tokens"]["[SEP]"]["ids"] = Json::array(); }),
            where + "special_tokens[\"[SEP]\"]: ids is not a list of ids");
  EXPECT_EQ(refusal([](Json& p) { p["single"] = "[CLS] $A"; }), where + "single is not a list");
  EXPECT_EQ(refusal([](Json& p) { p["pair"].erase(3); }), where + "pair does not hold A and B once each");
  EXPECT_EQ(refusal([](Json& p) { p["single"] = p["pair"]; }),
            where + "single does not hold A once and no B");
  EXPECT_EQ(refusal([](Json& p) { p["single"][1]["Sequence"]["type_id"] = 256; }),
            where + "single[1].Sequence.type_id: 256 is above 255");
  EXPECT_EQ(refusal([](Json& p) { p["single"][1]["Sequence"]["id"] = "C"; }),
            where + "single[1].Sequence.id: \"C\" is none of \"A\", \"B\"");
}

TEST(Tokenizer, RefusesTruncationThatNeverEnds) {
  EXPECT_EQ(
      Refusal(WordLevel(
          R"({"truncation": {"max_length": 8, "stride": 8, "strategy": "LongestFirst", "direction": "Right"}})")),
      "tokenizer.json: truncation.stride: 8 is above 7");
  EXPECT_EQ(
      Refusal(WordLevel(
          R"({"truncation": {"max_length": 8, "stride": 7, "strategy": "LongestFirst", "direction": "Right"}})")),
      "accepted");
}

TEST(Tokenizer, RefusesFilesThatAreTooLargeOrTooDeep) {
  TempFolder folder;
  folder.Write("tokenizer.json", "");
  std::filesystem::resize_file(folder / "tokenizer.json", (64 << 20) + 1);
  EXPECT_EQ(LoadTokenizer(folder.path()).status().message(),
            "tokenizer.json: 67108865 bytes are above 67108864");
  folder.Write("tokenizer.json", std::string(33, '['));
  EXPECT_EQ(LoadTokenizer(folder.path()).status().message(), "tokenizer.json: nested deeper than 32 levels");
}

TEST(Tokenizer, OfAFolderIsItsFileOrBytesOrNone) {
  TempFolder folder;
  EXPECT_EQ(LoadTokenizer(folder.path()).value(), nullptr);
  folder.Write("config.json", R"({"width": 8})");
  EXPECT_EQ(LoadTokenizer(folder.path()).value(), nullptr);
  folder.Write("config.json", R"({"tokenizer": "bytes"})");
  EXPECT_EQ(LoadTokenizer(folder.path()).value()->vocab_size(), 256);
  folder.Write("config.json", "{");
  EXPECT_THAT(std::string(LoadTokenizer(folder.path()).status().message()),
              HasSubstr("config.json: not JSON"));
  folder.Write("tokenizer.json", WordLevel().dump());
  EXPECT_EQ(LoadTokenizer(folder.path()).value()->vocab_size(), 6);
}

class Bytes : public ::testing::Test {
 protected:
  Bytes() {
    TempFolder folder;
    folder.Write("config.json", R"({"tokenizer": "bytes"})");
    tokenizer_ = LoadTokenizer(folder.path()).value();
  }
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Bytes, AreTheIds) {
  const Encoding encoding = tokenizer_->Encode("a\u20acz", std::nullopt, {}).value();
  EXPECT_THAT(encoding.ids, ElementsAre(0x61, 0xe2, 0x82, 0xac, 0x7a));
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(1, 2), Pair(1, 2), Pair(2, 3)));
  EXPECT_THAT(encoding.type_ids, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(tokenizer_->Decode(encoding.ids, true), "a\u20acz");
  EXPECT_EQ(tokenizer_->TokenId("a"), 'a');
  EXPECT_EQ(tokenizer_->TokenId("ab"), -1);
}

TEST_F(Bytes, AreCutAtMaxLength) {
  EXPECT_THAT(tokenizer_->Encode("a\u20ac", std::nullopt, {.max_length = 2})->ids, ElementsAre(0x61, 0xe2));
  EXPECT_EQ(tokenizer_->Encode("", std::nullopt, {})->ids.size(), 0u);
}

TEST_F(Bytes, HaveNoPairsAndNoInvalidText) {
  EXPECT_EQ(tokenizer_->Encode("a", "b", {}).status().message(), "tokenizer \"bytes\" has no form for pairs");
  EXPECT_EQ(tokenizer_->Encode("\xff", std::nullopt, {}).status().message(), "the text is not valid UTF-8");
}

TEST_F(Bytes, DecodeToValidTextWhateverTheyAre) {
  EXPECT_EQ(tokenizer_->Decode(std::vector<int32_t>{0x61, 0xe2, 0x82, 0x7a, 0xff, 300, -1}, true),
            "a\ufffdz\ufffd");
}

// What were not linear would take minutes here; `heed_bench text` shows the times.
TEST(Tokenizer, ReadsAMegabyteOfAnything) {
  auto golden = LoadTokenizer(HEED_SOURCE_DIR "/tests/golden/tokenizers/word-level").value();
  for (const char* unit : {"a", " ", "\u0301", "\u0316\u0301", "[", "[UNK", "a ", "\u00e9",
                           "the quick brown fox ", "!", "\U0001f600"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const auto encoding = golden->Encode(text, std::nullopt, {});
    ASSERT_TRUE(encoding.ok()) << unit;
    ASSERT_EQ(encoding->ids.size(), encoding->offsets.size()) << unit;
  }
}

TEST(Tokenizer, OfBytesReadsAMegabyteOfAnything) {
  for (const char* name : {"gpt2", "llama-2"}) {
    auto golden = LoadTokenizer(std::string(HEED_SOURCE_DIR "/tests/golden/tokenizers/") + name).value();
    for (const char* unit : {"a", " ", "\u00e9", "the quick brown fox "}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const auto encoding = golden->Encode(text, std::nullopt, {.add_special_tokens = false});
      ASSERT_TRUE(encoding.ok()) << name << unit;
      ASSERT_EQ(golden->Decode(encoding->ids, false), text) << name << unit;
    }
  }
}

TEST(Tokenizer, BytesOfATokenMayBePartOfACharacter) {
  const auto tokenizer = NewPipelineTokenizer(R"({"model": {"type": "BPE", "merges": [],
      "vocab": {"\u00e2\u0124": 0, "\u0120a": 1}}, "decoder": {"type": "ByteLevel"}})")
                             .value();
  EXPECT_EQ(tokenizer->TokenBytes(0), "\xe2\x82");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{0}, false), "\ufffd");
  EXPECT_EQ(tokenizer->TokenBytes(1), " a");
  EXPECT_EQ(tokenizer->max_token_bytes(), 2);
}

}  // namespace
}  // namespace heed
