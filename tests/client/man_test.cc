#include "client/cli/man.h"

#include <string>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

int Odd(Arguments& arguments, Terminal& terminal) {
  int32_t top = 7;
  bool json = true;
  std::string file, how = "a";
  arguments.Flag("top", &top, ".it's a `\\n` of ^ and ~");
  arguments.Flag("json", &json, "as protobuf's JSON");
  arguments.Flag("file", &file, "read this").is_path = true;
  arguments.Choice("how", &how, "in a way", {{"a", "a"}, {"b-c", "b-c"}});
  return arguments.Parse(terminal).value_or(kDone);
}

constexpr Command kOdd[] = {{"odd", "[flags] FOLDER", "A test's own - command.", Odd}};

TEST(ManPage, NamesEveryCommandAndFlagWithItsHelp) {
  const std::string page = ManPage(ClientCommands());
  for (const Command& command : ClientCommands()) {
    EXPECT_THAT(page, HasSubstr(Cat("\n.SS heed ", command.name, " [")));
    EXPECT_THAT(page, HasSubstr(Cat("\n", command.summary, "\n")));
  }
  EXPECT_THAT(page, AllOf(HasSubstr("\n.TP\n\\fB\\-\\-temperature\\fR=\\fIVALUE\\fR\n"),
                          HasSubstr("\n.TP\n\\fB\\-\\-as\\fR=\\fItext|tokens|pair|chat\\fR\n")));
}

TEST(ManPage, ShowsWhatRoffWouldReadLetterByLetter) {
  const std::string page = ManPage(kOdd);
  EXPECT_THAT(page, AllOf(HasSubstr("\n.SS heed odd [flags] FOLDER\nA test\\(aqs own \\- command.\n"),
                          HasSubstr("\n\\&.it\\(aqs a \\(ga\\en\\(ga of \\(ha and \\(ti (default 7)\n")));
}

TEST(ManPage, TellsWhatAFlagTakes) {
  const std::string page = ManPage(kOdd);
  EXPECT_THAT(page, AllOf(HasSubstr("\\fB\\-\\-json\\fR\n"), HasSubstr("\\fB\\-\\-file\\fR=\\fIPATH\\fR\n"),
                          HasSubstr("\\fB\\-\\-how\\fR=\\fIa|b\\-c\\fR\nin a way (default a)\n"),
                          Not(HasSubstr("{"))));
}

TEST(ManPage, IsWhatTheCommandPrints) {
  EXPECT_EQ(Heed({"man"}).out, ManPage(ClientCommands()));
  EXPECT_EQ(Heed({"man"}).exit, kDone);
}

}  // namespace
}  // namespace heed::cli
