#include "engine/text/charsmap.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

void AppendLittleEndian(uint32_t number, std::string& bytes) {
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(number >> 8 * i));
}

std::string Base64(std::string_view bytes) { return absl::Base64Escape({bytes.data(), bytes.size()}); }

// A table as SentencePiece writes it.
std::string Table(const std::vector<uint32_t>& units, std::string_view texts) {
  std::string bytes;
  AppendLittleEndian(4 * units.size(), bytes);
  for (const uint32_t unit : units) AppendLittleEndian(unit, bytes);
  return bytes.append(texts);
}

// A double array of entries of one byte: the root's children lie from 256 on, the values from 512 on.
std::vector<uint32_t> OfBytes(const std::vector<std::pair<uint8_t, uint32_t>>& entries) {
  std::vector<uint32_t> units(1024);
  units[0] = 256 << 10;
  for (const auto& [byte, value] : entries) {
    units[256 ^ byte] = 512 << 10 | 1 << 8 | byte;
    units[256 ^ byte ^ 512] = value | uint32_t{1} << 31;
  }
  return units;
}

Charsmap Read(std::string_view table) { return Charsmap::Read(Base64(table), "t").value(); }

std::string Refusal(std::string_view base64) {
  return std::string(Charsmap::Read(base64, "t").status().message());
}

// "a:0-1 b:1-2": characters and their origins.
std::string Normalized(const Charsmap& map, std::string_view text) {
  Chars chars = ToChars(text);
  map.Normalize(0, chars);
  return absl::StrJoin(chars, " ", [](std::string* out, const Char& c) {
    *out += Cat(ToUtf8({&c, 1}), ":", c.begin, "-", c.end);
  });
}

// A becomes x, B yz, C nothing.
Charsmap Letters() {
  return Read(Table(OfBytes({{'A', 0}, {'B', 2}, {'C', 5}}), std::string_view("x\0yz\0\0", 6)));
}

// The root's child a has a value, and a child b of its own, which has one too: "a" becomes x, "ab" yz.
Charsmap AAndAb() {
  std::vector<uint32_t> units(1024);
  units[0] = 256 << 10;
  units[256 ^ 'a'] = 512 << 10 | 1 << 8 | 'a';
  const uint32_t after_a = 256 ^ 'a' ^ 512;
  units[after_a] = uint32_t{1} << 31;
  units[after_a ^ 'b'] = 128 << 10 | 1 << 8 | 'b';
  units[after_a ^ 'b' ^ 128] = 2 | uint32_t{1} << 31;
  return Read(Table(units, std::string_view("x\0yz\0", 5)));
}

TEST(Charsmap, MayTakeTheLongestEntry) {
  Chars chars = ToChars("abac");
  AAndAb().NormalizeLongest(0, chars);
  EXPECT_EQ(ToUtf8(chars), "yzxc");
  EXPECT_EQ(chars[2].begin, 2);
  AAndAb().Normalize(0, chars = ToChars("ab"));
  EXPECT_EQ(ToUtf8(chars), "xb") << "the package looks at single characters";
  Chars none;
  AAndAb().NormalizeLongest(0, none);
  EXPECT_TRUE(none.empty());
}

TEST(Charsmap, ReplacesCharacters) {
  EXPECT_EQ(Normalized(Letters(), "aAb"), "a:0-1 x:1-2 b:2-3");
  EXPECT_EQ(Normalized(Letters(), ""), "");
  EXPECT_EQ(Normalized(Charsmap::Read("", "t").value(), "aA"), "a:0-1 A:1-2");
}

TEST(Charsmap, WhatIsAddedOrGoesHasTheOriginOfWhatWasBefore) {
  EXPECT_EQ(Normalized(Letters(), "aBc"), "a:0-1 y:1-2 z:1-2 c:2-3");
  EXPECT_EQ(Normalized(Letters(), "aCCc"), "a:0-1 c:3-4");
  EXPECT_EQ(Normalized(Letters(), "BCc"), "y:0-1 z:1-2 c:2-3");
  EXPECT_EQ(Normalized(Letters(), "Cc"), "c:0-1") << "as the package counts: nothing was before";
}

TEST(Charsmap, AShortClusterIsReplacedByTheShortestEntryItBeginsWith) {
  EXPECT_EQ(Normalized(Letters(), "A\u0301b"), "x:0-1 b:2-3") << "all of it";
  EXPECT_EQ(Normalized(Letters(), "A\u0301\u0301\u0301b"), "x:0-1 \u0301:1-2 \u0301:2-3 \u0301:3-4 b:4-5")
      << "seven bytes are not short";
}

TEST(Charsmap, RefusesWhatIsNoTable) {
  EXPECT_EQ(Refusal("???"), "t is not Base64");
  EXPECT_EQ(Refusal(Base64("abc")), "t: 3 bytes are below 4");
  EXPECT_EQ(Refusal(Base64(std::string_view("\7\0\0\0abcdefg", 11))),
            "t: a double array of 7 bytes, which must be a multiple of 4 and at most 7");
  EXPECT_EQ(Refusal(Base64(std::string_view("\10\0\0\0abcd", 8))),
            "t: a double array of 8 bytes, which must be a multiple of 4 and at most 4");
  EXPECT_EQ(Refusal(Base64(Table({}, "\xff"))), "t: its texts are not valid UTF-8");
  EXPECT_EQ(Refusal(Base64(Table({}, std::string(257, 'x')))), "t: a replacement of 257 bytes is above 256");
}

// Values and places that lie outside stand for nothing.
TEST(Charsmap, NeverLooksOutsideItself) {
  EXPECT_EQ(Normalized(Read(Table(OfBytes({{'A', 100}}), "x")), "A"), "A:0-1");
  EXPECT_EQ(Normalized(Read(Table(OfBytes({{'A', 1}}), "\u00e9")), "A"), "A:0-1") << "within a character";
  EXPECT_EQ(Normalized(Read(Table({0xfffffe00}, "x")), "A"), "A:0-1");
  std::vector<uint32_t> units = OfBytes({{'A', 0}});
  units[256 ^ 'A'] = 0x3fffff << 10 | 1 << 8 | 'A';
  EXPECT_EQ(Normalized(Read(Table(units, "x")), "A"), "A:0-1");
}

}  // namespace
}  // namespace heed
