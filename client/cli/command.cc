#include "client/cli/command.h"

#include <optional>
#include <sstream>

#include "absl/strings/str_format.h"
#include "client/cli/completion.h"
#include "client/cli/man.h"

namespace heed::cli {
namespace {

const Command* Find(std::span<const Command> commands, std::string_view name) {
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int Run(const Command& command, std::vector<std::string> words, Terminal& terminal) {
  Arguments arguments(std::string(command.name), std::string(command.usage), std::string(command.summary),
                      std::move(words));
  return command.run(arguments, terminal);
}

std::string Table(std::span<const Command> commands) {
  std::string text = "heed COMMAND [flags] [texts]\n\n";
  for (const Command& command : commands)
    absl::StrAppendFormat(&text, "  %-10s %s\n", command.name, command.summary);
  return text +
         "\n`heed help COMMAND` lists its flags\n`heed completion bash` and `heed completion zsh` print what "
         "makes the shell complete them\n`heed man` prints the manual page: heed man | man -l -\n`heed "
         "--version` says which heed this is\n";
}

std::optional<std::string> Completion(std::span<const Command> commands, std::string_view shell) {
  if (shell == "bash") return BashCompletion(commands);
  if (shell == "zsh") return ZshCompletion(commands);
  return std::nullopt;
}

int PrintCompletion(std::span<const Command> commands, const std::vector<std::string>& words,
                    Terminal& terminal) {
  const auto script = words.size() == 2 ? Completion(commands, words[1]) : std::nullopt;
  if (!script) {
    terminal.err << "usage: heed completion bash|zsh\n"
                    "now, in this bash: source <(heed completion bash)\n"
                    "in every zsh: heed completion zsh >FOLDER/_heed, with a FOLDER of its $fpath\n";
    return kUsage;
  }
  terminal.out << *script;
  return Finish(terminal, kDone);
}

int UnknownCommand(std::span<const Command> commands, std::string_view typed, Terminal& terminal) {
  std::vector<std::string_view> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string_view nearest = Nearest(typed, names);
  terminal.err << "heed: there is no command '" << OneLine(typed) << "'";
  if (!nearest.empty()) terminal.err << "; did you mean '" << nearest << "'?";
  terminal.err << "\n`heed help` lists the commands\n";
  return kUsage;
}

}  // namespace

// Asked for its help, a command does nothing else.
std::vector<FlagEntry> FlagsOf(const Command& command) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  Arguments arguments(std::string(command.name), "", "", {"--help"});
  command.run(arguments, terminal);
  return arguments.flags();
}

int RunCommand(std::span<const Command> commands, const std::vector<std::string>& words, Terminal& terminal) {
  if (words.empty()) {
    terminal.err << Table(commands);
    return kUsage;
  }
  const bool help = words[0] == "help" || words[0] == "--help" || words[0] == "-h";
  if (help && words.size() == 1) {
    terminal.out << Table(commands);
    return Finish(terminal, kDone);
  }
  if (words[0] == "--version") {
    terminal.out << "heed " << HEED_VERSION << "\n";
    return Finish(terminal, kDone);
  }
  if (words[0] == "man") {
    terminal.out << ManPage(commands);
    return Finish(terminal, kDone);
  }
  if (words[0] == "completion") return PrintCompletion(commands, words, terminal);
  const std::string& name = words[help ? 1 : 0];
  const Command* command = Find(commands, name);
  if (command == nullptr) return UnknownCommand(commands, name, terminal);
  if (help) return Run(*command, {"--help"}, terminal);
  return Run(*command, {words.begin() + 1, words.end()}, terminal);
}

}  // namespace heed::cli
