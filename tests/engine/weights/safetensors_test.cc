#include "engine/weights/safetensors.h"

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/safetensors_writer.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

// The tensors of a whole file in memory, whose numbers they are.
absl::StatusOr<std::map<std::string, Tensor>> Parse(std::string_view file) {
  const int64_t size = std::ssize(file);
  ASSIGN_OR_RETURN(const int64_t head, HeadBytes(file.substr(0, kHeadStart), size, "m"));
  ASSIGN_OR_RETURN(const auto stored, ParseSafetensors(file.substr(0, head), size, "m"));
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : stored) {
    EXPECT_EQ(tensor.bytes, tensor.form.size() * SizeOf(tensor.form.dtype));
    tensors[name] = tensor.form;
    tensors[name].data = file.data() + tensor.begin;
  }
  return tensors;
}

std::string Refusal(std::string_view file) {
  auto tensors = Parse(file);
  return tensors.ok() ? "accepted" : std::string(tensors.status().message());
}

// Of a file whose header is this JSON, with `data_bytes` zeros behind it.
std::string Refusal(std::string_view header, int data_bytes) {
  return Refusal(SafetensorsOf(header, std::string(data_bytes, '\0')));
}

// Of a file with one tensor "a" of these fields.
std::string TensorRefusal(std::string_view dtype, std::string_view shape, std::string_view offsets,
                          int data_bytes) {
  return Refusal(Cat(R"({"a":{"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}}"),
                 data_bytes);
}

std::vector<TensorToWrite> ThreeTensors() {
  return {ToWrite<float>("weight", DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}),
          ToWrite<uint16_t>("half", DType::kBf16, {2}, {0x3f80, 0x4000}),
          ToWrite<int64_t>("ids", DType::kI64, {1}, {7})};
}

TEST(Safetensors, GivesTheTensorsOfAFile) {
  const std::string file = SafetensorsOf(ThreeTensors());
  auto tensors = Parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->at("weight").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(ToFloats(tensors->at("weight")), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ToFloats(tensors->at("half")), (std::vector<float>{1, 2}));
  EXPECT_EQ(tensors->at("ids").dtype, DType::kI64);
}

TEST(Safetensors, ReadsEveryDType) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16, DType::kI64, DType::kI32,
                      DType::kS8, DType::kU8, DType::kBool}) {
    const std::string file = SafetensorsOf({{"a", dtype, {3}, std::string(3 * SizeOf(dtype), '\0')}});
    auto tensors = Parse(file);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(tensors->at("a").dtype, dtype);
  }
}

TEST(Safetensors, AcceptsScalarsAndEmptyTensorsAndMetadata) {
  EXPECT_EQ(TensorRefusal("\"F32\"", "[]", "[0,4]", 4), "accepted");
  EXPECT_EQ(TensorRefusal("\"F32\"", "[0,5]", "[0,0]", 0), "accepted");
  EXPECT_EQ(Refusal("{}", 0), "accepted");
  EXPECT_EQ(Refusal(R"({"__metadata__":{"format":"pt"}}   )", 0), "accepted");
  EXPECT_EQ(
      Refusal(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
          2),
      "accepted");
}

TEST(Safetensors, RefusesFilesWithoutAHeader) {
  EXPECT_EQ(Refusal(""), "m: 0 bytes are no safetensors file");
  EXPECT_EQ(Refusal("1234567"), "m: 7 bytes are no safetensors file");
  EXPECT_EQ(Refusal(std::string(8, '\0')), "m: the header does not start with '{'");
  EXPECT_EQ(Refusal(std::string("\x05\0\0\0\0\0\0\0{}", 10)),
            "m: a header of 5 bytes in a file that has 2 after its length");
  EXPECT_EQ(Refusal(std::string("\0\0\0\x01\0\0\0\0{}", 10)),
            "m: a header of 16777216 bytes in a file that has 2 after its length");
  EXPECT_EQ(Refusal(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)),
            "m: a header of 100000001 bytes is above 16777216");
  EXPECT_EQ(Refusal(std::string(8, '\xff') + "{}"),
            "m: a header of 18446744073709551615 bytes is above 16777216");
}

TEST(Safetensors, RefusesHeadersThatAreNotExactlyOneJsonObject) {
  EXPECT_EQ(Refusal(" {}", 0), "m: the header does not start with '{'");
  EXPECT_EQ(Refusal("[]", 0), "m: the header does not start with '{'");
  EXPECT_EQ(Refusal("\xef\xbb\xbf{}", 0), "m: the header does not start with '{'");
  EXPECT_THAT(Refusal("{\"a\xff\":1}", 0), HasSubstr("m: not JSON: parse error at line 1, column 4"));
  EXPECT_THAT(Refusal("{]", 0), HasSubstr("m: not JSON: "));
  EXPECT_THAT(Refusal("{} {}", 0), HasSubstr("m: not JSON: "));
  EXPECT_THAT(Refusal(std::string("{}\0", 3), 0), HasSubstr("m: not JSON: "));
  EXPECT_EQ(Refusal(R"({"a":[[[[]]]]})", 0), "m: nested deeper than 4 levels");
}

TEST(Safetensors, RefusesDuplicateKeys) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]})";
  EXPECT_EQ(Refusal(Cat("{", entry, ",", entry, "}"), 1), "m: key \"a\" appears twice");
  EXPECT_EQ(Refusal(R"({"a":{"dtype":"U8","shape":[],"shape":[1],"data_offsets":[0,1]}})", 1),
            "m: key \"shape\" appears twice");
}

TEST(Safetensors, RefusesMetadataOtherThanStrings) {
  EXPECT_EQ(Refusal(R"({"__metadata__":{"a":1}})", 0), "m: __metadata__: \"a\" is not a string");
  EXPECT_EQ(Refusal(R"({"__metadata__":["a"]})", 0), "m: __metadata__ is not an object");
  EXPECT_EQ(Refusal(R"({"__metadata__":null})", 0), "m: __metadata__ is not an object");
}

TEST(Safetensors, RefusesTooManyTensors) {
  std::string header = "{";
  for (int i = 0; i <= 65'536; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", i,
                    R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  }
  EXPECT_EQ(Refusal(header + "}", 0), "m: more than 65536 tensors");
}

TEST(Safetensors, RefusesDTypesItDoesNotKnow) {
  EXPECT_EQ(TensorRefusal("\"F8_E4M3\"", "[1]", "[0,1]", 1),
            "m: tensor \"a\": dtype \"F8_E4M3\" is none that Heed reads");
  EXPECT_EQ(TensorRefusal("\"f32\"", "[1]", "[0,4]", 4),
            "m: tensor \"a\": dtype \"f32\" is none that Heed reads");
  EXPECT_EQ(TensorRefusal("null", "[1]", "[0,4]", 4), "m: tensor \"a\": dtype \"\" is none that Heed reads");
  EXPECT_EQ(TensorRefusal("32", "[1]", "[0,4]", 4), "m: tensor \"a\".dtype: 32 is not a string");
}

TEST(Safetensors, RefusesEntriesOfAnotherForm) {
  EXPECT_EQ(Refusal(R"({"a":1})", 0), "m: tensor \"a\": 1 is not an object");
  EXPECT_EQ(Refusal(R"({"a":{"dtype":"U8","shape":[0]}})", 0),
            "m: tensor \"a\": data_offsets is not a list of 2 to 2 numbers");
  EXPECT_EQ(Refusal(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", 0),
            "m: tensor \"a\": shape is not a list of 0 to 8 numbers");
  EXPECT_EQ(Refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"strides":[1]}})", 0),
            "m: tensor \"a\": unknown key \"strides\"");
  EXPECT_EQ(TensorRefusal("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]", 1),
            "m: tensor \"a\": shape is not a list of 0 to 8 numbers");
  EXPECT_EQ(TensorRefusal("\"U8\"", "3", "[0,3]", 3),
            "m: tensor \"a\": shape is not a list of 0 to 8 numbers");
  EXPECT_EQ(TensorRefusal("\"U8\"", "[1]", "[0,1,2]", 1),
            "m: tensor \"a\": data_offsets is not a list of 2 to 2 numbers");
}

TEST(Safetensors, RefusesNumbersThatAreNotPlainAndWhole) {
  for (const char* number : {"-1", "-0", "1.0", "1e3", "\"1\"", "null", "true", "[1]", "9007199254740993",
                             "18446744073709551615", "99999999999999999999"}) {
    EXPECT_THAT(TensorRefusal("\"U8\"", Cat("[", number, "]"), "[0,1]", 1),
                HasSubstr("not a whole number from 0 to 2^53"));
    EXPECT_THAT(TensorRefusal("\"U8\"", "[1]", Cat("[0,", number, "]"), 1),
                HasSubstr("not a whole number from 0 to 2^53"));
  }
}

TEST(Safetensors, RefusesShapesWhoseBytesOverflow) {
  EXPECT_EQ(TensorRefusal("\"U8\"", "[4294967296,4294967296]", "[0,0]", 0),
            "m: tensor \"a\": U8 [4294967296, 4294967296] has more bytes than 63 bits count");
  EXPECT_THAT(TensorRefusal("\"F64\"", "[1073741824,1073741824]", "[0,0]", 0),
              HasSubstr("more bytes than 63 bits count"));
  EXPECT_THAT(TensorRefusal("\"U8\"", "[0,9007199254740992,9007199254740992]", "[0,0]", 0),
              HasSubstr("63 bits"));
}

TEST(Safetensors, RefusesOffsetsThatDisagreeWithShapeOrFile) {
  EXPECT_EQ(TensorRefusal("\"F32\"", "[2]", "[8,0]", 8), "m: tensor \"a\": data_offsets: 8 is beyond 0");
  EXPECT_EQ(TensorRefusal("\"F32\"", "[2]", "[0,4]", 8), "m: tensor \"a\": F32 [2] needs 8 bytes, not 4");
  EXPECT_EQ(TensorRefusal("\"F32\"", "[0]", "[0,4]", 4), "m: tensor \"a\": F32 [0] needs 0 bytes, not 4");
  EXPECT_EQ(TensorRefusal("\"F32\"", "[2]", "[0,8]", 7),
            "m: tensor \"a\": ends at byte 8 of data that has 7");
  EXPECT_EQ(TensorRefusal("\"F32\"", "[2]", "[0,8]", 9), "m: the data has 9 bytes, its tensors end at 8");
  EXPECT_EQ(Refusal("{}", 1), "m: the data has 1 bytes, its tensors end at 0");
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  auto two = [](std::string_view a, std::string_view b, int bytes) {
    return Refusal(Cat(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)", a,
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)", b, "}}"),
                   bytes);
  };
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "accepted");
  EXPECT_EQ(two("[0,4]", "[2,6]", 6),
            "m: tensor \"b\" begins at byte 2 of the data, the one before it ends at 4");
  EXPECT_EQ(two("[0,4]", "[0,4]", 4),
            "m: tensor \"b\" begins at byte 0 of the data, the one before it ends at 4");
  EXPECT_EQ(two("[0,4]", "[5,9]", 9),
            "m: tensor \"b\" begins at byte 5 of the data, the one before it ends at 4");
  EXPECT_EQ(two("[1,5]", "[5,9]", 9),
            "m: tensor \"a\" begins at byte 1 of the data, the one before it ends at 0");
}

// What is accepted must be readable to its last byte (under ASan: and not one further). Whether it was.
bool ExpectSafe(const std::string& file) {
  const std::vector<char> exact(file.begin(), file.end());
  auto tensors = Parse({exact.data(), exact.size()});
  if (!tensors.ok()) return false;
  for (const auto& [name, tensor] : *tensors) {
    if (tensor.dtype <= DType::kF16) ToFloats(tensor);
    const int64_t bytes = tensor.size() * SizeOf(tensor.dtype);
    const char* begin = static_cast<const char*>(tensor.data);
    EXPECT_TRUE(begin >= exact.data() && begin + bytes <= exact.data() + exact.size()) << name;
  }
  return true;
}

TEST(Safetensors, SurvivesEveryTruncationAndExtension) {
  const std::string file = SafetensorsOf(ThreeTensors());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(Refusal(std::string_view(file).substr(0, size)), "accepted") << size;
  }
  EXPECT_NE(Refusal(file + '\0'), "accepted");
}

TEST(Safetensors, SurvivesRandomDamage) {
  const std::string whole = SafetensorsOf(ThreeTensors());
  const std::string_view interesting = "0123456789-.eE[]{}\",:FUIB \xff";
  std::mt19937 random(1);
  auto below = [&](size_t n) { return random() % n; };
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = whole;
    for (size_t damage = 0, n = 1 + below(4); damage < n; ++damage) {
      const size_t at = below(file.size());
      switch (below(4)) {
        case 0:
          file[at] ^= 1 << below(8);
          break;
        case 1:
          file[at] = interesting[below(interesting.size())];
          break;
        case 2:
          file.erase(at, 1 + below(4));
          break;
        case 3:
          file.insert(at, 1, interesting[below(interesting.size())]);
          break;
      }
      if (file.empty()) file = whole;
    }
    // Half of the damaged files get a header length that is right again, so that the JSON is reached.
    if (round % 2 == 0 && file.size() > whole.size() - 40) {
      const uint64_t length = file.size() - 8 - std::min<size_t>(36, file.size() - 8);
      file.replace(0, 8, reinterpret_cast<const char*>(&length), 8);
    }
    accepted += ExpectSafe(file);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 10'000);
}

}  // namespace
}  // namespace heed
