#include "engine/text/decoders.h"

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

std::unique_ptr<const Decoder> Make(std::string_view json) {
  auto decoder = NewDecoder(ParseJson(json, "t").value(), "t");
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return *std::move(decoder);
}

std::string Decoded(std::string_view json, std::vector<std::string> tokens) {
  Make(json)->Decode(tokens);
  return absl::StrJoin(tokens, "");
}

std::string Refusal(std::string_view json) {
  return std::string(NewDecoder(ParseJson(json, "t").value(), "t").status().message());
}

constexpr char kByteLevel[] = R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})";
constexpr char kLlama[] = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";

TEST(Decoders, ByteLevelJoinsBytesToCharacters) {
  EXPECT_EQ(Decoded(kByteLevel, {"\u0120a", "\u00e2", "\u0124\u00ac"}), " a\u20ac");
  EXPECT_EQ(Decoded(kByteLevel, {"a", "\u00e2\u0124"}), "a\ufffd");
  EXPECT_EQ(Decoded(kByteLevel, {"<\u4e2d> x"}), "<\u4e2d> x") << "what spells no bytes is itself";
  EXPECT_EQ(Make(kByteLevel)->Bytes("\u00e2\u0124"), "\xe2\x82");
}

TEST(Decoders, MetaspaceIsNoSpaceInTheFirstToken) {
  const char metaspace[] = R"({"type": "Metaspace"})";
  EXPECT_EQ(Decoded(metaspace, {"\u2581\u2581a", "b\u2581", "\u2581c"}), "ab  c");
  EXPECT_EQ(Decoded(R"({"type": "Metaspace", "prepend_scheme": "never"})", {"\u2581a", "\u2581b"}), " a b");
  EXPECT_EQ(Decoded(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", {"_a"}), " a");
  EXPECT_EQ(Make(metaspace)->Bytes("\u2581a"), " a");
}

TEST(Decoders, BpeEndsWordsByASuffix) {
  EXPECT_EQ(Decoded(R"({"type": "BPEDecoder"})", {"a", "b</w>", "c</w>"}), "ab c");
  EXPECT_EQ(Decoded(R"({"type": "BPEDecoder", "suffix": "@"})", {"a@", "b"}), "a b");
  EXPECT_EQ(Decoded(R"({"type": "BPEDecoder"})", {}), "");
  EXPECT_EQ(Make(R"({"type": "BPEDecoder"})")->Bytes("a</w>"), "a ");
}

TEST(Decoders, CtcLeavesRepetitionsOut) {
  EXPECT_EQ(Decoded(R"({"type": "CTC"})", {"<pad>", "h", "h", "e", "<pad>", "e", "|", "|", "."}), "hee .");
  EXPECT_EQ(Decoded(R"({"type": "CTC", "pad_token": "_", "word_delimiter_token": "#", "cleanup": false})",
                    {"a", "_", "a", "#"}),
            "aa#");
}

TEST(Decoders, ByteFallbackIsAllTextOrAllUnknown) {
  const char json[] = R"({"type": "ByteFallback"})";
  EXPECT_EQ(Decoded(json, {"a", "<0xC3>", "<0xA9>", "b"}), "a\u00e9b");
  EXPECT_EQ(Decoded(json, {"<0xC3>", "<0xA9>", "<0xC3>"}), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(Decoded(json, {"<0xG3>", "<0x410>", "<0x41>"}), "<0xG3><0x410>A");
  EXPECT_EQ(Make(json)->Bytes("<0xc3>"), "\xc3");
  EXPECT_TRUE(Make(json)->DependsOnNext("<0x41>"));
  EXPECT_FALSE(Make(json)->DependsOnNext("a"));
}

TEST(Decoders, SequenceActsInItsOrder) {
  EXPECT_EQ(Decoded(kLlama, {"\u2581a", "\u2581b", "<0xC3>", "<0xA9>"}), "a b\u00e9");
  EXPECT_EQ(Decoded(kLlama, {"\u2581\u2581a"}), " a");
  EXPECT_EQ(Make(kLlama)->Bytes("\u2581a"), " a") << "only a text's first token loses it";
  EXPECT_EQ(Make(kLlama)->Bytes("<0xE2>"), "\xe2");
  EXPECT_TRUE(Make(kLlama)->DependsOnNext("<0xE2>"));
}

TEST(Decoders, StripTakesSoManyOfBothEnds) {
  EXPECT_EQ(Decoded(R"({"type": "Strip", "content": "_", "start": 2, "stop": 1})", {"___a__", "b", "_", ""}),
            "_a_b");
}

TEST(Decoders, ReplaceByARegularExpression) {
  EXPECT_EQ(Decoded(R"({"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "#"})", {"a12", "b3c"}),
            "a#b#c");
}

TEST(Decoders, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(Refusal(R"({"type": "Bytes"})"), "t: type \"Bytes\" is none that Heed reads");
  EXPECT_EQ(Refusal(R"({"type": "BPEDecoder", "suffix": ""})"), "t: suffix is empty");
  EXPECT_EQ(Refusal(R"({"type": "CTC", "pad_token": ""})"), "t: pad_token is empty");
  EXPECT_EQ(Refusal(R"({"type": "Strip", "content": "ab"})"), "t: content: \"ab\" is not one character");
  EXPECT_EQ(Refusal(R"({"type": "Strip", "start": -1})"), "t: start: -1 is below 0");
  EXPECT_EQ(Refusal(R"({"type": "Sequence", "decoders": {}})"), "t: decoders is not a list");
  EXPECT_EQ(Refusal(R"({"type": "Sequence", "decoders": [null]})"), "t.decoders[0] is null");
}

}  // namespace
}  // namespace heed
