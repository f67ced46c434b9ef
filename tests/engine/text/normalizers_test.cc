#include "engine/text/normalizers.h"

#include <utf8proc.h>

#include <random>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/text/unicode.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

Chars Normalized(std::string_view json, std::string_view text) {
  auto normalizer = NewNormalizer(ParseJson(json, "t").value(), "t");
  EXPECT_TRUE(normalizer.ok()) << normalizer.status();
  Chars chars = ToChars(text);
  const absl::Status status = (*normalizer)->Normalize(0, chars);
  EXPECT_TRUE(status.ok()) << status;
  return chars;
}

std::string Text(std::string_view json, std::string_view text) { return ToUtf8(Normalized(json, text)); }

// "0-1 1-2": where each character came from.
std::string Origins(std::string_view json, std::string_view text) {
  return absl::StrJoin(Normalized(json, text), " ",
                       [](std::string* out, const Char& c) { *out += Cat(c.begin, "-", c.end); });
}

std::string Refusal(std::string_view json) {
  return std::string(NewNormalizer(ParseJson(json, "t").value(), "t").status().message());
}

constexpr char kNfc[] = R"({"type": "NFC"})", kNfd[] = R"({"type": "NFD"})", kNfkc[] = R"({"type": "NFKC"})",
               kNfkd[] = R"({"type": "NFKD"})", kLowercase[] = R"({"type": "Lowercase"})",
               kStripAccents[] = R"({"type": "StripAccents"})";

TEST(Normalizers, DecomposeAndCompose) {
  EXPECT_EQ(Text(kNfd, "\u00e9\uac01"), "e\u0301\u1100\u1161\u11a8");
  EXPECT_EQ(Text(kNfc, "e\u0301\u1100\u1161\u11a8"), "\u00e9\uac01");
  EXPECT_EQ(Text(kNfkd, "\ufb01\u00b2"), "fi2");
  EXPECT_EQ(Text(kNfkc, "\ufb01\u00b2e\u0301"), "fi2\u00e9");
}

TEST(Normalizers, AddedCharactersHaveTheirPredecessorsOrigin) {
  EXPECT_EQ(Origins(kNfd, "x\u00e9y"), "0-1 1-2 1-2 2-3");
  EXPECT_EQ(Origins(kNfc, "xe\u0301y"), "0-1 1-2 3-4");
  EXPECT_EQ(Origins(kNfc, "x\u00e9y"), "0-1 1-2 2-3");
  EXPECT_EQ(Origins(kLowercase, "\u0130x"), "0-1 0-1 1-2");
}

TEST(Normalizers, AgreeWithUtf8procOnRandomText) {
  const std::u32string alphabet =
      U"aeo\u0301\u0323\u0327\u0345\u00e9\u1e69\u1100\u1161\u11a8\uac00\ufb01\u0f71\u0f72\u212b\u0958\u3099"
      U"\u304b";
  const std::pair<const char*, int> forms[] = {{kNfd, UTF8PROC_DECOMPOSE},
                                               {kNfc, UTF8PROC_COMPOSE},
                                               {kNfkd, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
                                               {kNfkc, UTF8PROC_COMPOSE | UTF8PROC_COMPAT}};
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) AppendUtf8(alphabet[random() % alphabet.size()], text);
    for (const auto& [json, options] : forms) {
      utf8proc_uint8_t* expected = nullptr;
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), text.size(), &expected,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
      ASSERT_EQ(Text(json, text), reinterpret_cast<char*>(expected)) << json;
      free(expected);
    }
  }
}

TEST(Normalizers, LowercaseStripAccentsAndStrip) {
  EXPECT_EQ(Text(kLowercase, "\u00c9A\u03a3\u0130\u1e9e"), "\u00e9a\u03c3i\u0307\u00df");
  EXPECT_EQ(Text(kStripAccents, "e\u0301\u0903x\u20dd"), "ex");
  EXPECT_EQ(Text(R"({"type": "Strip"})", " \t\u00a0a b\u3000\n"), "a b");
  EXPECT_EQ(Text(R"({"type": "Strip", "strip_left": false})", " a "), " a");
  EXPECT_EQ(Text(R"({"type": "Strip", "strip_right": false})", " a "), "a ");
  EXPECT_EQ(Text(R"({"type": "Strip"})", "  "), "");
}

TEST(Normalizers, ReplaceAndPrepend) {
  const char replace[] = R"({"type": "Replace", "pattern": {"String": "aa"}, "content": "xyz"})";
  EXPECT_EQ(Text(replace, "aaab"), "xyzab");
  EXPECT_EQ(Origins(replace, "baa"), "0-1 2-3 2-3 2-3");
  EXPECT_EQ(Text(R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})", "banana"), "bnn");
  EXPECT_EQ(Text(R"({"type": "Prepend", "prepend": "__"})", "ab"), "__ab");
  EXPECT_EQ(Origins(R"({"type": "Prepend", "prepend": "__"})", "ab"), "0-1 0-1 0-1 1-2");
  EXPECT_EQ(Text(R"({"type": "Prepend", "prepend": "__"})", ""), "");
}

TEST(Normalizers, SequenceActsInItsOrder) {
  EXPECT_EQ(
      Text(
          R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]})",
          "\u00c9t\u00c9"),
      "ete");
}

TEST(Normalizers, ReplaceByARegularExpression) {
  const char spaces[] = R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"})";
  EXPECT_EQ(Text(spaces, "a   b c  "), "a\u2581b c\u2581");
  EXPECT_EQ(Origins(spaces, "a   b"), "0-1 3-4 4-5");
}

TEST(Normalizers, BertCleansAndSetsChineseCharactersApart) {
  const char cased[] = R"({"type": "BertNormalizer", "lowercase": false})";
  EXPECT_EQ(Text(cased, "a\tB\u00a0\u200dc\ufffd\u00e9"), "a B c\u00e9");
  EXPECT_EQ(Text(cased, "x\u4e2dy"), "x \u4e2d y");
  EXPECT_EQ(Origins(cased, "\u4e2d"), "0-1 0-1 0-1");
  EXPECT_EQ(Text(R"({"type": "BertNormalizer"})", "\u00c9\u0903"), "e\u0903") << "only nonspacing marks go";
  EXPECT_EQ(Text(R"({"type": "BertNormalizer", "strip_accents": false})", "\u00c9"), "\u00e9");
  EXPECT_EQ(
      Text(R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false})", "\t\u4e2d"),
      "\t\u4e2d");
}

TEST(Normalizers, NmtMakesSpacesOfWhatCannotBeSeen) {
  EXPECT_EQ(Text(R"({"type": "Nmt"})", "a\u0001\tb\u200b\u2581\ufeffc\u007f\u0085"), "a b   c\u0085");
}

TEST(Normalizers, ByteLevelSpellsBytes) {
  EXPECT_EQ(Text(R"({"type": "ByteLevel"})", "a \u20ac"), "a\u0120\u00e2\u0124\u00ac");
  EXPECT_EQ(Origins(R"({"type": "ByteLevel"})", "a\u20ac"), "0-1 1-2 1-2 1-2");
}

TEST(Normalizers, RefuseToMakeLongTextsOfShortOnes) {
  const std::string thousand(1000, 'x');
  auto normalizer = NewNormalizer(
      ParseJson(Cat(R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")", thousand, "\"}"), "t")
          .value(),
      "t");
  Chars text = ToChars(std::string(100, 'a'));
  EXPECT_EQ((*normalizer)->Normalize(0, text).message(),
            "the tokenizer's normalizer makes 100100 characters of 100, above 10496");
}

TEST(Normalizers, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(Refusal(R"({"type": "Stripped"})"), "t: type \"Stripped\" is none that Heed reads");
  EXPECT_EQ(Refusal("{}"), "t: type \"\" is none that Heed reads");
  EXPECT_EQ(Refusal("7"), "t: 7 is not an object");
  EXPECT_EQ(Refusal(R"({"type": "NFC", "x": 1})"), "t: unknown key \"x\"");
  EXPECT_EQ(Refusal(R"({"type": "Replace", "pattern": {"Regex": "a("}, "content": ""})"),
            "t.pattern.Regex: \"a(\": missing closing parenthesis at character 2");
  EXPECT_EQ(Refusal(R"({"type": "Replace", "pattern": {"Glob": "*"}, "content": ""})"),
            "t.pattern: neither String nor Regex is given");
  EXPECT_EQ(Refusal(Cat(R"({"type": "Prepend", "prepend": ")", std::string(1025, 'x'), "\"}")),
            "t: prepend: 1025 bytes are above 1024");
  EXPECT_EQ(Refusal(R"({"type": "Sequence"})"), "t: normalizers is not a list");
  EXPECT_EQ(Refusal(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nfc"}]})"),
            "t.normalizers[1]: type \"Nfc\" is none that Heed reads");
  EXPECT_EQ(Refusal(R"({"type": "Sequence", "normalizers": [null]})"), "t.normalizers[0] is null");
}

}  // namespace
}  // namespace heed
