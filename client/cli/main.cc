// heed: the server and its clients in one program. The commands stand here, in the order in which help shows
// them; each is a file beside this one.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "client/cli/command.h"
#include "client/cli/interrupt.h"
#include "grpc/support/log.h"

namespace {

constexpr heed::cli::Command kCommands[] = {
    {"serve", "[flags]", "Serves models over gRPC.", heed::cli::Serve},
    {"classify", "[flags] [TEXT...]", "Labels with scores for each text, or for spans of it.",
     heed::cli::Classify},
    {"embed", "[flags] [TEXT...]", "A vector for each text.", heed::cli::Embed},
    {"score", "[flags] [--context=TEXT] [TEXT...]", "How likely each text is, after the context.",
     heed::cli::Score},
    {"fill", "[flags] [TEXT...]", "The likeliest tokens where a text has the mask token.", heed::cli::Fill},
    {"generate", "[flags] [PROMPT...]", "Text that goes on from a prompt, shown as it is made.",
     heed::cli::Generate},
    {"chat", "[flags] [MODEL]", "A conversation with a model that has a chat template, a line a message.",
     heed::cli::Chat},
    {"rerank", "[flags] --query=TEXT [DOCUMENT...]", "Documents, those first that answer a query best.",
     heed::cli::Rerank},
    {"answer", "[flags] --context=TEXT [QUESTION...]", "Where in the context each question's answer stands.",
     heed::cli::AnswerQuestions},
    {"tokenize", "[flags] [TEXT...]", "The tokens that a model reads of each text.", heed::cli::Tokenize},
    {"detokenize", "[flags] [IDS...]", "The text of tokens.", heed::cli::Detokenize},
    {"models", "[flags]", "The models that a server has.", heed::cli::Models},
    {"describe", "[flags] [MODEL]", "What a model is, reads, answers and costs.", heed::cli::Describe},
    {"info", "[flags]", "What a server is, has and allows.", heed::cli::Info},
    {"health", "[flags]", "Whether a server, or one of its models, is ready: exit status 0.",
     heed::cli::Health},
    {"top", "[flags]", "What a server does, live: models, queues, tokens a second, latencies, memory.",
     heed::cli::Top},
    {"inspect", "[flags] FOLDER", "What the model in a folder is, holds and costs.", heed::cli::Inspect},
    {"golden", "[flags] FOLDER...", "Compares the engine with folders of golden cases.", heed::cli::Golden},
};

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  signal(SIGPIPE,
         SIG_DFL);  // a closed pipe ends a command quietly, also under a parent that ignores the signal
  // Commands say in their own words what goes wrong.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  std::optional<heed::cli::Interrupt> interrupt;
  heed::cli::Terminal terminal{.in = std::cin,
                               .out = std::cout,
                               .err = std::cerr,
                               .in_is_screen = isatty(STDIN_FILENO) == 1,
                               .out_is_screen = isatty(STDOUT_FILENO) == 1,
                               .err_is_screen = isatty(STDERR_FILENO) == 1,
                               .catch_interrupt = [&] { return interrupt.emplace().token(); }};
  return heed::cli::RunCommand(kCommands, {argv + 1, argv + argc}, terminal);
}
