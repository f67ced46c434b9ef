// What all commands have in common: their names, help and flags, the address, the output.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(Commands, AnUnknownOneIsToldWithTheNearest) {
  const Outcome run = Heed({"clasify", "text"});
  EXPECT_EQ(run.exit, kUsage);
  EXPECT_THAT(run.err, HasSubstr("there is no command 'clasify'; did you mean 'classify'?"));
  EXPECT_THAT(Heed({"xyzzy"}).err, Not(HasSubstr("did you mean")));
}

TEST(Commands, HelpListsThemAllAndEachOnesFlags) {
  for (const auto& words : {std::vector<std::string>{"help"}, {"--help"}, {"-h"}}) {
    const Outcome run = Heed(words);
    EXPECT_EQ(run.exit, kDone);
    for (const Command& command : ClientCommands())
      EXPECT_THAT(run.out, HasSubstr(std::string(command.name)));
  }
  EXPECT_EQ(Heed({}).exit, kUsage);
  for (const Command& command : ClientCommands()) {
    const std::string name(command.name);
    const Outcome run = Heed({"help", name});
    EXPECT_EQ(run.exit, kDone);
    EXPECT_THAT(run.out, AllOf(HasSubstr("heed " + name), HasSubstr("--address"), HasSubstr("--json")));
    EXPECT_EQ(run.out, Heed({name, "--help"}).out);
  }
}

TEST(Commands, AWrongValueEndsBeforeAnyCall) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) {
    ADD_FAILURE() << "called";
    return grpc::Status::OK;
  };
  for (const char* flag : {"--top=-1", "--threshold=1.5", "--priority=11", "--as=music", "--timeout=0s"}) {
    const Outcome run = RunAt(server, {"classify", flag, "text"});
    EXPECT_EQ(run.exit, kUsage) << flag;
    EXPECT_THAT(run.err, HasSubstr(std::string("heed classify: ") + flag + ": must be "));
  }
  for (const char* flag :
       {"--samples=17", "--temperature=-1", "--top_p=2", "--top_k=0", "--max_tokens=0", "--typical_p=0",
        "--repetition_penalty=0", "--presence_penalty=3", "--stop_token=-1"}) {
    EXPECT_EQ(RunAt(server, {"generate", flag, "text"}).exit, kUsage) << flag;
  }
}

TEST(Commands, SayWhereNoServerIs) {
  std::string address;
  {
    address = FakeServer().address();
  }
  const Outcome run = Heed({"classify", "--address", address, "text"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.err, "heed: UNAVAILABLE: no server at " + address + ": start one with `heed serve`\n");
  EXPECT_THAT(Heed({"models", "--address=nowhere"}).err, HasSubstr("address 'nowhere' is not HOST:PORT"));
}

TEST(Commands, TakeTheAddressFromTheEnvironment) {
  setenv("HEED_ADDRESS", "127.0.0.1:1", 1);
  EXPECT_THAT(Heed({"models"}).err, HasSubstr("no server at 127.0.0.1:1"));
  unsetenv("HEED_ADDRESS");
  EXPECT_THAT(Heed({"help", "models"}).out, HasSubstr("(default 127.0.0.1:8461)"));
}

TEST(Commands, TellTheirVersion) {
  const Outcome run = Heed({"--version"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_THAT(run.out, MatchesRegex("heed [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Commands, AFullDiskIsAnError) {
  FakeServer server;
  server.classify = CallGood;
  std::istringstream in;
  std::ofstream out("/dev/full");
  std::ostringstream err;
  Terminal terminal{in, out, err};
  EXPECT_EQ(RunCommand(ClientCommands(), {"classify", "--address=" + server.address(), "text"}, terminal),
            kFailed);
  EXPECT_THAT(err.str(), HasSubstr("the output could not be written"));
}

}  // namespace
}  // namespace heed::cli
