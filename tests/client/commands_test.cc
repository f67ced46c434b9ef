// The commands against a server of the test's own, without a process.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "client/cli/command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr Command kCommands[] = {
    {"classify", "[flags] [TEXT...]", "Labels.", Classify}, {"embed", "[flags] [TEXT...]", "Vectors.", Embed},
    {"score", "[flags] [TEXT...]", "Likelihoods.", Score},  {"fill", "[flags] [TEXT...]", "Masks.", Fill},
    {"generate", "[flags] [PROMPT...]", "Text.", Generate}, {"models", "[flags]", "A list.", Models},
    {"describe", "[flags] [MODEL]", "A page.", Describe},   {"health", "[flags]", "Ready or not.", Health},
};

struct Outcome {
  int exit = -1;
  std::string out, err;
};

Outcome Heed(const std::vector<std::string>& words, const std::string& standard_input = "",
             std::stop_token interrupted = {}) {
  std::istringstream in(standard_input);
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  terminal.catch_interrupt = [&] { return interrupted; };
  const int exit = RunCommand(kCommands, words, terminal);
  return {exit, out.str(), err.str()};
}

Outcome RunAt(const FakeServer& server, std::vector<std::string> words,
              const std::string& standard_input = "", std::stop_token interrupted = {}) {
  words.insert(words.begin() + 1, "--address=" + server.address());
  return Heed(words, standard_input, interrupted);
}

// Calls every text "good" with the probability 0.75, but what is empty.
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

TEST(Commands, AnUnknownOneIsToldWithTheNearest) {
  const Outcome run = Heed({"clasify", "text"});
  EXPECT_EQ(run.exit, kUsage);
  EXPECT_THAT(run.err, HasSubstr("there is no command 'clasify'; did you mean 'classify'?"));
  EXPECT_THAT(Heed({"xyzzy"}).err, Not(HasSubstr("did you mean")));
}

TEST(Commands, HelpListsThemAllAndEachOnesFlags) {
  for (const auto& words : {std::vector<std::string>{"help"}, {"--help"}, {"-h"}}) {
    const Outcome run = Heed(words);
    EXPECT_EQ(run.exit, kDone);
    for (const Command& command : kCommands) EXPECT_THAT(run.out, HasSubstr(std::string(command.name)));
  }
  EXPECT_EQ(Heed({}).exit, kUsage);
  for (const Command& command : kCommands) {
    const std::string name(command.name);
    const Outcome run = Heed({"help", name});
    EXPECT_EQ(run.exit, kDone);
    EXPECT_THAT(run.out, AllOf(HasSubstr("heed " + name), HasSubstr("--address"), HasSubstr("--json")));
    EXPECT_EQ(run.out, Heed({name, "--help"}).out);
  }
}

TEST(Commands, AWrongValueEndsBeforeAnyCall) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) {
    ADD_FAILURE() << "called";
    return grpc::Status::OK;
  };
  for (const char* flag : {"--top=-1", "--threshold=1.5", "--priority=11", "--as=music", "--timeout=0s"}) {
    const Outcome run = RunAt(server, {"classify", flag, "text"});
    EXPECT_EQ(run.exit, kUsage) << flag;
    EXPECT_THAT(run.err, HasSubstr(std::string("heed classify: ") + flag + ": must be "));
  }
  for (const char* flag : {"--samples=17", "--temperature=-1", "--top_p=2", "--top_k=0", "--max_tokens=0"}) {
    EXPECT_EQ(RunAt(server, {"generate", flag, "text"}).exit, kUsage) << flag;
  }
}

TEST(Commands, SayWhereNoServerIs) {
  std::string address;
  {
    address = FakeServer().address();
  }
  const Outcome run = Heed({"classify", "--address", address, "text"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.err, "heed: UNAVAILABLE: no server at " + address + ": start one with `heed serve`\n");
  EXPECT_THAT(Heed({"models", "--address=nowhere"}).err, HasSubstr("address 'nowhere' is not HOST:PORT"));
}

TEST(Commands, TakeTheAddressFromTheEnvironment) {
  setenv("HEED_ADDRESS", "127.0.0.1:1", 1);
  EXPECT_THAT(Heed({"models"}).err, HasSubstr("no server at 127.0.0.1:1"));
  unsetenv("HEED_ADDRESS");
  EXPECT_THAT(Heed({"help", "models"}).out, HasSubstr("(default 127.0.0.1:8461)"));
}

TEST(Commands, AFailedCallHasItsCodeMessageAndAdvice) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status(grpc::NOT_FOUND, "no model 'x'"); };
  const Outcome run = RunAt(server, {"classify", "--model=x", "text"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.err, "heed: NOT_FOUND: no model 'x'\n`heed models` lists what the server has\n");
  EXPECT_EQ(run.out, "");
}

TEST(Commands, AFullDiskIsAnError) {
  FakeServer server;
  server.classify = CallGood;
  std::istringstream in;
  std::ofstream out("/dev/full");
  std::ostringstream err;
  Terminal terminal{in, out, err};
  EXPECT_EQ(RunCommand(kCommands, {"classify", "--address=" + server.address(), "text"}, terminal), kFailed);
  EXPECT_THAT(err.str(), HasSubstr("the output could not be written"));
}

TEST(Classify, PrintsLabelScoreAndText) {
  FakeServer server;
  server.classify = CallGood;
  const Outcome run = RunAt(server, {"classify", "A fine film.", "Two\nlines \x1b[31mred"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(run.out, "good 0.7500  A fine film.\ngood 0.7500  Two lines  [31mred\n");
}

TEST(Classify, SendsWhatTheFlagsSay) {
  FakeServer server;
  v1::ClassifyRequest sent;
  server.classify = [&](auto& context, const v1::ClassifyRequest& request, auto& response) {
    sent = request;
    return CallGood(context, request, response);
  };
  ASSERT_EQ(RunAt(server, {"classify", "--model=m", "--version=2", "--priority=-3", "--truncate",
                           "--nospecial_tokens", "--top=3", "--raw", "--threshold=0.5", "--spans", "text"})
                .exit,
            kDone);
  EXPECT_EQ(
      sent.ShortDebugString(),
      "target { model: \"m\" version: \"2\" priority: -3 } inputs { text: \"text\" } text { truncate: true "
      "without_special_tokens: true } options { top: 3 raw_scores: true threshold: 0.5 all_tokens: true }");
}

TEST(Classify, OneBadInputIsNamedAndTheOthersAreAnswered) {
  FakeServer server;
  server.classify = CallGood;
  const Outcome run = RunAt(server, {"classify"}, "one\n\nthree\n");
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.out, "good 0.7500  one\ngood 0.7500  three\n");
  EXPECT_EQ(run.err, "heed: standard input:2: INVALID_ARGUMENT: text is empty\n");
}

TEST(Classify, ManyLinesGoInSeveralRequestsAndStayInOrder) {
  FakeServer server;
  std::vector<int> sizes;
  server.classify = [&](auto& context, const v1::ClassifyRequest& request, auto& response) {
    sizes.push_back(request.inputs_size());
    return CallGood(context, request, response);
  };
  std::string lines, answers;
  for (int i = 0; i < 150; ++i) {
    lines += Cat("text ", i, "\n");
    answers += Cat("good 0.7500  text ", i, "\n");
  }
  EXPECT_EQ(RunAt(server, {"classify"}, lines).out, answers);
  EXPECT_THAT(sizes, ElementsAre(64, 64, 22));
}

TEST(Classify, PrintsSpansWithTheirCharacters) {
  FakeServer server;
  server.classify = [](auto&, auto&, v1::ClassifyResponse& response) {
    auto* span = response.add_results()->mutable_value()->add_spans();
    span->set_begin(4);
    span->set_end(8);
    span->mutable_label()->set_label("PLACE");
    span->mutable_label()->set_score(0.5);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"classify", "à la Köln."}).out, "PLACE 0.5000  4-8   Köl\n");
}

TEST(Classify, JsonIsOneResultALine) {
  FakeServer server;
  server.classify = CallGood;
  const Outcome run = RunAt(server, {"classify", "--json", "one", ""});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_THAT(
      run.out,
      HasSubstr("{\"value\":{\"labels\":[{\"label\":\"good\",\"index\":0,\"score\":0.75}],\"spans\":[]}}\n"
                "{\"error\":{\"code\":3,"));
}

TEST(Classify, AServerThatForgetsAnInputIsFoundOut) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  EXPECT_THAT(RunAt(server, {"classify", "one"}).err, HasSubstr("the server gave 0 results for 1 inputs"));
}

TEST(Embed, PrintsNumbersThatAreTheSameWhenReadAgain) {
  FakeServer server;
  server.embed = [](auto&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
    EXPECT_EQ(request.options().normalize(), v1::EmbedOptions::NORMALIZE_NO);
    for (const float number : {0.1f, -2.0f}) response.add_results()->mutable_value()->add_vector(number);
    response.mutable_results()->DeleteSubrange(1, 1);
    response.mutable_results(0)->mutable_value()->add_vector(1.0f / 3);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"embed", "--nonormalize", "text"}).out, "0.100000001 0.333333343\n");
}

TEST(Score, SendsTheContextWithEachContinuation) {
  FakeServer server;
  v1::ScoreRequest sent;
  server.score = [&](auto&, const v1::ScoreRequest& request, v1::ScoreResponse& response) {
    sent = request;
    for (int i = 0; i < request.inputs_size(); ++i) {
      v1::Scored* value = response.add_results()->mutable_value();
      value->set_logprob(-1.5);
      value->set_tokens(2);
      value->add_by_token()->set_text("\xc3");
    }
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"score", "--context=To be", "--by_token", " or", " and"});
  EXPECT_EQ(run.out,
            "-1.5000  2 tokens   or\n  0.0000  \"\\xc3\"\n-1.5000  2 tokens   and\n  0.0000  \"\\xc3\"\n");
  EXPECT_EQ(sent.inputs(1).ShortDebugString(), "context { text: \"To be\" } continuation { text: \" and\" }");
  RunAt(server, {"score", " or"});
  EXPECT_FALSE(sent.inputs(0).has_context());
  EXPECT_EQ(RunAt(server, {"score", "--as=pair", "a\tb"}).exit, kUsage);
}

TEST(Fill, PrintsTheLikeliestTokensOfAPosition) {
  FakeServer server;
  server.fill = [](auto&, const v1::FillRequest& request, v1::FillResponse& response) {
    EXPECT_EQ(request.options().top(), 2);
    v1::Filled::Position* position = response.add_results()->mutable_value()->add_positions();
    position->set_position(3);
    position->add_tokens()->set_text("cat");
    position->add_tokens()->set_text("dog");
    position->mutable_tokens(1)->set_logprob(-100);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"fill", "--top=2", "the [MASK]"}).out,
            "position 3:  \"cat\" 1.0000  \"dog\" 0.0000\n");
}

TEST(Generate, WritesThePiecesAndSaysAtTheEndWhyItEnded) {
  FakeServer server;
  v1::GenerateRequest sent;
  server.generate = [&](auto&, const v1::GenerateRequest& request,
                        grpc::ServerWriter<v1::GenerateEvent>& out) {
    sent = request;
    for (const auto& event : {Piece("To "), Piece("be"), Finished(2)}) out.Write(event);
    return grpc::Status::OK;
  };
  const Outcome run =
      RunAt(server, {"generate", "--max_tokens=2", "--temperature=0", "--seed=7", "--stop=,", "Once"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(run.out, "To be\n");
  EXPECT_THAT(run.err, MatchesRegex("\\[MAX_TOKENS, 2 tokens, [0-9.]+ tokens/s\\]\n"));
  EXPECT_EQ(sent.ShortDebugString(),
            "target { } inputs { text: \"Once\" } text { } sampling { temperature: 0 seed: 7 } stopping { "
            "max_tokens: 2 "
            "stop: \",\" } details { } samples: 1");
}

TEST(Generate, APipeIsOnePrompt) {
  FakeServer server;
  v1::GenerateRequest sent;
  server.generate = [&](auto&, const v1::GenerateRequest& request, auto&) {
    sent = request;
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"generate"}, "Two\nlines\n").exit, kDone);
  EXPECT_EQ(sent.inputs(0).text(), "Two\nlines");
  EXPECT_FALSE(sent.sampling().has_temperature());
}

TEST(Generate, TextsThatComeTogetherAreWrittenOneAfterAnother) {
  FakeServer server;
  server.generate = [](auto&, const v1::GenerateRequest& request,
                       grpc::ServerWriter<v1::GenerateEvent>& out) {
    EXPECT_EQ(request.samples(), 2);
    out.Write(Piece("second", 0, 1));
    out.Write(Piece("fi", 0, 0));
    out.Write(Finished(1, 0, 1));
    out.Write(Piece("rst", 0, 0));
    out.Write(Finished(2, 0, 0));
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"generate", "--samples=2", "Once"});
  EXPECT_EQ(run.out, "first\nsecond\n");
  EXPECT_THAT(
      run.err,
      MatchesRegex("\\[input 1, sample 1: MAX_TOKENS, 2 .*\\]\n\\[input 1, sample 2: MAX_TOKENS, 1 .*\\]\n"));
}

TEST(Generate, BeamsComeBestFirstWithTheirScores) {
  FakeServer server;
  v1::GenerateRequest sent;
  server.generate = [&](auto&, const v1::GenerateRequest& request,
                        grpc::ServerWriter<v1::GenerateEvent>& out) {
    sent = request;
    for (int sample : {0, 1}) {
      out.Write(Piece(sample == 0 ? "best" : "other", 0, sample));
      v1::GenerateEvent last = Finished(3, 0, sample);
      last.mutable_finished()->set_score(-1.25 - sample);
      out.Write(last);
    }
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"generate", "--beams=4", "--length_penalty=0.5", "--results=2", "Once"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(run.out, "best\nother\n");
  EXPECT_THAT(run.err, HasSubstr("sample 1: MAX_TOKENS, 3 tokens, score -1.2500, "));
  EXPECT_THAT(run.err, HasSubstr("sample 2: MAX_TOKENS, 3 tokens, score -2.2500, "));
  EXPECT_EQ(sent.beam().ShortDebugString(), "width: 4 length_penalty: 0.5 results: 2");
}

TEST(Generate, AnErrorOfOnePromptIsTold) {
  FakeServer server;
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    v1::GenerateEvent event;
    event.set_input(1);
    event.mutable_error()->set_code(3);
    event.mutable_error()->set_message("input has 600 tokens");
    out.Write(event);
    out.Write(Piece("fine"));
    out.Write(Finished(1));
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"generate", "a", "b"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.out, "fine\n");
  EXPECT_THAT(run.err, HasSubstr("heed: input 2, sample 1: INVALID_ARGUMENT: input has 600 tokens\n"));
}

TEST(Generate, AnEventOfNobodyIsPassedOver) {
  FakeServer server;
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    for (const auto& event : {Piece("x", 7, 0), Piece("x", -1, 0), Piece("x", 0, 3), Piece("x", 0, -1)})
      out.Write(event);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"generate", "a"}).out, "");
}

TEST(Generate, LogprobsAreALineAToken) {
  FakeServer server;
  server.generate = [](auto&, const v1::GenerateRequest& request,
                       grpc::ServerWriter<v1::GenerateEvent>& out) {
    EXPECT_TRUE(request.details().logprobs());
    v1::GenerateEvent event = Piece("a\n");
    v1::TokenLogprob* token = event.mutable_piece()->add_logprobs();
    token->set_text("a\n");
    token->set_logprob(-0.25);
    out.Write(event);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"generate", "--logprobs", "x"}).out, "-0.2500  \"a\\n\"\n");
}

TEST(Generate, JsonIsOneEventALine) {
  FakeServer server;
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    out.Write(Piece("a"));
    out.Write(Piece("b"));
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"generate", "--json", "x"}).out,
            "{\"input\":0,\"sample\":0,\"piece\":{\"text\":\"a\",\"tokens\":[],\"logprobs\":[]}}\n"
            "{\"input\":0,\"sample\":0,\"piece\":{\"text\":\"b\",\"tokens\":[],\"logprobs\":[]}}\n");
}

TEST(Generate, AnInterruptEndsTheCallAndTheLine) {
  FakeServer server;
  std::stop_source stop;
  server.generate = [&](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    for (int pieces = 0; out.Write(Piece("again ")); ++pieces) {
      if (pieces == 3) stop.request_stop();
    }
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"generate", "x"}, "", stop.get_token());
  EXPECT_EQ(run.exit, kInterrupted);
  EXPECT_THAT(run.out, MatchesRegex("((again )+\n)?"));
  EXPECT_EQ(run.err, "");
}

TEST(Models, AreListedWithTheirState) {
  FakeServer server;
  server.list = [](auto&, auto&, v1::ListModelsResponse& response) {
    auto* good = response.add_models();
    good->set_model("polarity");
    good->set_version("1");
    good->set_state(v1::MODEL_STATE_READY);
    auto* bad = response.add_models();
    bad->set_model("broken");
    bad->set_state(v1::MODEL_STATE_FAILED);
    bad->set_error("config.json: no such file");
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"models"});
  EXPECT_THAT(run.out, MatchesRegex("polarity +1 +READY\nbroken +FAILED  config.json: no such file\n"));
}

TEST(Describe, IsAPageWithWhatATokenCosts) {
  FakeServer server;
  server.describe = [](auto&, const v1::DescribeModelRequest& request, v1::ModelDescription& description) {
    description.set_model(request.model());
    description.set_parameters(1234567);
    description.set_weight_bytes(25'500'000);
    description.set_precision("bf16");
    description.add_labels("bad");
    description.add_labels("good");
    auto* cost = description.add_costs();
    cost->set_tokens(1024);
    cost->set_state_bytes(4096 * 1024);
    cost->set_multiply_adds(3e9);
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"describe", "polarity"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("model         polarity\n"), HasSubstr("parameters    1,234,567\n"),
                    HasSubstr("weights       25.5 MB in memory, bf16\n"),
                    HasSubstr("labels        bad, good\n"), HasSubstr("longest       any length\n")));
  EXPECT_THAT(run.out, HasSubstr("     1,024           4.2 MB            4,096          3e+09\n"));
  EXPECT_EQ(RunAt(server, {"describe", "a", "b"}).exit, kUsage);
}

TEST(Health, ExitStatusSaysWhetherItIsReady) {
  using grpc::health::v1::HealthCheckResponse;
  FakeServer server;
  server.check = [](auto&, const auto& request, HealthCheckResponse& response) {
    if (request.service() == "nobody") return grpc::Status(grpc::NOT_FOUND, "unknown service");
    response.set_status(request.service().empty() ? HealthCheckResponse::SERVING
                                                  : HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"health"}).exit, kDone);
  EXPECT_EQ(RunAt(server, {"health"}).out, "SERVING\n");
  EXPECT_EQ(RunAt(server, {"health", "--model=loading"}).exit, kFailed);
  EXPECT_EQ(RunAt(server, {"health", "--model=loading"}).out, "NOT_SERVING\n");
  EXPECT_EQ(RunAt(server, {"health", "--model=nobody"}).exit, kFailed);
}

}  // namespace
}  // namespace heed
