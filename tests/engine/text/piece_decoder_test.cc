#include <random>

#include "engine/text/bytes_tokenizer.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Tokens(std::string_view bytes) {
  std::vector<int32_t> tokens;
  for (char byte : bytes) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

// What each token adds, then what Finish() does.
std::vector<std::string> Pieces(std::string_view prompt, std::string_view generated) {
  const auto tokenizer = NewBytesTokenizer();
  PieceDecoder decoder(*tokenizer, Tokens(prompt), true);
  std::vector<std::string> pieces;
  for (int32_t token : Tokens(generated)) pieces.push_back(decoder.Add(token));
  pieces.push_back(decoder.Finish());
  return pieces;
}

TEST(PieceDecoder, HoldsHalfACharacterBack) {
  EXPECT_THAT(Pieces("", "a\u20acb"), ElementsAre("a", "", "", "\u20ac", "b", ""));
}

TEST(PieceDecoder, GivesWhatNeverBecomesACharacterAtLast) {
  EXPECT_THAT(Pieces("", "\xe2\x82z"), ElementsAre("", "", "\ufffdz", ""));
  EXPECT_THAT(Pieces("", "a\xe2\x82"), ElementsAre("a", "", "", "\ufffd"));
}

TEST(PieceDecoder, CompletesACharacterThatThePromptBegan) {
  EXPECT_THAT(Pieces("ab\xe2\x82", "\xac!"), ElementsAre("\u20ac", "!", ""));
  EXPECT_THAT(Pieces("ab\xe2", "\x82\xac!"), ElementsAre("", "\u20ac", "!", ""));
  EXPECT_THAT(Pieces("ab\xe2\x82", "z"), ElementsAre("z", ""));
  EXPECT_THAT(Pieces("ab\ufffd", "z"), ElementsAre("z", ""));
}

TEST(PieceDecoder, APromptThatIsNoTextHidesNoBeginningOfACharacter) {
  EXPECT_THAT(Pieces("\xff", "\U0001f600"), ElementsAre("", "", "", "\U0001f600", ""));
}

// Where every byte of half a character is a U+FFFD of its own.
class FourBytes : public Tokenizer {
 public:
  absl::StatusOr<Encoding> Encode(std::string_view, std::optional<std::string_view>,
                                  const EncodeOptions&) const override {
    return Encoding();
  }
  std::string Decode(std::span<const int32_t> ids, bool) const override {
    if (ids.size() == 4) return std::string(ids.begin(), ids.end());
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) text += "\ufffd";
    return text;
  }
  int32_t vocab_size() const override { return 256; }
  int32_t TokenId(std::string_view) const override { return -1; }
};

TEST(PieceDecoder, WaitsForThreeBytesThatLackOne) {
  const FourBytes tokenizer;
  PieceDecoder decoder(tokenizer, {}, true);
  for (int32_t byte : {0xf0, 0x9f, 0x98}) EXPECT_EQ(decoder.Add(byte), "");
  EXPECT_EQ(decoder.Add(0x80), "\U0001f600");
}

TEST(PieceDecoder, SaysNothingOfThePrompt) { EXPECT_THAT(Pieces("the prompt", "x"), ElementsAre("x", "")); }

TEST(PieceDecoder, PutsTheSpaceThatTheContextAsksFor) {
  const auto tokenizer =
      NewPipelineTokenizer(R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})")
          .value();
  PieceDecoder after(*tokenizer, std::vector<int32_t>{0}, true), fresh(*tokenizer, {}, true);
  EXPECT_EQ(after.Add(1), " b");
  EXPECT_EQ(fresh.Add(1), "b");
  EXPECT_EQ(fresh.Add(1), " b");
}

TEST(PieceDecoder, SpecialTokensGiveNoText) {
  const auto tokenizer =
      NewPipelineTokenizer(R"({"added_tokens": [{"id": 1, "content": "b", "special": true}],
      "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})")
          .value();
  PieceDecoder decoder(*tokenizer, {}, true);
  EXPECT_EQ(decoder.Add(1), "");
  EXPECT_EQ(decoder.Add(0), "a");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(decoder.Add(1), "");
  EXPECT_EQ(decoder.Add(0), " a");
}

// A tokenizer with the tokens "a" (0), bytes of "\u00e9" (1 and 2), a byte that is no text (3), and a space
// before "a" (4), which is lost at the beginning.
std::unique_ptr<const Tokenizer> WithByteFallback() {
  return NewPipelineTokenizer(R"({"model": {"type": "BPE", "byte_fallback": true, "merges": [],
      "vocab": {"a": 0, "<0xC3>": 1, "<0xA9>": 2, "<0xFF>": 3, "\u2581a": 4}},
      "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})")
      .value();
}

TEST(PieceDecoder, BytesOfAFallbackWaitUntilNoMoreCome) {
  const auto tokenizer = WithByteFallback();
  PieceDecoder decoder(*tokenizer, {}, true);
  EXPECT_EQ(decoder.Add(4), "a");
  EXPECT_EQ(decoder.Add(1), "");
  EXPECT_EQ(decoder.Add(2), "") << "another byte may make U+FFFD of it";
  EXPECT_EQ(decoder.Add(4), "\u00e9 a");
  EXPECT_EQ(decoder.Add(1), "");
  EXPECT_EQ(decoder.Add(2), "");
  EXPECT_EQ(decoder.Add(3), "");
  EXPECT_EQ(decoder.Finish(), "\ufffd\ufffd\ufffd");
}

TEST(PieceDecoder, BytesOfThePromptAreNotSaidAgain) {
  const auto tokenizer = WithByteFallback();
  PieceDecoder decoder(*tokenizer, std::vector<int32_t>{0, 1, 2}, true);
  EXPECT_EQ(decoder.Add(1), "");
  EXPECT_EQ(decoder.Add(2), "");
  EXPECT_EQ(decoder.Add(0), "\u00e9a");
}

// Whatever the tokens.
TEST(PieceDecoder, PiecesOfAByteFallbackJoinedAreTheText) {
  const auto tokenizer = WithByteFallback();
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> tokens;
    std::string said;
    PieceDecoder decoder(*tokenizer, {}, true);
    while (tokens.size() < 60) {
      tokens.push_back(static_cast<int32_t>(random() % 20 == 0 ? 3 : random() % 5 == 0 ? 4 : random() % 3));
      said += decoder.Add(tokens.back());
      ASSERT_TRUE(tokenizer->Decode(tokens, true).starts_with(said));
    }
    ASSERT_EQ(said + decoder.Finish(), tokenizer->Decode(tokens, true));
  }
}

// Whatever the bytes: every piece is valid UTF-8, nothing waits that cannot change, and joined they are the
// text.
TEST(PieceDecoder, PiecesJoinedAreTheText) {
  const auto tokenizer = NewBytesTokenizer();
  const std::vector<std::string> units = {"a",    "\u00e9", "\u20ac",   "\U0001f600", "\ufffd",
                                          "\x80", "\xe2",   "\xf0\x9f", "\xff"};
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    while (bytes.size() < 100) bytes += units[random() % units.size()];
    const std::vector<int32_t> tokens = Tokens(bytes);
    PieceDecoder decoder(*tokenizer, {}, true);
    std::string said;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string piece = decoder.Add(tokens[i]);
      ASSERT_TRUE(ValidUtf8(piece));
      said += piece;
      const std::string all = tokenizer->Decode(std::span(tokens).first(i + 1), true);
      ASSERT_TRUE(all.starts_with(said));
      ASSERT_LE(all.size() - said.size(), 9u);
    }
    ASSERT_EQ(said + decoder.Finish(), tokenizer->Decode(tokens, true));
  }
}

TEST(PieceDecoder, TakesTheSameTimeForEveryToken) {
  const auto tokenizer = NewBytesTokenizer();
  PieceDecoder decoder(*tokenizer, {}, true);
  size_t said = 0;
  for (int i = 0; i < 200'000; ++i) said += decoder.Add(0x80).size();
  EXPECT_EQ(said + decoder.Finish().size(), 600'000u);
}

}  // namespace
}  // namespace heed
