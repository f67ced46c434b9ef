// heed chat, against a server that answers as the test says.
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include "client/cli/terminal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Writer = grpc::ServerWriter<v1::GenerateEvent>;

// "user:Hi|assistant:Hello|"
std::string Said(const v1::GenerateRequest& request) {
  std::string said;
  for (const v1::Chat::Message& message : request.inputs(0).chat().messages())
    said += message.role() + ":" + message.content() + "|";
  return said;
}

// Answers with the number of messages, in two pieces, and keeps what was said.
struct Counting {
  Counting() {
    server.generate = [this](auto&, const v1::GenerateRequest& request, Writer& out) {
      said.push_back(Said(request));
      last = request;
      out.Write(Piece("n"));
      out.Write(Piece(std::to_string(request.inputs(0).chat().messages_size())));
      out.Write(Finished(2));
      return grpc::Status::OK;
    };
  }
  FakeServer server;
  std::vector<std::string> said;
  v1::GenerateRequest last;
};

TEST(Chat, EachLineIsAMessageAndKnowsWhatWasSaid) {
  Counting counting;
  const Outcome run = RunAt(counting.server, {"chat", "small"}, "Hi\n\nAnd you?\n");
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(run.out, "n1\nn3\n");
  EXPECT_EQ(run.err, "[MAX_TOKENS, 2 tokens]\n[MAX_TOKENS, 2 tokens]\n") << "the answers were cut";
  EXPECT_THAT(counting.said, ElementsAre("user:Hi|", "user:Hi|assistant:n1|user:And you?|"));
  EXPECT_EQ(counting.last.target().model(), "small");
}

TEST(Chat, ClearForgetsAllButTheSystemMessage) {
  Counting counting;
  const Outcome run = RunAt(counting.server, {"chat", "--system=Be kind."}, "Hi\n/clear\nHo\n");
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_THAT(counting.said, ElementsAre("system:Be kind.|user:Hi|", "system:Be kind.|user:Ho|"));
}

TEST(Chat, SendsWhatTheFlagsSay) {
  Counting counting;
  RunAt(
      counting.server,
      {"chat", "--temperature=0.5", "--top_k=3", "--top_p=0.25", "--seed=7", "--max_tokens=9", "--version=2"},
      "Hi\n");
  EXPECT_EQ(counting.last.sampling().ShortDebugString(), "temperature: 0.5 top_k: 3 top_p: 0.25 seed: 7");
  EXPECT_EQ(counting.last.stopping().ShortDebugString(), "max_tokens: 9");
  EXPECT_EQ(counting.last.target().version(), "2");
}

TEST(Chat, AnErrorTakesTheMessageBackAndTheConversationGoesOn) {
  FakeServer server;
  std::vector<std::string> said;
  server.generate = [&](auto&, const v1::GenerateRequest& request, Writer& out) {
    said.push_back(Said(request));
    if (said.size() == 1) return Refusal(grpc::INVALID_ARGUMENT, "System role not supported", {});
    out.Write(Piece("ok"));
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"chat"}, "one\ntwo\n");
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.out, "ok\n");
  EXPECT_THAT(run.err, HasSubstr("System role not supported"));
  EXPECT_THAT(said, ElementsAre("user:one|", "user:two|"));
}

TEST(Chat, AnInterruptEndsTheAnswerAloneAndWhatWasShownStays) {
  FakeServer server;
  std::vector<std::stop_source> sources;
  std::vector<std::string> said;
  server.generate = [&](auto&, const v1::GenerateRequest& request, Writer& out) {
    said.push_back(Said(request));
    if (said.size() == 2) {
      out.Write(Piece("done"));
      return grpc::Status::OK;
    }
    for (int pieces = 0; out.Write(Piece("again ")); ++pieces) {
      if (pieces == 100) sources.back().request_stop();
    }
    return grpc::Status::OK;
  };
  std::istringstream in("one\ntwo\n");
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  terminal.catch_interrupt = [&] { return sources.emplace_back().get_token(); };
  EXPECT_EQ(RunCommand(ClientCommands(), {"chat", "--address=" + server.address()}, terminal), kDone)
      << err.str();
  EXPECT_TRUE(out.str().ends_with("done\n")) << out.str();
  ASSERT_EQ(said.size(), 2u);
  // What came before the interrupt, if anything did, was said.
  EXPECT_TRUE(said[1] == "user:two|" || said[1].starts_with("user:one|assistant:again ")) << said[1];
  EXPECT_TRUE(said[1].ends_with("user:two|"));
}

TEST(Chat, JsonIsOneEventALine) {
  Counting counting;
  const Outcome run = RunAt(counting.server, {"chat", "--json"}, "Hi\n");
  EXPECT_THAT(run.out, HasSubstr("\"piece\":{\"text\":\"n\""));
}

TEST(Chat, SaysHowItIsUsedWhereAPersonTypes) {
  Counting counting;
  std::istringstream in("Hi\n");
  std::ostringstream out, err;
  Terminal terminal{.in = in, .out = out, .err = err, .in_is_screen = true};
  EXPECT_EQ(RunCommand(ClientCommands(), {"chat", "--address=" + counting.server.address()}, terminal),
            kDone);
  EXPECT_THAT(err.str(), HasSubstr("/clear forgets"));
  EXPECT_THAT(err.str(), HasSubstr("> "));
}

}  // namespace
}  // namespace heed::cli
