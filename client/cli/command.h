// A command of `heed` is a function: it declares its flags, parses, and does its work.
#ifndef HEED_CLIENT_CLI_COMMAND_H_
#define HEED_CLIENT_CLI_COMMAND_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/arguments.h"
#include "client/cli/terminal.h"

namespace heed::cli {

// Its line in the table of commands.
struct Command {
  std::string_view name;
  std::string_view usage;                                // what follows the name: "[flags] TEXT..."
  std::string_view summary;                              // one line
  int (*run)(Arguments& arguments, Terminal& terminal);  // returns the exit status
};

// The flags of a command, as it declares them.
std::vector<FlagEntry> FlagsOf(const Command& command);

// `heed WORDS`: finds the command and runs it. `help`, `help COMMAND`, `--help` show the table or a command's
// flags, `--version` the version, `completion SHELL` what makes a shell complete all this, `man` the manual
// page. The exit status is kUsage where the words name no command.
int RunCommand(std::span<const Command> commands, const std::vector<std::string>& words, Terminal& terminal);

// The commands, one file each.
int Classify(Arguments& arguments, Terminal& terminal);
int Embed(Arguments& arguments, Terminal& terminal);
int Score(Arguments& arguments, Terminal& terminal);
int Fill(Arguments& arguments, Terminal& terminal);
int Generate(Arguments& arguments, Terminal& terminal);
int Chat(Arguments& arguments, Terminal& terminal);
int Rerank(Arguments& arguments, Terminal& terminal);
int AnswerQuestions(Arguments& arguments, Terminal& terminal);
int Tokenize(Arguments& arguments, Terminal& terminal);
int Detokenize(Arguments& arguments, Terminal& terminal);
int Info(Arguments& arguments, Terminal& terminal);
int Models(Arguments& arguments, Terminal& terminal);
int Describe(Arguments& arguments, Terminal& terminal);
int Health(Arguments& arguments, Terminal& terminal);
int Top(Arguments& arguments, Terminal& terminal);
int Serve(Arguments& arguments, Terminal& terminal);
int Inspect(Arguments& arguments, Terminal& terminal);
int Golden(Arguments& arguments, Terminal& terminal);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_COMMAND_H_
