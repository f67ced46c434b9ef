#include "engine/base/json.h"

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

std::string Refusal(std::string_view text, int max_depth = 32) {
  auto parsed = ParseJson(text, "config.json", max_depth);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

// The message that reading one field of {"a": VALUE} ends with.
template <typename Read>
std::string Complaint(std::string_view value, Read read) {
  const Json object = ParseJson(Cat("{\"a\": ", value, "}"), "config.json").value();
  JsonFields fields(object, "config.json");
  read(fields);
  return std::string(fields.Finish().message());
}

TEST(ParseJson, GivesTheValue) {
  const Json value = ParseJson(R"({"a": [1, -2, 2.5, "x", true, null, {"b": []}]})", "t").value();
  EXPECT_EQ(value.dump(), R"({"a":[1,-2,2.5,"x",true,null,{"b":[]}]})");
  EXPECT_EQ(ParseJson(" 7 ", "t").value(), Json(7));
}

TEST(WithoutPythonNumbers, ReplacesThemOutsideOfStrings) {
  EXPECT_EQ(WithoutPythonNumbers(R"({"a": [NaN, 1], "NaN \" Infinity": -Infinity})"),
            R"({"a": [null, 1], "NaN \" Infinity": -1.7976931348623157e308})");
  const Json limits = ParseJson(WithoutPythonNumbers("[0.0, Infinity]"), "t").value();
  EXPECT_GT(limits[1].get<double>(), 1e308);
  EXPECT_EQ(WithoutPythonNumbers(R"("open \)"), R"("open \)");
}

TEST(ParseJson, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_EQ(Refusal(R"({"a": 1, "a": 2})"), "config.json: key \"a\" appears twice");
  EXPECT_EQ(Refusal(R"({"x": [{"b": 1, "c": 2, "b": 1}]})"), "config.json: key \"b\" appears twice");
  EXPECT_EQ(Refusal(R"({"a": {"a": {"a": 1}}})"), "accepted");
}

TEST(ParseJson, RefusesDepthBeyondTheLimit) {
  EXPECT_EQ(Refusal("[[[1]]]", 3), "accepted");
  EXPECT_EQ(Refusal("[[[[1]]]]", 3), "config.json: nested deeper than 3 levels");
  EXPECT_EQ(Refusal(std::string(1'000'000, '[')), "config.json: nested deeper than 32 levels");
}

TEST(ParseJson, SaysWhereTextStopsBeingJson) {
  EXPECT_EQ(Refusal("{} x"),
            "config.json: not JSON: parse error at line 1, column 4: syntax error while parsing value - "
            "invalid literal");
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nan", "'a'", "{\"a\": 1}}", "01", "\"\\ud800\"",
                           "\x80", "{\"\xff\": 1}"}) {
    EXPECT_THAT(Refusal(text), HasSubstr("config.json: not JSON: ")) << text;
  }
  EXPECT_EQ(Refusal(std::string_view("{}\0x", 4)), "config.json: not JSON: a NUL byte");
  EXPECT_EQ(Refusal("1e999"), "config.json: not JSON: number overflow");
}

TEST(JsonFields, GivesWhatIsThereAndElseTheDefault) {
  const Json object =
      ParseJson(R"({"i": 5, "n": 0.5, "whole": 3, "b": true, "s": "x", "c": "two", "null": null})", "t")
          .value();
  JsonFields fields(object, "config.json");
  EXPECT_EQ(fields.Int("i", 1, 0, 9), 5);
  EXPECT_EQ(fields.RequiredInt("i", 0, 9), 5);
  EXPECT_EQ(fields.Number("n", 1, 0, 1), 0.5);
  EXPECT_EQ(fields.Number("whole", 1, 0, 9), 3);
  EXPECT_TRUE(fields.Bool("b", false));
  EXPECT_EQ(fields.String("s", ""), "x");
  EXPECT_EQ(fields.Choice("c", {"one", "two"}), "two");
  EXPECT_EQ(fields.Int("null", 7, 0, 9), 7);
  EXPECT_EQ(fields.Choice("absent", {"one", "two"}), "one");
  EXPECT_TRUE(fields.Raw("absent").is_null());
  EXPECT_TRUE(fields.Has("i"));
  EXPECT_FALSE(fields.Has("null"));
  EXPECT_FALSE(fields.Has("absent"));
  EXPECT_TRUE(fields.Finish().ok());
}

TEST(JsonFields, NamesTheKeyTheValueAndTheLimit) {
  auto window = [](JsonFields& f) { f.Int("a", 1, 1, 100); };
  EXPECT_EQ(Complaint("0", window), "config.json: a: 0 is below 1");
  EXPECT_EQ(Complaint("101", window), "config.json: a: 101 is above 100");
  EXPECT_EQ(Complaint("18446744073709551615", window), "config.json: a: 18446744073709551615 is above 100");
  EXPECT_EQ(Complaint("1.0", window), "config.json: a: 1.0 is not an integer");
  EXPECT_EQ(Complaint("99999999999999999999", window), "config.json: a: 1e+20 is not an integer");
  EXPECT_EQ(Complaint("\"7\"", window), "config.json: a: \"7\" is not an integer");
  EXPECT_EQ(Complaint("true", [](JsonFields& f) { f.Number("a", 0, 0, 1); }),
            "config.json: a: true is not a number");
  EXPECT_EQ(Complaint("1.5", [](JsonFields& f) { f.Number("a", 0, 0, 1); }),
            "config.json: a: 1.5 is above 1");
  EXPECT_EQ(Complaint("1", [](JsonFields& f) { f.Bool("a", true); }),
            "config.json: a: 1 is not true or false");
  EXPECT_EQ(Complaint("[]", [](JsonFields& f) { f.String("a", ""); }), "config.json: a: [] is not a string");
  EXPECT_EQ(Complaint("\"z\"", [](JsonFields& f) { f.Choice("a", {"x", "y"}); }),
            "config.json: a: \"z\" is none of \"x\", \"y\"");
  EXPECT_EQ(Complaint("1", [](JsonFields& f) { f.Ignore("a"), f.RequiredInt("b", 0, 1); }),
            "config.json: b is missing");
  EXPECT_EQ(Complaint("1", [](JsonFields& f) { f.Ignore("a"), f.Fail("too wide"); }),
            "config.json: too wide");
}

TEST(JsonFields, ReadsListsOfWholeNumbers) {
  const auto refusal = [](const std::string& list, int64_t least, int64_t most) {
    const Json object = ParseJson(R"({"n": )" + list + "}", "t").value();
    JsonFields fields(object, "config.json");
    fields.Ints("n", least, most, 1, 9);
    return std::string(fields.Finish().message());
  };
  const Json object = ParseJson(R"({"n": [3, 1, 9]})", "t").value();
  JsonFields fields(object, "config.json");
  EXPECT_THAT(fields.Ints("n", 1, 3, 1, 9), testing::ElementsAre(3, 1, 9));
  EXPECT_TRUE(fields.Ints("absent", 1, 3, 1, 9).empty());
  EXPECT_TRUE(fields.Finish().ok());
  EXPECT_THAT(refusal("[1, 2]", 3, 3), HasSubstr("n: [1,2] is no list of 3 whole numbers"));
  EXPECT_THAT(refusal("[1, 2]", 0, 1), HasSubstr("n: [1,2] is no list of at most 1 whole numbers"));
  EXPECT_THAT(refusal("7", 1, 3), HasSubstr("n: 7 is no list of 1 to 3 whole numbers"));
  EXPECT_THAT(refusal("[1, 10]", 1, 3), HasSubstr("n: 10 is no whole number from 1 to 9"));
  EXPECT_THAT(refusal("[1.5]", 1, 3), HasSubstr("n: 1.5 is no whole number"));
  EXPECT_THAT(refusal("[18446744073709551615]", 1, 3), HasSubstr("is no whole number"));
}

TEST(JsonFields, NamesTheWayToAnInnerObject) {
  const Json object = ParseJson(R"({"window": 0})", "t").value();
  JsonFields fields(object, "config.json: layers[3].attention");
  fields.Int("window", 1, 1, 8);
  EXPECT_EQ(fields.Name("rope"), "config.json: layers[3].attention.rope");
  EXPECT_EQ(JsonFields(object, "config.json").Name("rope"), "config.json: rope");
  EXPECT_EQ(fields.Finish().message(), "config.json: layers[3].attention.window: 0 is below 1");
}

TEST(JsonFields, TakesAnInnerObjectsErrorAsItIs) {
  const Json object = Json::object(), inner = Json::array();
  JsonFields fields(object, "config.json");
  fields.Fail(JsonFields(object, "config.json: input").Finish());
  fields.Fail(JsonFields(inner, "config.json: input").Finish());
  fields.Fail("too late");
  EXPECT_EQ(fields.Finish().message(), "config.json: input: [] is not an object");
}

TEST(JsonFields, RefusesWhatNobodyAskedFor) {
  EXPECT_EQ(Complaint("1", [](JsonFields&) {}), "config.json: unknown key \"a\"");
  EXPECT_EQ(Complaint("1", [](JsonFields& f) { f.Ignore("a"); }), "");
}

TEST(JsonFields, TellsTheFirstErrorOnly) {
  EXPECT_EQ(Complaint("0", [](JsonFields& f) { f.Int("a", 1, 1, 2), f.Bool("a", true); }),
            "config.json: a: 0 is below 1");
}

TEST(JsonFields, RefusesWhatIsNoObject) {
  const Json array = Json::array({1, 2});
  JsonFields fields(array, "config.json: layers[0]");
  EXPECT_EQ(fields.Int("a", 3, 0, 9), 3);
  EXPECT_EQ(fields.Finish().message(), "config.json: layers[0]: [1,2] is not an object");
}

TEST(JsonFields, ShowsLongValuesShort) {
  const std::string message =
      Complaint("\"" + std::string(1000, 'x') + "\"", [](JsonFields& f) { f.Bool("a", true); });
  EXPECT_LT(message.size(), 120u);
}

}  // namespace
}  // namespace heed
