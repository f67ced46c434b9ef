// What a command says of an error that a server gave: what is wrong, in the server's words, what the caller
// can do now, and the request's id.
#ifndef HEED_CLIENT_CLI_ERRORS_H_
#define HEED_CLIENT_CLI_ERRORS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/cli/terminal.h"
#include "client/client.h"

namespace heed::cli {

// "QUEUE_FULL: the queue is full": the reason; where the server gives none, the code.
std::string ErrorText(const absl::Status& status);

// What the caller can do about it: a sentence that fits the reason; empty if there is none. `model`: that was
// asked for.
std::string Advice(const absl::Status& status, std::string_view model = "");

// Says it all on `err`, and gives the exit status. Where there is no such `model`, or none is named,
// `client` asks which there are, and the nearest is told.
int FailCall(Terminal& terminal, const absl::Status& status, const Client& client,
             std::string_view model = "");

// One input of several has no answer: a line.
void TellError(Terminal& terminal, std::string_view where, const v1::Error& error);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_ERRORS_H_
