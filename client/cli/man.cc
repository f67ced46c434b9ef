#include "client/cli/man.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/arguments.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

// So that roff shows it letter by letter: no escape, no request at a line's beginning, no typographic marks.
std::string Roff(std::string_view text) {
  const std::string plain = absl::StrReplaceAll(
      Cat(text),
      {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"`", "\\(ga"}, {"^", "\\(ha"}, {"~", "\\(ti"}});
  return plain.starts_with('.') ? "\\&" + plain : plain;
}

std::string ValueOf(const FlagEntry& flag) {
  if (!flag.words.empty()) return absl::StrJoin(flag.words, "|");
  return flag.is_path ? "PATH" : "VALUE";
}

std::string FlagParagraph(const FlagEntry& flag) {
  const std::string value = flag.is_bool ? "" : Cat("=\\fI", Roff(ValueOf(flag)), "\\fR");
  return Cat(".TP\n\\fB\\-\\-", Roff(flag.name), "\\fR", value, "\n", Roff(HelpOf(flag)), "\n");
}

std::string CommandSection(const Command& command) {
  std::string section =
      Cat(".SS heed ", command.name, " ", Roff(command.usage), "\n", Roff(command.summary), "\n");
  for (const FlagEntry& flag : FlagsOf(command)) section += FlagParagraph(flag);
  return section;
}

// A name in {} is filled in.
constexpr char kPage[] = R"(.TH HEED 1 "" "heed {version}" "User Commands"
.SH NAME
heed \- serves Transformers on CPUs, over gRPC
.SH SYNOPSIS
.B heed
.I COMMAND
[flags] [texts]
.SH DESCRIPTION
The server and its clients in one program.
Flags are \fB\-\-flag=value\fR or \fB\-\-flag value\fR, \fB\-\-flag\fR and \fB\-\-noflag\fR where there is no value;
\fB\-\-\fR ends them, and what follows is text.
.PP
\fBheed help\fR lists the commands, \fBheed help\fR \fICOMMAND\fR the flags of one,
\fBheed completion bash\fR and \fBheed completion zsh\fR print what makes the shell complete them,
\fBheed man\fR this page, \fBheed \-\-version\fR the version.
.SH COMMANDS
{commands}.SH SIGNALS
SIGTERM and SIGINT end \fBheed serve\fR as the config's
.I shutdown
says: health is NOT_SERVING, its delay passes, new requests are refused, and what was admitted is finished within its grace.
A second signal ends delay and grace.
.SH EXIT STATUS
0: done. 1: a call, a file, or one input of many has failed. 2: the command line is wrong. 130: Ctrl\-C.
.SH ENVIRONMENT
.TP
HEED_ADDRESS
The server that the clients call where no \fB\-\-address\fR is given.
.TP
HEED_TLS_AUTHORITY
The PEM file of the authorities that the clients believe where no \fB\-\-tls_authority\fR is given; they call over TLS then.
.TP
HEED_TOKEN_FILE
The file of the token that the clients show where no \fB\-\-token_file\fR is given.
.TP
HEED_MODELS
The folder of models that \fBheed serve\fR takes where neither a flag nor the config names any.
.SH FILES
.TP
/etc/heed/heed.textproto
The config of the service, where Heed was installed as a package.
.TP
/usr/share/heed/models
The models that ship with Heed.
)";

}  // namespace

std::string ManPage(std::span<const Command> commands) {
  std::string sections;
  for (const Command& command : commands) sections += CommandSection(command);
  return absl::StrReplaceAll(kPage, {{"{version}", HEED_VERSION}, {"{commands}", sections}});
}

}  // namespace heed::cli
