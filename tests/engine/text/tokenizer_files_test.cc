#include "engine/text/tokenizer_files.h"

#include <filesystem>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;

Json Parsed(std::string_view text) { return ParseJson(text, "t").value(); }

// What a folder's files become, or the refusal as a string.
Json Read(const TempFolder& folder, std::string_view config = "{}") {
  const auto file = ReadOtherTokenizerFiles(folder.path(), Parsed(config));
  if (!file.ok()) return std::string(file.status().message());
  return *file ? (*file)->json : Json();
}

std::vector<std::string> Texts(const Json& added_tokens) {
  std::vector<std::string> texts;
  for (const Json& token : added_tokens) texts.push_back(token["content"]);
  return texts;
}

Json AddedNamed(const Json& json, std::string_view content) {
  for (const Json& token : json["added_tokens"]) {
    if (token["content"] == content) return token;
  }
  return Json();
}

constexpr char kBertVocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\nworld\n";

TEST(TokenizerFiles, VocabTxtIsBerts) {
  TempFolder folder;
  folder.Write("vocab.txt", kBertVocabulary);
  const Json json = Read(folder);
  EXPECT_EQ(json["model"],
            Parsed(R"({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 100, "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4,
      "hello": 5, "##s": 6, "world": 7}})"));
  EXPECT_EQ(json["normalizer"],
            Parsed(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
      "strip_accents": null, "lowercase": true})"));
  EXPECT_EQ(json["pre_tokenizer"], Parsed(R"({"type": "BertPreTokenizer"})"));
  EXPECT_EQ(json["decoder"], Parsed(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})"));
  EXPECT_EQ(json["post_processor"], Parsed(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
      "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                         "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}})"));
  EXPECT_THAT(Texts(json["added_tokens"]), ElementsAre("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"));
  EXPECT_EQ(AddedNamed(json, "[MASK]"), Parsed(R"({"id": 4, "content": "[MASK]", "single_word": false,
      "lstrip": false, "rstrip": false, "normalized": false, "special": true})"));
}

TEST(TokenizerFiles, TokenizerConfigSaysHowBertReadsText) {
  TempFolder folder;
  folder.Write("vocab.txt", "<s>\n</s>\n<oov>\nhello\n");
  folder.Write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": true, "tokenizer_class":
      "DistilBertTokenizerFast", "tokenize_chinese_chars": false, "unk_token": "<oov>", "cls_token": "<s>",
      "sep_token": {"__type": "AddedToken", "content": "</s>", "lstrip": true}, "model_max_length": 1e30})");
  const Json json = Read(folder);
  EXPECT_EQ(json["normalizer"], Parsed(R"({"type": "BertNormalizer", "clean_text": true,
      "handle_chinese_chars": false, "strip_accents": true, "lowercase": false})"));
  EXPECT_EQ(json["model"]["unk_token"], "<oov>");
  EXPECT_EQ(json["post_processor"]["special_tokens"]["</s>"]["ids"], Json::array({1}));
  EXPECT_EQ(AddedNamed(json, "</s>")["lstrip"], true);
  EXPECT_EQ(AddedNamed(json, "[MASK]"), Json()) << "a usual token that the vocabulary lacks";
}

TEST(TokenizerFiles, LinesOfVocabTxtAreIds) {
  TempFolder folder;
  folder.Write("vocab.txt", "[UNK]\r\n[CLS]\r\n\r\n[SEP]\rtwo\ntwo");
  EXPECT_EQ(Read(folder)["model"]["vocab"],
            Parsed("{\"[UNK]\": 0, \"[CLS]\": 1, \"\": 2, \"[SEP]\": 3, \"\ufffd5\": 4, \"two\": 5}"));
  folder.Write("vocab.txt", "[UNK]\n\xff\n");
  EXPECT_EQ(Read(folder), "vocab.txt: is not valid UTF-8");
  folder.Write("vocab.txt", "[UNK]\n[SEP]\n");
  EXPECT_EQ(Read(folder), "vocab.txt: the cls_token \"[CLS]\" is not in the vocabulary");
}

TEST(TokenizerFiles, ClassIsToldByTokenizerConfigThenByConfig) {
  TempFolder folder;
  folder.Write("vocab.txt", "<s>\n</s>\n[UNK]\n");
  EXPECT_EQ(Read(folder, R"({"model_type": "mpnet"})")["post_processor"]["pair"].size(), 6u);
  EXPECT_EQ(Read(folder, R"({"model_type": "mpnet", "tokenizer_class": "FunnelTokenizer"})"),
            "vocab.txt: the cls_token \"<cls>\" is not in the vocabulary");
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "PhobertTokenizer"})");
  EXPECT_EQ(Read(folder, R"({"model_type": "mpnet"})"),
            "vocab.txt: Heed reads no tokenizer of class \"PhobertTokenizer\" from it");
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": 7})");
  EXPECT_EQ(Read(folder), "tokenizer_config.json: tokenizer_class: 7 is not a string");
  EXPECT_EQ(Read(TempFolder()), Json());
}

void WriteByteBpe(const TempFolder& folder) {
  folder.Write("vocab.json",
               R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "<mask>": 7,
                                 "<|endoftext|>": 8})");
  folder.Write("merges.txt", "#version: 0.2\na b\n");
}

TEST(TokenizerFiles, VocabJsonWithMergesIsGpt2s) {
  TempFolder folder;
  WriteByteBpe(folder);
  const Json json = Read(folder);
  EXPECT_EQ(json["model"]["type"], "BPE");
  EXPECT_EQ(json["model"]["vocab"]["ab"], 6);
  EXPECT_EQ(json["model"]["merges"], Parsed(R"([["a", "b"]])"));
  EXPECT_EQ(json["pre_tokenizer"]["add_prefix_space"], false);
  EXPECT_EQ(json["post_processor"]["trim_offsets"], false);
  EXPECT_THAT(Texts(json["added_tokens"]), ElementsAre("<|endoftext|>"));
  folder.Write("tokenizer_config.json",
               R"({"add_bos_token": true, "bos_token": "</s>", "add_prefix_space": true})");
  EXPECT_EQ(Read(folder)["post_processor"]["special_tokens"]["</s>"]["ids"], Json::array({2}));
  EXPECT_EQ(Read(folder)["pre_tokenizer"]["add_prefix_space"], true);
}

TEST(TokenizerFiles, VocabJsonWithMergesMayBeRobertas) {
  TempFolder folder;
  WriteByteBpe(folder);
  const Json json = Read(folder, R"({"model_type": "bart"})");
  EXPECT_EQ(json["post_processor"],
            Parsed(R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
      "trim_offsets": true, "add_prefix_space": false})"));
  EXPECT_EQ(AddedNamed(json, "<mask>")["lstrip"], true);
  EXPECT_EQ(AddedNamed(json, "<pad>")["id"], 1);
}

TEST(TokenizerFiles, Qwen2SplitsByItsOwnWords) {
  TempFolder folder;
  WriteByteBpe(folder);
  const Json json = Read(folder, R"({"model_type": "qwen3"})");
  EXPECT_EQ(json["normalizer"], Parsed(R"({"type": "NFC"})"));
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][0]["type"], "Split");
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][1]["use_regex"], false);
}

TEST(TokenizerFiles, BadMergesAndVocabulariesAreRefused) {
  TempFolder folder;
  WriteByteBpe(folder);
  for (const char* line : {"ab", " ab", "ab ", "a b c"}) {
    folder.Write("merges.txt", Cat("a b\n\n", line, "\n"));
    EXPECT_EQ(Read(folder), Cat("merges.txt: line 3: \"", line, "\" is not two tokens"));
  }
  folder.Write("merges.txt", "a \xff");
  EXPECT_EQ(Read(folder), "merges.txt: is not valid UTF-8");
  folder.Write("vocab.json", R"({"a": -1})");
  EXPECT_EQ(Read(folder), "vocab.json: a: -1 is below 0");
  folder.Write("vocab.json", "[]");
  EXPECT_EQ(Read(folder), "vocab.json: [] is not an object");
  std::filesystem::remove(folder / "merges.txt");
  EXPECT_EQ(Read(folder), Json()) << "a vocab.json alone is no tokenizer";
}

TEST(TokenizerFiles, TokensAreAddedAsTheFilesSay) {
  TempFolder folder;
  WriteByteBpe(folder);
  folder.Write("special_tokens_map.json", R"({"pad_token": "<|pad|>", "mask_token": {"content": "<mask>",
      "lstrip": true}, "additional_special_tokens": ["<x>"], "bos_token": null})");
  folder.Write("added_tokens.json", R"({"<x>": 10, "plain": 9})");
  Json json = Read(folder);
  EXPECT_THAT(Texts(json["added_tokens"]), ElementsAre("plain", "<x>", "<|endoftext|>", "<|pad|>", "<mask>"));
  EXPECT_EQ(AddedNamed(json, "plain"), Parsed(R"({"id": 9, "content": "plain", "single_word": false,
      "lstrip": false, "rstrip": false, "normalized": true, "special": false})"));
  EXPECT_EQ(AddedNamed(json, "<x>")["special"], true);
  EXPECT_EQ(AddedNamed(json, "<|pad|>")["id"], 11) << "the next id";
  EXPECT_EQ(AddedNamed(json, "<mask>")["id"], 7);
  folder.Write("tokenizer_config.json", R"({"added_tokens_decoder": {"9": {"content": "<y>", "special": true},
      "7": {"content": "<mask>", "rstrip": true, "special": false}}, "mask_token": "<mask>"})");
  json = Read(folder);
  EXPECT_THAT(Texts(json["added_tokens"]), ElementsAre("<mask>", "<y>", "<|endoftext|>"));
  EXPECT_EQ(AddedNamed(json, "<mask>")["rstrip"], true);
  EXPECT_EQ(AddedNamed(json, "<mask>")["special"], true) << "mask_token names it";
}

TEST(TokenizerFiles, SettingsThatAreNoneAreRefused) {
  TempFolder folder;
  WriteByteBpe(folder);
  const auto refusal = [&](const char* name, const char* text) {
    folder.Write(name, text);
    const Json json = Read(folder);
    std::filesystem::remove(folder / name);
    return json;
  };
  EXPECT_EQ(refusal("tokenizer_config.json", "[1]"), "tokenizer_config.json: [1] is not an object");
  EXPECT_EQ(refusal("tokenizer_config.json", R"({"legacy": 1})"),
            "tokenizer_config.json: legacy: 1 is not true or false");
  EXPECT_EQ(refusal("tokenizer_config.json", R"({"extra_ids": 10001})"),
            "tokenizer_config.json: extra_ids: 10001 is above 10000");
  EXPECT_EQ(refusal("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})"),
            "tokenizer_config.json: added_tokens_decoder[\"x\"] is not an id from 0 to 2147483647");
  EXPECT_EQ(refusal("tokenizer_config.json", R"({"added_tokens_decoder": {"1": "a"}})"),
            "tokenizer_config.json: added_tokens_decoder[\"1\"] is not an object");
  EXPECT_EQ(refusal("special_tokens_map.json", R"({"cls_token": {"content": ""}})"),
            "special_tokens_map.json: cls_token: content is missing or empty");
  EXPECT_EQ(refusal("special_tokens_map.json", R"({"additional_special_tokens": "a"})"),
            "special_tokens_map.json: additional_special_tokens is not a list");
  EXPECT_EQ(refusal("added_tokens.json", R"({"a": 1.5})"), "added_tokens.json: a: 1.5 is not an integer");
}

TEST(TokenizerFiles, TokenizerJsonIsGivenWhatItLacks) {
  TempFolder folder;
  folder.Write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "b": 1, "c": 2}}, "added_tokens": [
      {"id": 0, "content": "a", "special": true}]})");
  EXPECT_THAT(Texts((*ReadTokenizerJson(folder.path()))->json["added_tokens"]), ElementsAre("a"));
  folder.Write("tokenizer_config.json", R"({"cls_token": "a", "sep_token": "b", "pad_token": "none of these",
      "split_special_tokens": true, "added_tokens_decoder": {"3": {"content": "d"}, "0": {"content": "a"}}})");
  const Json json = (*ReadTokenizerJson(folder.path()))->json;
  EXPECT_THAT(Texts(json["added_tokens"]), ElementsAre("a", "d", "b"));
  EXPECT_EQ(AddedNamed(json, "d")["id"], 3);
  EXPECT_EQ(AddedNamed(json, "b")["id"], 1);
  EXPECT_EQ(json["encode_special_tokens"], true);
}

}  // namespace
}  // namespace heed
