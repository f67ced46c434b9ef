#include "engine/base/status.h"
#include "engine/text/file_converters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/text/sentencepiece_bytes.h"

namespace heed {
namespace {

using ::testing::ElementsAre;

Json Parsed(std::string_view text) { return ParseJson(text, "t").value(); }

SentencePieceModel Model(std::string_view bytes) {
  auto model = ReadSentencePieceModel(bytes, "t.model");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// The pieces with which fairseq's models begin.
const std::string kFairseq = PieceField("<unk>", 0, 2) + PieceField("<s>", 0, 3) + PieceField("</s>", 0, 3);
const std::string kWords = PieceField("\u2581a", -1) + PieceField("\u25811,", -2) + PieceField("b", -3);

// What the model becomes, of a class and with settings, or the refusal as a string.
Json Convert(const SentencePieceModel& model, std::string_view tokenizer_class,
             std::string_view config = "{}") {
  TokenizerSettings settings;
  settings.tokenizer_class = tokenizer_class;
  settings.config = Parsed(config);
  const auto json = ConvertSentencePiece(model, "t.model", settings);
  return json.ok() ? *json : Json(std::string(json.status().message()));
}

std::vector<std::string> TokensOf(const Json& json) {
  std::vector<std::string> texts;
  for (const Json& entry : json["model"]["vocab"]) texts.push_back(entry[0]);
  return texts;
}

// "A", "B:1" and tokens, in one line.
std::string Template(const Json& json, const char* which) {
  std::string line;
  for (const Json& piece : json["post_processor"][which]) {
    const Json& inner = piece.begin().value();
    const int type = inner["type_id"];
    line += (line.empty() ? "" : " ") + inner["id"].get<std::string>() + (type == 0 ? "" : Cat(":", type));
  }
  return line;
}

std::vector<std::string> Types(const Json& sequence, const char* list) {
  std::vector<std::string> types;
  for (const Json& stage : sequence[list]) types.push_back(stage["type"]);
  return types;
}

TEST(SentencePieceFiles, T5HasExtraTokensAfterThePieces) {
  const SentencePieceModel model =
      Model(PieceField("<pad>", 0, 3) + PieceField("</s>", 0, 3) + PieceField("<unk>", 0, 2) + kWords);
  const Json json = Convert(model, "T5Tokenizer", R"({"extra_ids": 2})");
  EXPECT_THAT(TokensOf(json), ElementsAre("<pad>", "</s>", "<unk>", "\u2581a", "\u25811,", "b",
                                          "<extra_id_1>", "<extra_id_0>"));
  EXPECT_EQ(json["model"]["vocab"][4][1], -2.0);
  EXPECT_EQ(json["model"]["unk_id"], 2);
  EXPECT_EQ(json["model"]["unused_ids"], Parsed("[0, 1, 2, 6, 7]"));
  EXPECT_EQ(json["model"]["byte_fallback"], false);
  EXPECT_EQ(Template(json, "single"), "A </s>");
  EXPECT_EQ(Template(json, "pair"), "A </s> B </s>");
  EXPECT_THAT(Types(json["normalizer"], "normalizers"), ElementsAre("Strip", "Replace"));
  EXPECT_EQ(json["pre_tokenizer"], Parsed("{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", "
                                          "\"prepend_scheme\": \"always\", \"split\": true}"));
  EXPECT_EQ(json["decoder"], json["pre_tokenizer"]);
  EXPECT_EQ(json["added_tokens"].size(), 5u) << "three that the model has, two more";
  EXPECT_FALSE(json.contains("encode_special_tokens"));
  EXPECT_EQ(TokensOf(Convert(model, "T5Tokenizer")).size(), 106u);
  EXPECT_EQ(Convert(model, "T5Tokenizer", R"({"legacy": false})")["decoder"]["prepend_scheme"], "first");
}

TEST(SentencePieceFiles, FairseqsOwnTokensStandBeforeThePieces) {
  const SentencePieceModel model = Model(kFairseq + kWords);
  const Json json = Convert(model, "XLMRobertaTokenizer");
  EXPECT_THAT(TokensOf(json),
              ElementsAre("<s>", "<pad>", "</s>", "<unk>", "\u2581a", "\u25811,", "b", "<mask>"));
  EXPECT_EQ(json["model"]["unk_id"], 3);
  EXPECT_EQ(Template(json, "single"), "<s> A </s>");
  EXPECT_EQ(Template(json, "pair"), "<s> A </s> </s> B </s>");
  for (const Json& token : json["added_tokens"]) EXPECT_EQ(token["lstrip"], token["content"] == "<mask>");
  EXPECT_THAT(TokensOf(Convert(model, "CamembertTokenizer")),
              ElementsAre("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>",
                          "\u2581a", "\u25811,", "b", "<mask>"));
  EXPECT_EQ(TokensOf(Convert(model, "XGLMTokenizer")).back(), "<madeupword6>");
  EXPECT_EQ(Template(Convert(model, "XGLMTokenizer"), "pair"), "</s> A </s> </s> B");
}

TEST(SentencePieceFiles, MbartNamesTheLanguage) {
  const SentencePieceModel model = Model(kFairseq + kWords);
  const Json json = Convert(model, "MBartTokenizer");
  EXPECT_EQ(TokensOf(json).size(), 4u + 3 + 25 + 1);
  EXPECT_EQ(Template(json, "single"), "A </s> en_XX");
  TokenizerSettings settings;
  settings.tokenizer_class = "MBart50Tokenizer";
  settings.source_language = "sl_SI";
  const Json later = ConvertSentencePiece(model, "t.model", settings).value();
  EXPECT_EQ(TokensOf(later).size(), 4u + 3 + 52 + 1);
  EXPECT_EQ(Template(later, "pair"), "sl_SI A B </s>");
  settings.source_language = "tlh";
  EXPECT_EQ(ConvertSentencePiece(model, "t.model", settings).status().message(),
            "t.model: the language_token \"tlh\" is not in the vocabulary");
}

TEST(SentencePieceFiles, PegasusBeginsAtItsOffset) {
  const SentencePieceModel model =
      Model(PieceField("<s>", 0, 3) + PieceField("</s>", 0, 3) + PieceField("<unk>", 0, 2) + kWords);
  const Json json = Convert(model, "PegasusTokenizer");
  EXPECT_EQ(json["model"]["unk_id"], 105);
  EXPECT_EQ(json["model"]["vocab"][3][0], "<mask_2>");
  EXPECT_EQ(json["model"]["vocab"][4][0], "<unk_2>");
  EXPECT_EQ(json["model"]["vocab"][106][0], "\u2581a");
  EXPECT_EQ(Template(json, "pair"), "A B </s>");
  EXPECT_THAT(TokensOf(Convert(model, "PegasusTokenizer", R"({"offset": 0, "mask_token_sent": null})")),
              ElementsAre("<pad>", "</s>", "<unk>", "\u2581a", "\u25811,", "b"));
  EXPECT_EQ(Convert(Model(kFairseq), "PegasusTokenizer", R"({"offset": 0, "mask_token_sent": null})"),
            "t.model: piece 0 is the unknown one, where class \"PegasusTokenizer\" has others");
}

TEST(SentencePieceFiles, AlbertAndXlnetTakeNumbersFromTheirCommas) {
  const SentencePieceModel model = Model(kFairseq + PieceField("[CLS]", 0, 3) + PieceField("[SEP]", 0, 3) +
                                         PieceField("<sep>", 0, 3) + PieceField("<cls>", 0, 3) + kWords);
  const Json json = Convert(model, "AlbertTokenizer");
  EXPECT_EQ(json["model"]["vocab"][8], Parsed("[\"\u25811,\", -102.0]"));
  EXPECT_EQ(json["model"]["vocab"][7], Parsed("[\"\u2581a\", -1.0]"));
  EXPECT_THAT(Types(json["normalizer"], "normalizers"),
              ElementsAre("Replace", "Replace", "NFKD", "StripAccents", "Lowercase", "Replace"));
  EXPECT_THAT(Types(Convert(model, "AlbertTokenizer",
                            R"({"keep_accents": true, "do_lower_case": false})")["normalizer"],
                    "normalizers"),
              ElementsAre("Replace", "Replace", "Replace"));
  EXPECT_EQ(Template(json, "pair"), "[CLS] A [SEP] B:1 [SEP]:1");
  EXPECT_EQ(Template(Convert(model, "XLNetTokenizer"), "pair"), "A <sep> B:1 <sep>:1 <cls>:2");
}

TEST(SentencePieceFiles, DebertaHasItsMaskEvenWhereTheModelHasNone) {
  const std::string bytes = PieceField("[PAD]", 0, 3) + PieceField("[CLS]", 0, 3) +
                            PieceField("[SEP]", 0, 3) + PieceField("[UNK]", 0, 2) + kWords;
  const Json json = Convert(Model(bytes), "DebertaV2Tokenizer", R"({"split_by_punct": true})");
  EXPECT_EQ(TokensOf(json).back(), "[MASK]");
  EXPECT_THAT(Types(json["pre_tokenizer"], "pretokenizers"), ElementsAre("Punctuation", "Metaspace"));
  EXPECT_EQ(TokensOf(Convert(Model(bytes + PieceField("[MASK]", 0, 4)), "DebertaV2Tokenizer")).size(), 8u);
}

TEST(SentencePieceFiles, BpeMergesTheBestPieceFirst) {
  std::string bytes = kFairseq;
  for (const char* text : {"ab", "abc", "bc", "a", "b", "c"})
    bytes += PieceField(text, *text == 'a' ? -1 : -2);
  bytes += PieceField("<0x0A>", -1, 6) + PieceField("abcd", 0, 3) + PieceField("d", -9) + TrainerField(2);
  const Json json = Convert(Model(bytes), "LlamaTokenizer");
  EXPECT_EQ(json["model"]["merges"], Parsed(R"([["ab", "c"], ["a", "bc"], ["a", "b"], ["b", "c"]])"));
  EXPECT_EQ(json["model"]["vocab"]["abc"], 4);
  EXPECT_EQ(json["model"]["unk_token"], "<unk>");
  EXPECT_EQ(json["model"]["fuse_unk"], true);
  EXPECT_EQ(json["model"]["byte_fallback"], true);
}

TEST(SentencePieceFiles, LlamaPutsAroundTheTextWhatItsSettingsSay) {
  const SentencePieceModel model = Model(kFairseq + kWords + TrainerField(2));
  const Json json = Convert(model, "LlamaTokenizer");
  EXPECT_EQ(Template(json, "pair"), "<s> A <s>:1 B:1");
  EXPECT_THAT(Types(json["normalizer"], "normalizers"), ElementsAre("Prepend", "Replace"));
  EXPECT_EQ(json["pre_tokenizer"], Json());
  EXPECT_THAT(Types(json["decoder"], "decoders"), ElementsAre("Replace", "ByteFallback", "Fuse", "Strip"));
  const Json other =
      Convert(model, "LlamaTokenizer", R"({"add_bos_token": false, "add_eos_token": true, "legacy": false})");
  EXPECT_EQ(Template(other, "single"), "A </s>");
  EXPECT_EQ(other["normalizer"], Json());
  EXPECT_EQ(other["pre_tokenizer"]["prepend_scheme"], "first");
  EXPECT_EQ(other["pre_tokenizer"]["split"], false);
}

TEST(SentencePieceFiles, GemmaHasATabAndTurns) {
  const SentencePieceModel model =
      Model(PieceField("<pad>", 0, 3) + PieceField("<eos>", 0, 3) + PieceField("<bos>", 0, 3) +
            PieceField("<unk>", 0, 2) + PieceField("<start_of_turn>", 0, 4) + PieceField("<0x09>", -5, 6) +
            PieceField("\t\t", -1) + TrainerField(2));
  const Json json = Convert(model, "GemmaTokenizer");
  EXPECT_EQ(json["model"]["vocab"]["\t"], 5);
  EXPECT_EQ(json["model"]["merges"], Parsed(R"([["\t", "\t"]])"));
  EXPECT_EQ(json["added_tokens"].back()["content"], "<start_of_turn>");
  EXPECT_EQ(json["added_tokens"].back()["special"], true);
  EXPECT_EQ(Template(json, "single"), "<bos> A");
}

TEST(SentencePieceFiles, WithoutAClassAreSentencePiecesOwn) {
  const std::string pieces = kFairseq + kWords + PieceField("<sep>", 0, 4) + PieceField("x", 0, 5);
  const Json json = Convert(Model(pieces), "");
  EXPECT_EQ(json["encode_special_tokens"], true);
  EXPECT_EQ(json["model"]["unused_ids"], Parsed("[0, 1, 2, 7]"));
  EXPECT_EQ(json["post_processor"], Json());
  EXPECT_NEAR(json["model"]["vocab"][6][1].get<double>(), -0.1, 1e-6) << "a piece of the user's wins";
  EXPECT_THAT(Types(json["normalizer"], "normalizers"),
              ElementsAre("Strip", "Replace", "Prepend", "Replace"));
  EXPECT_EQ(json["decoder"]["decoders"][0]["content"], " \u2047 ");
  const Json plain = Convert(Model(pieces + NormalizerField(false, false)), "");
  EXPECT_THAT(Types(plain["normalizer"], "normalizers"), ElementsAre("Replace"));
  EXPECT_THAT(Types(plain["decoder"], "decoders"), ElementsAre("Replace", "Replace", "Fuse"));
  EXPECT_EQ(Convert(Model(pieces), "M2M100Tokenizer"),
            "t.model: Heed reads no tokenizer of class \"M2M100Tokenizer\" from it");
}

}  // namespace
}  // namespace heed
