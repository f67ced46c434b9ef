// What makes a shell complete `heed`: made from the tables that help is made from, so it knows every command,
// flag and value that is one of a few words.
#ifndef HEED_CLIENT_CLI_COMPLETION_H_
#define HEED_CLIENT_CLI_COMPLETION_H_

#include <span>
#include <string>

#include "client/cli/command.h"

namespace heed::cli {

std::string BashCompletion(std::span<const Command> commands);  // for `source`
std::string ZshCompletion(std::span<const Command> commands);   // for a file _heed in $fpath, or for `source`

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_COMPLETION_H_
