// The commands of `heed` as a test calls them: without a process, against a server of its own.
#ifndef HEED_TESTS_CLIENT_COMMANDS_H_
#define HEED_TESTS_CLIENT_COMMANDS_H_

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "tests/client/fake_server.h"

namespace heed::cli {

// All that call a server.
std::span<const Command> ClientCommands();

struct Outcome {
  int exit = -1;
  std::string out, err;
};

// `heed WORDS`.
Outcome Heed(const std::vector<std::string>& words, const std::string& standard_input = "",
             std::stop_token interrupted = {});

// The same with the server's --address.
Outcome RunAt(const FakeServer& server, std::vector<std::string> words,
              const std::string& standard_input = "", std::stop_token interrupted = {});

// Calls every text "good" with the probability 0.75, but what is empty.
grpc::Status CallGood(grpc::ServerContext&, const v1::ClassifyRequest& request,
                      v1::ClassifyResponse& response);

}  // namespace heed::cli

#endif  // HEED_TESTS_CLIENT_COMMANDS_H_
