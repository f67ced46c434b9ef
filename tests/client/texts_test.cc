#include "client/cli/texts.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "heed_texts_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// All texts, as "WHERE=TEXT"; or the error.
absl::StatusOr<std::vector<std::string>> Read(const std::vector<std::string>& arguments,
                                              const std::vector<std::string>& files, Unit unit = Unit::kLine,
                                              const std::string& standard_input = "") {
  std::istringstream in(standard_input);
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  Texts texts(arguments, files, unit, terminal);
  ASSIGN_OR_RETURN(const std::vector<Text> read, texts.Next(1000));
  std::vector<std::string> named;
  for (const Text& text : read) named.push_back(text.where + "=" + text.text);
  return named;
}

TEST(Texts, AreArgumentsThenFilesThenNothing) {
  const std::string path = WriteFile("two", "first\n\nthird");
  EXPECT_THAT(*Read({"a\nb", ""}, {path}), ElementsAre("argument 1=a\nb", "argument 2=", path + ":1=first",
                                                       path + ":2=", path + ":3=third"));
}

TEST(Texts, AreStandardInputWhereNoneIsNamed) {
  EXPECT_THAT(*Read({}, {}, Unit::kLine, "x\ny\n"), ElementsAre("standard input:1=x", "standard input:2=y"));
  EXPECT_THAT(*Read({"-", "z"}, {}, Unit::kLine, "x\n"), ElementsAre("standard input:1=x", "argument 2=z"));
  EXPECT_THAT(*Read({}, {"-"}, Unit::kLine, "x\n"), ElementsAre("standard input:1=x"));
  EXPECT_THAT(*Read({}, {}, Unit::kLine, ""), IsEmpty());
}

TEST(Texts, ALineEndsAsOnUnixOrWindows) {
  const std::string path = WriteFile("windows", "one\r\ntwo\r\n");
  EXPECT_THAT(*Read({}, {path}), ElementsAre(path + ":1=one", path + ":2=two"));
}

TEST(Texts, AFileMayBeOneText) {
  const std::string path = WriteFile("whole", "one\ntwo\n");
  EXPECT_THAT(*Read({}, {path, path}, Unit::kFile), ElementsAre(path + "=one\ntwo", path + "=one\ntwo"));
  EXPECT_THAT(*Read({}, {}, Unit::kFile, "Once"), ElementsAre("standard input=Once"));
}

TEST(Texts, ComeInPortionsAndOneByOneToWhoTypes) {
  std::istringstream in("a\nb\nc\n");
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  Texts piped({}, {}, Unit::kLine, terminal);
  EXPECT_THAT(*piped.Next(2), SizeIs(2));
  EXPECT_THAT(*piped.Next(2), SizeIs(1));
  EXPECT_THAT(*piped.Next(2), IsEmpty());
  in = std::istringstream("a\nb\n");
  terminal.in_is_screen = true;
  Texts typed({}, {}, Unit::kLine, terminal);
  EXPECT_THAT(*typed.Next(64), SizeIs(1));
  EXPECT_THAT(*typed.Next(64), SizeIs(1));
  EXPECT_THAT(*typed.Next(64), IsEmpty());
  EXPECT_THAT(err.str(), HasSubstr("Ctrl-D ends it"));
}

TEST(Texts, BytesThatAreNoTextAreNamedWithTheirLine) {
  const std::string path = WriteFile("latin1", "fine\ncaf\xe9\n");
  EXPECT_EQ(Read({}, {path}).status().message(), path + ":2: not valid UTF-8");
  EXPECT_EQ(Read({"\xff"}, {}).status().message(), "argument 1: not valid UTF-8");
  EXPECT_EQ(Read({}, {path}, Unit::kFile).status().message(), path + ": not valid UTF-8");
}

TEST(Texts, AFileThatCannotBeReadIsNamed) {
  EXPECT_EQ(Read({}, {"/nowhere/at all"}).status().message(), "/nowhere/at all: No such file or directory");
  EXPECT_THAT(Read({}, {"/"}).status().message(), HasSubstr("/: Is a directory"));
  EXPECT_THAT(Read({}, {"/"}, Unit::kFile).status().message(), HasSubstr("/: Is a directory"));
}

TEST(ToInput, ReadsTokensAndPairs) {
  v1::Input input;
  ASSERT_TRUE(ToInput({"17 4,9\t2", "argument 1"}, InputForm::kTokens, &input).ok());
  EXPECT_THAT(input.tokens().ids(), ElementsAre(17, 4, 9, 2));
  ASSERT_TRUE(ToInput({"a b\tc", "argument 1"}, InputForm::kPair, &input).ok());
  EXPECT_EQ(input.pair().first(), "a b");
  EXPECT_EQ(input.pair().second(), "c");
  ASSERT_TRUE(ToInput({"Hi", "argument 1"}, InputForm::kChat, &input).ok());
  EXPECT_EQ(input.chat().ShortDebugString(), "messages { role: \"user\" content: \"Hi\" }");
}

TEST(ToInput, NamesWhatIsNoTokenAndNoPair) {
  v1::Input input;
  EXPECT_EQ(ToInput({"1 -2", "f:3"}, InputForm::kTokens, &input).message(),
            "f:3: token '-2' is not a whole number of 0 to 2147483647");
  EXPECT_EQ(ToInput({"1 3000000000", "f:3"}, InputForm::kTokens, &input).message(),
            "f:3: token '3000000000' is not a whole number of 0 to 2147483647");
  EXPECT_EQ(ToInput({"alone", "f:3"}, InputForm::kPair, &input).message(),
            "f:3: a pair is two texts with a tab between, found 1");
}

}  // namespace
}  // namespace heed::cli
