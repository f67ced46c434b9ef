#include "client/cli/arguments.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A command with a flag of each kind.
struct Example {
  bool json = false;
  int32_t top = 5, longest = 1;
  double temperature = 1;
  uint64_t seed = 0;
  std::optional<double> top_p;
  std::string model;
  absl::Duration timeout = absl::Seconds(60);
  std::vector<std::string> stop, texts;
  std::string out, err;

  std::optional<int> Parse(std::vector<std::string> words, size_t max_texts = 100) {
    Arguments arguments("try", "[flags] TEXT...", "Tries.", std::move(words));
    arguments.Flag("json", &json, "as JSON");
    arguments.Flag("top", &top, "how many", {1, 100});
    arguments.Flag("longest", &longest, "how long", {1, 1 << 30});
    arguments.Flag("temperature", &temperature, "how hot", {0, 2});
    arguments.Flag("seed", &seed, "of the draw");
    arguments.Flag("top_p", &top_p, "how much", {0, 1});
    arguments.Flag("model", &model, "which one");
    arguments.Flag("timeout", &timeout, "how long", {.min = 0.001});
    arguments.Flag("stop", &stop, "where it ends");
    std::istringstream in;
    std::ostringstream out_stream, err_stream;
    Terminal terminal{in, out_stream, err_stream};
    std::optional<int> ended = arguments.Parse(terminal, max_texts);
    texts = arguments.texts();
    out = out_stream.str();
    err = err_stream.str();
    return ended;
  }
};

TEST(Arguments, FlagsAndTextsMix) {
  Example e;
  ASSERT_FALSE(e.Parse(
      {"one", "--top=7", "two", "--model", "polarity", "--json", "three", "--stop=a,b", "--stop", "\n"}));
  EXPECT_EQ(e.top, 7);
  EXPECT_EQ(e.model, "polarity");
  EXPECT_TRUE(e.json);
  EXPECT_THAT(e.stop, ElementsAre("a,b", "\n"));
  EXPECT_THAT(e.texts, ElementsAre("one", "two", "three"));
}

TEST(Arguments, WhatIsNotGivenKeepsItsDefault) {
  Example e;
  ASSERT_FALSE(e.Parse({}));
  EXPECT_EQ(e.top, 5);
  EXPECT_EQ(e.top_p, std::nullopt);
  EXPECT_EQ(e.timeout, absl::Seconds(60));
  EXPECT_TRUE(e.texts.empty());
}

TEST(Arguments, ValuesAreReadAsAbseilReadsThem) {
  Example e;
  ASSERT_FALSE(e.Parse({"--timeout=1.5s", "--top-p=0.9", "--temperature", "2", "--seed=18446744073709551615",
                        "--json=false"}));
  EXPECT_EQ(e.timeout, absl::Milliseconds(1500));
  EXPECT_EQ(e.top_p, 0.9);
  EXPECT_EQ(e.temperature, 2);
  EXPECT_EQ(e.seed, ~uint64_t{0});
  EXPECT_FALSE(e.json);
}

TEST(Arguments, TwoDashesEndTheFlagsAndOneIsAText) {
  Example e;
  ASSERT_FALSE(e.Parse({"--json", "-", "--nojson", "--", "--top=8", "--"}));
  EXPECT_FALSE(e.json);
  EXPECT_THAT(e.texts, ElementsAre("-", "--top=8", "--"));
}

TEST(Arguments, AValueMayBeginWithOneDash) {
  Example e;
  EXPECT_EQ(e.Parse({"--temperature", "-1"}), kUsage);
  EXPECT_THAT(e.err, HasSubstr("--temperature=-1: must be a number of 0 to 2"));
}

TEST(Arguments, AWrongWordIsNamedWithItsLimit) {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } kCases[] = {
      {{"--top=0"}, "--top=0: must be a whole number of 1 to 100"},
      {{"--top=101"}, "--top=101: must be a whole number of 1 to 100"},
      {{"--top=many"}, "--top=many: must be a whole number of 1 to 100"},
      {{"--top=99999999999"}, "--top=99999999999: must be a whole number of 1 to 100"},
      {{"--top=1.5"}, "--top=1.5: must be a whole number of 1 to 100"},
      {{"--temperature=nan"}, "--temperature=nan: must be a number of 0 to 2"},
      {{"--temperature=inf"}, "--temperature=inf: must be a number of 0 to 2"},
      {{"--top_p="}, "--top_p=: must be a number of 0 to 1"},
      {{"--longest=0"}, "--longest=0: must be a whole number of 1 to 1073741824\n"},
      {{"--seed=-1"}, "--seed=-1: must be a whole number\n"},
      {{"--timeout=60"}, "--timeout=60: must be a duration such as 1.5s of at least 0.001"},
      {{"--timeout=0"}, "--timeout=0: must be a duration such as 1.5s of at least 0.001"},
      {{"--json=perhaps"}, "--json=perhaps: must be true or false"},
      {{"--model"}, "--model needs a value: --model=..."},
      {{"--model", "--json"}, "--model needs a value"},
      {{"--temprature=1"}, "there is no flag --temprature; did you mean --temperature?"},
      {{"--tpo=1"}, "there is no flag --tpo; did you mean --top?"},
      {{"-json"}, "there is no flag -json; did you mean --json?"},
      {{"--nomodel"}, "there is no flag --nomodel; did you mean --model?"},
      {{"-5 degrees"}, "there is no flag -5 degrees (a text that begins with '-' goes after --)"},
      {{"--=3"}, "there is no flag --"},
      {{"-=3"}, "there is no flag -"},
      {{"---"}, "there is no flag ---"},
  };
  for (const auto& [words, message] : kCases) {
    Example e;
    EXPECT_EQ(e.Parse(words), kUsage) << words[0];
    EXPECT_THAT(e.err, HasSubstr(message));
    EXPECT_THAT(e.err, HasSubstr("`heed help try` lists its flags"));
    EXPECT_EQ(e.out, "");
  }
}

TEST(Arguments, OneTextTooManyIsNamed) {
  Example e;
  EXPECT_EQ(e.Parse({"a", "b"}, 1), kUsage);
  EXPECT_THAT(e.err, HasSubstr("'b' is one word too many: usage: heed try [flags] TEXT..."));
}

TEST(Arguments, HelpListsEveryFlagWithItsDefault) {
  Example e;
  EXPECT_EQ(e.Parse({"--help"}), kDone);
  EXPECT_THAT(e.out, HasSubstr("heed try [flags] TEXT...\n\nTries.\n"));
  for (const char* flag : {"--json", "--top ", "--top_p", "--model", "--timeout", "--stop", "--help"}) {
    EXPECT_THAT(e.out, HasSubstr(flag));
  }
  EXPECT_THAT(e.out, HasSubstr("how many (default 5)"));
  EXPECT_THAT(e.out, HasSubstr("how long (default 1m)"));
  EXPECT_EQ(e.err, "");
}

TEST(Nearest, IsNearOrNothing) {
  EXPECT_EQ(Nearest("clasify", {"classify", "describe"}), "classify");
  EXPECT_EQ(Nearest("modles", {"classify", "models"}), "models");
  EXPECT_EQ(Nearest("xyz", {"classify", "models"}), "");
  EXPECT_EQ(Nearest("tpo", {"top", "as"}), "top");
  EXPECT_EQ(Nearest("", {"classify", "as"}), "");
}

}  // namespace
}  // namespace heed::cli
