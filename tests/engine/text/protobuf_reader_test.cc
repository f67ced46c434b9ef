#include "engine/text/protobuf_reader.h"

#include "gtest/gtest.h"
#include "tests/engine/text/sentencepiece_bytes.h"

namespace heed {
namespace {

// The first error of reading all fields of a message.
std::string Problem(std::string_view bytes) {
  ProtobufReader fields(bytes, "m");
  while (fields.Next()) {
  }
  return std::string(fields.status().message());
}

TEST(ProtobufReader, GivesFieldsInTheirOrder) {
  const std::string bytes =
      NumberField(3, 300) + FloatField(2, -1.5f) + BytesField(1, "ab") + NumberField(4, 1);
  ProtobufReader fields(bytes, "m");
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.number(), 3u);
  EXPECT_EQ(fields.Int("n", 0, 1000), 300);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.Float("f"), -1.5f);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.Bytes("b"), "ab");
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Bool("t"));
  EXPECT_FALSE(fields.Next());
  EXPECT_TRUE(fields.status().ok()) << fields.status();
}

TEST(ProtobufReader, RefusesValuesOfAnotherTypeAndOutOfRange) {
  const std::string bytes = NumberField(1, 9);
  ProtobufReader range(bytes, "m");
  ASSERT_TRUE(range.Next());
  EXPECT_EQ(range.Int("type", 1, 6), 1);
  EXPECT_EQ(range.status().message(), "m: type: 9 is not from 1 to 6");
  EXPECT_FALSE(range.Next());
  ProtobufReader text(bytes, "m");
  ASSERT_TRUE(text.Next());
  EXPECT_EQ(text.Bytes("piece"), "");
  EXPECT_EQ(text.status().message(), "m: piece is not text or bytes");
  ProtobufReader score(bytes, "m");
  ASSERT_TRUE(score.Next());
  EXPECT_EQ(score.Float("score"), 0);
  EXPECT_EQ(score.status().message(), "m: score is not a number of four bytes");
}

TEST(ProtobufReader, RefusesBytesThatAreNoMessage) {
  EXPECT_EQ(Problem("\x08"), "m: ends within a number, at byte 1");
  EXPECT_EQ(Problem(std::string(1, '\x08') + std::string(10, '\x80')),
            "m: byte 11: a number of more than 10 bytes");
  EXPECT_EQ(Problem("\x0a\x05"
                    "ab"),
            "m: byte 2: a field of 5 bytes, but 2 are left");
  EXPECT_EQ(Problem("\x0d\x01"), "m: byte 1: a field of 4 bytes, but 1 are left");
  EXPECT_EQ(Problem("\x09"), "m: byte 1: a field of 8 bytes, but 0 are left");
  EXPECT_EQ(Problem("\x0b"), "m: byte 1: a field of type 3, which Heed does not read");
  EXPECT_EQ(Problem("\x02\x01"
                    "a"),
            "m: byte 1: 0 is no field's number, which are 1 to 536870911");
  EXPECT_EQ(Problem("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "m: byte 11: a field of 18446744073709551615 bytes, but 0 are left");
}

}  // namespace
}  // namespace heed
