#include "client/cli/completion.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/arguments.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

bool TakesFolders(const Command& command) { return command.usage.find("FOLDER") != command.usage.npos; }

std::vector<std::string> Names(std::span<const Command> commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  return names;
}

// -------------------------------------------------------------------------------------------------------
// bash

// The flags as they are typed: those with a value end in '='.
std::string BashFlags(const std::vector<FlagEntry>& flags) {
  std::vector<std::string> words;
  for (const FlagEntry& flag : flags) {
    words.push_back(Cat("--", flag.name, flag.is_bool ? "" : "="));
    if (flag.is_bool && flag.name != "help") words.push_back(Cat("--no", flag.name));
  }
  return absl::StrJoin(words, " ");
}

// A case for each flag whose values are known: the words, or "-f" for files.
std::string BashValues(const Command& command, const std::vector<FlagEntry>& flags) {
  std::string cases;
  for (const FlagEntry& flag : flags) {
    if (flag.words.empty() && !flag.is_path) continue;
    const std::string values = flag.is_path ? "-f" : Cat("-W '", absl::StrJoin(flag.words, " "), "'");
    cases += Cat("    ", command.name, ":--", flag.name, ") how=(", values, ") ;;\n");
  }
  return cases;
}

// bash gives --as=to as the three words --as, = and to. A name in {} is filled in.
constexpr char kBash[] = R"(# How bash completes heed: source <(heed completion bash)
_heed() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flag= how=()
  COMPREPLY=()
  if [[ $word == = ]]; then
    flag=$before= word=
  elif [[ $before == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}=
  elif [[ $before == --* ]]; then
    flag=$before
  fi
  case $command:${flag%=} in
{values}  esac
  [[ ${#how[@]} != 0 || $flag == *= ]] || case $COMP_CWORD:$command:$word in
    1:*) how=(-W '{commands} help completion man --help --version') ;;
    *:help:*) how=(-W '{commands}') ;;
    *:completion:*) how=(-W 'bash zsh') ;;
{flags}  esac
  [[ ${#how[@]} != 0 ]] || return
  mapfile -t COMPREPLY < <(compgen "${how[@]}" -- "$word")
  [[ ${how[0]} == -W ]] || compopt -o filenames
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
} 2>/dev/null
complete -F _heed heed
)";

// --------------------------------------------------------------------------------------------------------
// zsh

// Inside single quotes, in a part of an _arguments specification.
std::string ZshQuoted(std::string_view text) {
  return absl::StrReplaceAll(Cat(text), {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshAction(const FlagEntry& flag) {
  if (flag.is_path) return "_files";
  if (!flag.words.empty()) return Cat("(", absl::StrJoin(flag.words, " "), ")");
  return "";
}

std::string ZshFlag(const FlagEntry& flag) {
  const std::string help = Cat("[", ZshQuoted(flag.help), "]");
  if (flag.is_bool) return Cat("'--", flag.name, help, "'");
  return Cat("'", flag.repeats ? "*" : "", "--", flag.name, "=", help, ":", flag.name, ":", ZshAction(flag),
             "'");
}

std::string ZshCommand(const Command& command) {
  std::string lines = Cat("    ", command.name, ")\n      _arguments");
  for (const FlagEntry& flag : FlagsOf(command)) lines += Cat(" \\\n        ", ZshFlag(flag));
  return Cat(lines, " \\\n        '*:", TakesFolders(command) ? "folder:_files -/" : "text:{ : }", "' ;;\n");
}

constexpr char kZsh[] = R"(#compdef heed
# How zsh completes heed: a file _heed in a folder of $fpath, or source <(heed completion zsh)
_heed() {
  local -a commands=(
{commands}    'help:The commands, or a command'\''s flags.'
    'completion:What makes a shell complete all this.'
    'man:The manual page.'
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{flags}    help) _describe command commands ;;
    completion) _values shell bash zsh ;;
  esac
}
if [[ $funcstack[1] == _heed ]]; then _heed "$@"; else compdef _heed heed; fi
)";

}  // namespace

std::string BashCompletion(std::span<const Command> commands) {
  std::string values, flags;
  for (const Command& command : commands) {
    const std::vector<FlagEntry> entries = FlagsOf(command);
    values += BashValues(command, entries);
    flags += Cat("    *:", command.name, ":-*) how=(-W '", BashFlags(entries), "') ;;\n");
    if (TakesFolders(command)) flags += Cat("    *:", command.name, ":*) how=(-d) ;;\n");
  }
  return absl::StrReplaceAll(
      kBash, {{"{commands}", absl::StrJoin(Names(commands), " ")}, {"{values}", values}, {"{flags}", flags}});
}

std::string ZshCompletion(std::span<const Command> commands) {
  std::string names, flags;
  for (const Command& command : commands) {
    names += Cat("    '", command.name, ":", ZshQuoted(command.summary), "'\n");
    flags += ZshCommand(command);
  }
  return absl::StrReplaceAll(kZsh, {{"{commands}", names}, {"{flags}", flags}});
}

}  // namespace heed::cli
