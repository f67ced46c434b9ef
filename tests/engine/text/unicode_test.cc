#include "engine/text/unicode.h"

#include "engine/text/tokenizer.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

TEST(Unicode, KnowsValidUtf8) {
  for (std::string_view text : {"", "a", "\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff",
                                "\U00010000", "\U0010ffff"}) {
    EXPECT_TRUE(ValidUtf8(text)) << text;
  }
  for (std::string_view text :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "a\xe2\x82z", "\xf0\x9f\x98"}) {
    EXPECT_FALSE(ValidUtf8(text));
  }
}

TEST(Unicode, TakesAndAppendsEveryCharacter) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c == 0xd800) c = 0xe000;
    std::string text;
    AppendUtf8(c, text);
    ASSERT_TRUE(ValidUtf8(text)) << uint32_t{c};
    ASSERT_EQ(CodePoints(text), 1);
    std::string_view rest = text;
    ASSERT_EQ(uint32_t{TakeCharacter(rest)}, uint32_t{c});
    ASSERT_TRUE(rest.empty());
  }
}

TEST(Unicode, ReplacesEveryPartThatIsNoCharacter) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xe2\x82\xac z"), "a\u20ac z");
  EXPECT_EQ(ReplaceInvalidUtf8("a\xe2\x82z"), "a\ufffdz");
  EXPECT_EQ(ReplaceInvalidUtf8("\x80\x80"), "\ufffd\ufffd");
  EXPECT_EQ(ReplaceInvalidUtf8("\xf0\x9f\x98"), "\ufffd");
  EXPECT_EQ(ReplaceInvalidUtf8("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(ReplaceInvalidUtf8("\xc0\xaf\xff"), "\ufffd\ufffd\ufffd");
}

TEST(Unicode, ClassesAreThoseOfRegularExpressions) {
  for (char32_t c : U"aZ09_\u00e9\u0301\u0660\u203f\u200d\u24b6\U0001f130\u4e00\u2160\u0e31")
    EXPECT_TRUE(c == 0 || IsWord(c)) << uint32_t{c};
  for (char32_t c : U" -.\u00b2\u00bd\u20ac\u00a0\u2028\U0001f600\ufeff")
    EXPECT_FALSE(c != 0 && IsWord(c)) << uint32_t{c};
  for (char32_t c : U" \t\n\v\f\r\u0085\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000")
    EXPECT_TRUE(c == 0 || IsSpace(c)) << uint32_t{c};
  for (char32_t c : U"a\u200b\u180e\ufeff\u001c") EXPECT_FALSE(c != 0 && IsSpace(c)) << uint32_t{c};
  for (char32_t c : U"!$+<=>^`|~_\u00bf\u2014\u3002\u00ab")
    EXPECT_TRUE(c == 0 || IsPunctuation(c)) << uint32_t{c};
  for (char32_t c : U"a1 \u20ac\u00d7") EXPECT_FALSE(c != 0 && IsPunctuation(c)) << uint32_t{c};
  for (char32_t c : U"7\u0663\u2167\u00bd\u00b2") EXPECT_TRUE(c == 0 || IsNumeric(c)) << uint32_t{c};
  for (char32_t c : U"\u0301\u0903\u20dd") EXPECT_TRUE(c == 0 || IsMark(c)) << uint32_t{c};
  EXPECT_FALSE(IsWord(0) || IsSpace(0) || IsPunctuation(0) || IsNumeric('a') || IsMark('a'));
}

}  // namespace
}  // namespace heed
