#include "client/cli/completion.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

int Look(Arguments& arguments, Terminal& terminal) {
  std::string precision = "auto";
  bool json = false;
  arguments.Choice("precision", &precision, "what the model [computes] in",
                   {{"auto", "auto"}, {"f32", "f32"}});
  arguments.Flag("json", &json, "as protobuf's JSON");
  return arguments.Parse(terminal).value_or(kDone);
}

constexpr Command kCommands[] = {
    {"classify", "[flags] [TEXT...]", "Labels with scores for each text.", Classify},
    {"generate", "[flags] [PROMPT...]", "Text that goes on from a prompt.", Generate},
    {"inspect", "[flags] FOLDER", "What the model in a folder is.", Look},
};

std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char part[4096];
  while (fgets(part, sizeof(part), pipe) != nullptr) output += part;
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

// What bash offers after these words, the last of which is being typed. As bash gives them: --as=te is three.
std::vector<std::string> Offered(const std::vector<std::string>& words) {
  const std::string script = testing::TempDir() + "heed_completion.bash";
  std::ofstream(script) << BashCompletion(kCommands);
  std::string line;
  for (const std::string& word : words) line += Cat(" '", word, "'");
  const std::string program =
      Cat("set -u; source ", script, "; COMP_WORDS=(", line, "); COMP_CWORD=", words.size() - 1,
          "; _heed; for word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done");
  const std::string file = testing::TempDir() + "heed_complete.sh";
  std::ofstream(file) << program;
  std::istringstream lines(OutputOf("bash " + file));
  std::vector<std::string> offered;
  for (std::string word; std::getline(lines, word);) offered.push_back(word);
  return offered;
}

TEST(BashCompletion, OffersCommands) {
  EXPECT_THAT(Offered({"heed", "cl"}), ElementsAre("classify"));
  EXPECT_THAT(Offered({"heed", ""}), UnorderedElementsAre("classify", "generate", "inspect", "help",
                                                          "completion", "man", "--help", "--version"));
  EXPECT_THAT(Offered({"heed", "help", "ge"}), ElementsAre("generate"));
  EXPECT_THAT(Offered({"heed", "completion", ""}), ElementsAre("bash", "zsh"));
}

TEST(BashCompletion, OffersTheFlagsOfTheCommand) {
  EXPECT_THAT(Offered({"heed", "generate", "--te"}), ElementsAre("--temperature="));
  EXPECT_THAT(Offered({"heed", "classify", "--te"}), IsEmpty());
  EXPECT_THAT(Offered({"heed", "classify", "a text", "--ra"}), ElementsAre("--raw"));
  EXPECT_THAT(Offered({"heed", "generate", "--"}),
              AllOf(Contains("--noignore_eos"), Contains("--logit_bias="), Not(Contains("--nohelp"))));
}

TEST(BashCompletion, OffersTheValuesThatAFlagHas) {
  EXPECT_THAT(Offered({"heed", "generate", "--as", "=", "to"}), ElementsAre("tokens"));
  EXPECT_THAT(Offered({"heed", "generate", "--as", "="}), ElementsAre("text", "tokens", "pair", "chat"));
  EXPECT_THAT(Offered({"heed", "generate", "--as", "p"}), ElementsAre("pair"));
  EXPECT_THAT(Offered({"heed", "inspect", "--precision", "=", "f"}), ElementsAre("f32"));
  EXPECT_THAT(Offered({"heed", "generate", "--model", "=", "p"}), IsEmpty());
}

TEST(BashCompletion, OffersFilesAndFoldersWhereTheyAreMeant) {
  const std::string folder = testing::TempDir() + "heed_completion_world";
  OutputOf(Cat("rm -rf ", folder, "; mkdir -p ", folder, "/models; touch ", folder, "/more.txt"));
  const std::string typed = folder + "/mo";
  EXPECT_THAT(Offered({"heed", "classify", "--file", "=", typed}),
              UnorderedElementsAre(folder + "/models", folder + "/more.txt"));
  EXPECT_THAT(Offered({"heed", "inspect", typed}), ElementsAre(folder + "/models"));
  EXPECT_THAT(Offered({"heed", "classify", typed}), IsEmpty());
}

TEST(ZshCompletion, NamesCommandsFlagsAndValues) {
  const std::string script = ZshCompletion(kCommands);
  EXPECT_EQ(script.rfind("#compdef heed\n", 0), 0);
  EXPECT_THAT(script, AllOf(HasSubstr("'classify:Labels with scores for each text.'"),
                            HasSubstr("    generate)\n      _arguments \\\n"), HasSubstr("'--temperature=["),
                            HasSubstr("'*--logit_bias=["), HasSubstr(":as:(text tokens pair chat)'"),
                            HasSubstr("'*--file=["), HasSubstr(":file:_files'"),
                            HasSubstr("'*:folder:_files -/' ;;")));
}

TEST(ZshCompletion, QuotesWhatZshWouldRead) {
  EXPECT_THAT(ZshCompletion(kCommands),
              AllOf(HasSubstr("what the model \\[computes\\] in"), HasSubstr("as protobuf'\\''s JSON"),
                    HasSubstr("tokens (ids\\: 17 4 9)")));
}

}  // namespace
}  // namespace heed::cli
