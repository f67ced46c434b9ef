#include "engine/text/regex.h"

#include "engine/base/status.h"
#include "engine/text/regex_syntax.h"
#include "engine/text/unicode.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

// "[one][two]": what a pattern finds in a text.
std::string Found(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  if (!regex.ok()) return std::string(regex.status().message());
  const Chars chars = ToChars(text);
  const auto matches = regex->FindAll(chars);
  if (!matches.ok()) return std::string(matches.status().message());
  std::string found;
  for (const Regex::Match& match : *matches)
    found += "[" + ToUtf8(CharSpan(chars).subspan(match.begin, match.end - match.begin)) + "]";
  return found;
}

std::string Translated(std::u32string_view pattern) {
  std::string text;
  for (const char32_t c : FromOniguruma(pattern).text) AppendUtf8(c, text);
  return text;
}

TEST(Regex, FindsOneMatchAfterAnother) {
  EXPECT_EQ(Found("a+|b", "aabca"), "[aa][b][a]");
  EXPECT_EQ(Found("\\p{L}+", "\u00e9t\u00e9 \u4e2d1"), "[\u00e9t\u00e9][\u4e2d]");
  EXPECT_EQ(Found("z", "abc"), "");
  EXPECT_EQ(Found("a", ""), "");
}

TEST(Regex, AnEmptyMatchDoesNotFollowAMatchAtOnce) {
  EXPECT_EQ(Found("a*", "baac"), "[][aa][]");
  EXPECT_EQ(Found("", "ab"), "[][][]");
}

TEST(Regex, SpacesWordsAndLinesAreOnigurumas) {
  EXPECT_EQ(Found("\\s", "a\u0085b\u00a0c\u180ed\ve"), "[\u0085][\u00a0][\v]");
  EXPECT_EQ(Found("[^\\S ]", "a \tb"), "[\t]");
  EXPECT_EQ(Found("\\w+", "a_1\u00e9\u0301\u00b2-\u0e33"), "[a_1\u00e9\u0301][\u0e33]");
  EXPECT_EQ(Found("[\\W]", "a-\u00b2"), "[-][\u00b2]");
  EXPECT_EQ(Found("^.", "ab\ncd\re"), "[a][c]") << "lines begin after a line feed";
  EXPECT_EQ(Found(".+", "a\nb"), "[a][b]");
  EXPECT_EQ(Found("\\h+", "x1aF g"), "[1aF]") << "hexadecimal digits, no spaces";
  EXPECT_EQ(Found("\\v", "a\n\v"), "[\v]") << "one character, no class";
  EXPECT_EQ(Found("\\u00e9", "e\u00e9"), "[\u00e9]");
}

TEST(Regex, RepetitionsAreOnigurumas) {
  EXPECT_EQ(Found("\\d{1,3}", "12345"), "[123][45]");
  EXPECT_EQ(Found("\\d{1,3}+", "12345"), "[12345]") << "repeats what repeats, and is not possessive";
  EXPECT_EQ(Found("(?:ab){2}?c", "ababcc"), "[ababc][c]") << "or not at all";
  EXPECT_EQ(Found("a++a", "aaa"), "");
  EXPECT_EQ(Found("a{,2}", "aaa"), "[aa][a]");
  EXPECT_EQ(Found("a{b", "a{b"), "[a{b]");
}

TEST(Regex, ClassesMayHoldClasses) {
  EXPECT_EQ(Found("[^(\\s|[.,!?])]+", "ab (c|d), e!"), "[ab][c][d][e]");
  EXPECT_EQ(Found("[a-z&&[^aeiou]]+", "hello"), "[h][ll]");
  EXPECT_EQ(Found("[a[^b-z]]", "ab1"), "[a][1]");
  EXPECT_EQ(Found("[]a]+", "a]b"), "[a]]");
  EXPECT_EQ(Found("[[:digit:]x]+", "1x2y"), "[1x2]");
  EXPECT_EQ(Found("[a||b~~]+", "a|~b"), "[a|~b]");
  EXPECT_EQ(Found("[+--]+", "+,-."), "[+,-]");
}

TEST(Regex, PropertiesMayHaveLongNames) {
  EXPECT_EQ(Found("\\p{Uppercase_Letter}+", "aBC"), "[BC]");
  EXPECT_EQ(Found("\\p{^Letter}+", "a12b"), "[12]");
  EXPECT_EQ(Found("[\\P{Decimal Number}]+", "a12b"), "[a][b]");
  EXPECT_EQ(Found("\\p{Han}+|\\p{Alnum}+", "\u4e2d\u6587ab1"), "[\u4e2d\u6587][ab1]");
  EXPECT_EQ(Found("\\p{Punct}", "a!b"), "[!]");
}

TEST(Regex, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(Found("a(", ""), "missing closing parenthesis at character 2");
  EXPECT_EQ(Found("[a", ""), "missing terminating ] for character class at character 2");
  EXPECT_EQ(Found("\\p{Klingon}", ""), "unknown property after \\P or \\p at character 11");
  EXPECT_EQ(Found(std::string(17'000, 'a'), ""), "17000 bytes are above 16384");
  EXPECT_NE(Found(std::string(16'000, '['), ""), "");
  EXPECT_NE(Found(std::string(16'000, '('), ""), "");
}

TEST(Regex, GivesUpWhereATextTakesTooManySteps) {
  const std::string found = Found("(a+)+$|(?:(?:a|b|ab)*c)", std::string(60, 'a') + "b");
  EXPECT_TRUE(found.starts_with("a regular expression of the tokenizer fails at character 0 of the text: "))
      << found;
}

TEST(Regex, ReadsAMegabyte) {
  const auto regex = Regex::Compile(
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
      "|\\s+(?!\\S)|\\s+");
  for (const char* unit : {"a", " ", "\n ", "'", "1", " a", "\u00e9", "!\n", "\u0301"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const auto matches = regex->FindAll(ToChars(text));
    ASSERT_TRUE(matches.ok()) << unit << matches.status();
    EXPECT_GT(matches->size(), 0u);
  }
}

TEST(RegexSyntax, LeavesWhatIsTheSame) {
  for (const std::u32string_view pattern : {U"(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}", U"(?<!a)b\\b",
                                            U"[\\[\\]a-z]", U"a{2}b{3,}", U"\\", U"("})
    EXPECT_EQ(FromOniguruma(pattern).text, pattern);
}

TEST(RegexSyntax, SaysOtherwiseWhatDiffers) {
  EXPECT_EQ(Translated(U"\\s+(?!\\S)"), "\\p{White_Space}+(?!\\P{White_Space})");
  EXPECT_EQ(Translated(U"x(a|[bc])\\d{1,3}+"), "x(a|[bc])(?:\\d{1,3})+");
  EXPECT_EQ(Translated(U"x(a|b){2}+"), "x(?:(a|b){2})+");
  EXPECT_EQ(Translated(U"[a[bc]\\h]"), "[abc0-9a-fA-F]");
  EXPECT_FALSE(FromOniguruma(U"[a[bc]]").extended_classes);
  EXPECT_TRUE(FromOniguruma(U"[a[^bc]]").extended_classes);
  EXPECT_TRUE(FromOniguruma(U"[\\W]").extended_classes);
}

}  // namespace
}  // namespace heed
