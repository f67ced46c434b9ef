// The manual page of `heed`: made from the tables that help is made from, so it knows every command and flag.
#ifndef HEED_CLIENT_CLI_MAN_H_
#define HEED_CLIENT_CLI_MAN_H_

#include <span>
#include <string>

#include "client/cli/command.h"

namespace heed::cli {

// heed(1), as man(7) writes it: `man -l` shows it.
std::string ManPage(std::span<const Command> commands);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_MAN_H_
