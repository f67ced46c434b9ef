#include "tests/client/commands.h"

#include <sstream>

namespace heed::cli {
namespace {

constexpr Command kCommands[] = {
    {"classify", "[flags] [TEXT...]", "Labels.", Classify},
    {"embed", "[flags] [TEXT...]", "Vectors.", Embed},
    {"score", "[flags] [TEXT...]", "Likelihoods.", Score},
    {"fill", "[flags] [TEXT...]", "Masks.", Fill},
    {"generate", "[flags] [PROMPT...]", "Text.", Generate},
    {"models", "[flags]", "A list.", Models},
    {"describe", "[flags] [MODEL]", "A page.", Describe},
    {"info", "[flags]", "The server.", Info},
    {"health", "[flags]", "Ready or not.", Health},
    {"top", "[flags]", "Live.", Top},
    {"rerank", "[flags] --query=TEXT [DOCUMENT...]", "An order.", Rerank},
    {"answer", "[flags] --context=TEXT [QUESTION...]", "A span.", AnswerQuestions},
    {"tokenize", "[flags] [TEXT...]", "Tokens.", Tokenize},
    {"detokenize", "[flags] [IDS...]", "Text.", Detokenize},
    {"chat", "[flags] [MODEL]", "Turns.", Chat},
};

}  // namespace

std::span<const Command> ClientCommands() { return kCommands; }

Outcome Heed(const std::vector<std::string>& words, const std::string& standard_input,
             std::stop_token interrupted) {
  std::istringstream in(standard_input);
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  terminal.catch_interrupt = [&] { return interrupted; };
  const int exit = RunCommand(kCommands, words, terminal);
  return {exit, out.str(), err.str()};
}

Outcome RunAt(const FakeServer& server, std::vector<std::string> words, const std::string& standard_input,
              std::stop_token interrupted) {
  words.insert(words.begin() + 1, "--address=" + server.address());
  return Heed(words, standard_input, interrupted);
}

grpc::Status CallGood(grpc::ServerContext&, const v1::ClassifyRequest& request,
                      v1::ClassifyResponse& response) {
  for (const v1::Input& input : request.inputs()) {
    auto* result = response.add_results();
    if (input.text().empty()) {
      result->mutable_error()->set_code(3);
      result->mutable_error()->set_message("text is empty");
      continue;
    }
    auto* label = result->mutable_value()->add_labels();
    label->set_label("good");
    label->set_score(0.75);
  }
  return grpc::Status::OK;
}

}  // namespace heed::cli
