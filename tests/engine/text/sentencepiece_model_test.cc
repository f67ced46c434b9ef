#include "engine/text/sentencepiece_model.h"

#include <limits>
#include <random>

#include "engine/text/file_converters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/text/sentencepiece_bytes.h"

namespace heed {
namespace {

std::string Refusal(std::string_view bytes) {
  auto model = ReadSentencePieceModel(bytes, "t.model");
  return model.ok() ? "accepted" : std::string(model.status().message());
}

const std::string kUnknown = PieceField("<unk>", 0, 2);

TEST(SentencePieceModel, HoldsPiecesAndHowTextIsNormalised) {
  const std::string bytes =
      PieceField("<s>", 0, 3) + kUnknown + PieceField("\u2581a", -1.25f) + PieceField("<sep>", 0, 4) +
      TrainerField(2, NumberField(35, 1) + BytesField(44, "?")) +
      BytesField(3, BytesField(2, "map") + NumberField(3, 0) + NumberField(4, 0)) + BytesField(9, "later");
  const auto model = ReadSentencePieceModel(bytes, "t.model");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->type, SentencePieceModel::kBpe);
  ASSERT_EQ(model->pieces.size(), 4u);
  EXPECT_EQ(model->unknown_id, 1);
  EXPECT_EQ(model->pieces[2].text, "\u2581a");
  EXPECT_EQ(model->pieces[2].score, -1.25f);
  EXPECT_EQ(model->pieces[2].type, SentencePiece::kNormal);
  EXPECT_EQ(model->pieces[3].type, SentencePiece::kUserDefined);
  EXPECT_TRUE(model->byte_fallback);
  EXPECT_EQ(model->unknown_surface, "?");
  EXPECT_EQ(model->charsmap, "map");
  EXPECT_FALSE(model->add_dummy_prefix);
  EXPECT_FALSE(model->remove_extra_whitespaces);
}

TEST(SentencePieceModel, HasUsualValues) {
  const auto model = ReadSentencePieceModel(kUnknown + BytesField(1, BytesField(1, "a")), "t.model");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->type, SentencePieceModel::kUnigram);
  EXPECT_EQ(model->pieces[1].type, SentencePiece::kNormal);
  EXPECT_EQ(model->pieces[1].score, 0);
  EXPECT_EQ(model->unknown_surface, " \u2047 ");
  EXPECT_TRUE(model->add_dummy_prefix);
  EXPECT_TRUE(model->remove_extra_whitespaces);
  EXPECT_FALSE(model->byte_fallback);
}

TEST(SentencePieceModel, RefusesWhatItCannotKeep) {
  EXPECT_EQ(Refusal(""), "t.model: 0 of 0 pieces are unknown pieces, must be one");
  EXPECT_EQ(Refusal(kUnknown + PieceField("x", 0, 2)),
            "t.model: 2 of 2 pieces are unknown pieces, must be one");
  EXPECT_EQ(Refusal(kUnknown + PieceField("a", 0) + PieceField("a", 1)),
            "t.model: pieces[2]: \"a\" appears twice");
  EXPECT_EQ(Refusal(PieceField("", 0)), "t.model: pieces[0]: piece is missing or empty");
  EXPECT_EQ(Refusal(PieceField(std::string(513, 'a'), 0)),
            "t.model: pieces[0]: piece: 513 bytes are above 512");
  EXPECT_EQ(Refusal(PieceField("\xff", 0)), "t.model: pieces[0]: piece is not valid UTF-8");
  EXPECT_EQ(Refusal(PieceField("a", std::numeric_limits<float>::quiet_NaN())),
            "t.model: pieces[0]: score is not a finite number");
  EXPECT_EQ(Refusal(PieceField("a", 0, 7)), "t.model: pieces[0]: type: 7 is not from 1 to 6");
  EXPECT_EQ(Refusal(kUnknown + TrainerField(3)),
            "t.model: trainer_spec: model_type: 3 is neither 1 (Unigram) nor 2 (BPE)");
  EXPECT_EQ(Refusal(kUnknown + TrainerField(1, NumberField(24, 1))),
            "t.model: trainer_spec: treat_whitespace_as_suffix is true, which Heed does not read");
  EXPECT_EQ(Refusal(kUnknown + TrainerField(1, BytesField(44, "\xff"))),
            "t.model: trainer_spec: unk_surface is not valid UTF-8");
  EXPECT_EQ(Refusal(kUnknown + BytesField(3, NumberField(5, 0))),
            "t.model: normalizer_spec: escape_whitespaces is false, which Heed does not read");
  EXPECT_EQ(Refusal(kUnknown + NumberField(2, 1)), "t.model: trainer_spec is not text or bytes");
}

// Whatever the bytes are, they are a model or refused, and a model becomes a tokenizer or is refused.
void Try(std::string_view bytes) {
  const auto model = ReadSentencePieceModel(bytes, "t.model");
  if (!model.ok()) {
    EXPECT_THAT(std::string(model.status().message()), ::testing::StartsWith("t.model: "));
    return;
  }
  for (const char* tokenizer_class :
       {"", "T5Tokenizer", "XLMRobertaTokenizer", "PegasusTokenizer", "LlamaTokenizer"}) {
    TokenizerSettings settings;
    settings.tokenizer_class = tokenizer_class;
    const auto json = ConvertSentencePiece(*model, "t.model", settings);
    if (!json.ok()) {
      EXPECT_THAT(std::string(json.status().message()), ::testing::StartsWith("t.model: "));
    }
  }
}

std::string SmallModel(int type) {
  std::string bytes =
      PieceField("<pad>", 0, 3) + PieceField("</s>", 0, 3) + kUnknown + PieceField("<s>", 0, 3);
  for (const char* text : {"\u2581", "a", "b", "ab", "\u2581ab", "<0x0A>"}) bytes += PieceField(text, -1);
  return bytes + TrainerField(type, NumberField(35, 1)) + NormalizerField(true, true);
}

TEST(SentencePieceModel, SurvivesEveryTruncation) {
  for (int type : {1, 2}) {
    const std::string bytes = SmallModel(type);
    for (size_t size = 0; size <= bytes.size(); ++size) Try(std::string_view(bytes).substr(0, size));
  }
  EXPECT_EQ(Refusal(SmallModel(1)), "accepted");
}

TEST(SentencePieceModel, SurvivesEveryChangedByte) {
  std::mt19937 random(7);
  for (int type : {1, 2}) {
    const std::string bytes = SmallModel(type);
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (int change : {1, 0x80, 0xff, static_cast<int>(random() % 256)}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ change);
        Try(changed);
      }
    }
  }
  EXPECT_EQ(Refusal(SmallModel(2)), "accepted");
}

}  // namespace
}  // namespace heed
