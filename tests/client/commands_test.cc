// The commands against a server of the test's own, without a process.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "client/cli/command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr Command kCommands[] = {
    {"classify", "[flags] [TEXT...]", "Labels.", Classify}, {"embed", "[flags] [TEXT...]", "Vectors.", Embed},
    {"score", "[flags] [TEXT...]", "Likelihoods.", Score},  {"fill", "[flags] [TEXT...]", "Masks.", Fill},
    {"generate", "[flags] [PROMPT...]", "Text.", Generate}, {"models", "[flags]", "A list.", Models},
    {"describe", "[flags] [MODEL]", "A page.", Describe},   {"info", "[flags]", "The server.", Info},
    {"health", "[flags]", "Ready or not.", Health},
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
  for (const char* flag :
       {"--samples=17", "--temperature=-1", "--top_p=2", "--top_k=0", "--max_tokens=0", "--typical_p=0",
        "--repetition_penalty=0", "--presence_penalty=3", "--stop_token=-1"}) {
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

TEST(Commands, TellTheirVersion) {
  const Outcome run = Heed({"--version"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_THAT(run.out, MatchesRegex("heed [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Commands, AFailedCallOfAServerWithoutReasonsHasItsCodeMessageAndAdvice) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status(grpc::NOT_FOUND, "no model 'x'"); };
  const Outcome run = RunAt(server, {"classify", "--model=x", "text"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.err, "heed: NOT_FOUND: no model 'x'\n`heed models` lists what the server has\n");
  EXPECT_EQ(run.out, "");
}

// What `heed classify --model=polarity` says of a call that fails so.
std::string SaidOf(grpc::StatusCode code, const SaidDetails& said, const std::string& message = "why") {
  FakeServer server;
  server.classify = [&](auto&, auto&, auto&) { return Refusal(code, message, said); };
  // One attempt: the time is over before the server's delay.
  return RunAt(server, {"classify", "--model=polarity", "--timeout=20s", "text"}).err;
}

TEST(Advice, FitsTheReason) {
  const struct {
    grpc::StatusCode code;
    const char *reason, *advice;
  } kCases[] = {
      {grpc::FAILED_PRECONDITION, "MODEL_FAILED", "`heed models` shows why; the others answer"},
      {grpc::INVALID_ARGUMENT, "RPC_UNSUPPORTED", "`heed describe polarity` says what it answers"},
      {grpc::INVALID_ARGUMENT, "INPUT_KIND_UNSUPPORTED", "`heed describe polarity` says what it reads"},
      {grpc::INVALID_ARGUMENT, "TEXT_TOO_LARGE", "`heed info` shows the server's limits"},
      {grpc::UNAVAILABLE, "MODEL_LOADING",
       "it is being loaded: try again later; `heed health --model=polarity` says when it is ready"},
      {grpc::RESOURCE_EXHAUSTED, "QUEUE_FULL", "the model has more to do than it can hold: try again later"},
  };
  for (const auto& [code, reason, advice] : kCases)
    EXPECT_EQ(SaidOf(code, {.reason = reason}), Cat("heed: ", reason, ": why\n", advice, "\n"));
}

TEST(Advice, SaysWhenToTryAgainAndUnderWhichIdTheLogHasIt) {
  FakeServer server;
  server.classify = [](grpc::ServerContext& context, auto&, auto&) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "-1");
    return Refusal(grpc::RESOURCE_EXHAUSTED, "the queue is full",
                   {.reason = "QUEUE_FULL", .request_id = "r-7", .retry_milliseconds = 250});
  };
  EXPECT_EQ(RunAt(server, {"classify", "text"}).err,
            "heed: QUEUE_FULL: the queue is full\n"
            "the model has more to do than it can hold: try again in 250ms\nrequest r-7\n");
}

TEST(Advice, NamesTheModelsWhereThereIsNoSuch) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) {
    return Refusal(grpc::NOT_FOUND, "no model 'polrity' is served", {.reason = "MODEL_NOT_FOUND"});
  };
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    for (const char* name : {"g2p", "polarity"}) response.add_models()->set_model(name);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"classify", "--model=polrity", "text"}).err,
            "heed: MODEL_NOT_FOUND: no model 'polrity' is served\n"
            "did you mean 'polarity'? the server has g2p, polarity\n");
  EXPECT_THAT(RunAt(server, {"classify", "--model=xyz", "text"}).err,
              EndsWith("served\nthe server has g2p, polarity\n"));
  server.list_models = nullptr;
  EXPECT_THAT(RunAt(server, {"classify", "--model=xyz", "text"}).err,
              EndsWith("`heed models` lists what the server has\n"));
}

// What a hostile server could say: a colour, a title, an 8-bit sequence, text that runs backwards.
constexpr char kHostile[] = "\x1b[31m\x1b]0;t\x07\u009b31m\u202eabc\u2066\u200f";

TEST(Screen, NothingThatAServerSaysIsObeyed) {
  FakeServer server;
  const auto refuse = [](auto&, auto&, auto&) {
    return Refusal(grpc::NOT_FOUND, kHostile,
                   {.reason = kHostile, .field = kHostile, .request_id = kHostile});
  };
  server.embed = refuse;
  server.classify = [](auto&, auto&, v1::ClassifyResponse& response) {
    v1::LabelScore* label = response.add_results()->mutable_value()->add_labels();
    label->set_label(kHostile);
    response.add_results()->mutable_error()->set_message(kHostile);
    response.mutable_results(1)->mutable_error()->set_reason(kHostile);
    return grpc::Status::OK;
  };
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    v1::ModelSummary* model = response.add_models();
    model->set_model(kHostile);
    model->set_version(kHostile);
    model->mutable_error()->set_message(kHostile);
    return grpc::Status::OK;
  };
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    for (std::string* text : {model.mutable_model(), model.mutable_version(), model.mutable_description(),
                              model.add_labels(), model.add_attention(), model.add_rpcs()})
      *text = kHostile;
    model.set_state(v1::MODEL_STATE_READY);
    model.mutable_default_stopping()->add_stop(kHostile);
    model.add_weights_files()->set_name(kHostile);
    model.mutable_weights_files(0)->set_sha256(kHostile);
    return grpc::Status::OK;
  };
  server.describe_server = [](auto&, auto&, v1::ServerDescription& description) {
    for (std::string* text :
         {description.mutable_version(), description.mutable_build()->mutable_compiler(),
          description.mutable_build()->mutable_libraries(), description.mutable_build()->mutable_isa(),
          description.add_features(), description.add_models()->mutable_model()})
      *text = kHostile;
    return grpc::Status::OK;
  };
  server.score = [](auto&, auto&, v1::ScoreResponse& response) {
    v1::TokenLogprob* token = response.add_results()->mutable_value()->add_logprobs();
    token->set_text(kHostile);
    token->set_bytes(kHostile);
    token->add_top()->set_bytes(kHostile);
    return grpc::Status::OK;
  };
  server.fill = [](auto&, auto&, v1::FillResponse& response) {
    v1::TopLogprob* token = response.add_results()->mutable_value()->add_positions()->add_tokens();
    token->set_text(kHostile);
    token->set_bytes(kHostile);
    return grpc::Status::OK;
  };
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    v1::GenerateEvent last = Finished(1);
    last.mutable_finished()->set_stop_string(kHostile);
    for (const auto& event : {Piece(kHostile), last}) out.Write(event);
    return Refusal(grpc::INTERNAL, kHostile, {.reason = kHostile});
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{"classify", "a", "b"},
                                                {"embed", "a"},
                                                {"models"},
                                                {"describe"},
                                                {"info"},
                                                {"score", "a"},
                                                {"fill", "a"},
                                                {"generate", "a"}}) {
    for (const bool json : {false, true}) {
      std::vector<std::string> command = words;
      if (json) command.push_back("--json");
      command.push_back("--address=" + server.address());
      std::istringstream in;
      std::ostringstream out, err;
      Terminal terminal{in, out, err, false, /*out_is_screen=*/true, /*err_is_screen=*/true};
      RunCommand(kCommands, command, terminal);
      for (const std::string& shown : {out.str(), err.str()}) {
        for (const char* obeyed : {"\x1b", "\x07", "\u009b", "\u202e", "\u2066", "\u200f"})
          EXPECT_THAT(shown, Not(HasSubstr(obeyed))) << words[0];
      }
      EXPECT_THAT(out.str() + err.str(), HasSubstr("abc")) << words[0];
    }
  }
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
  EXPECT_EQ(run.out, "good 0.7500  A fine film.\ngood 0.7500  Two lines \\x1b[31mred\n");
}

TEST(Classify, SendsWhatTheFlagsSay) {
  FakeServer server;
  v1::ClassifyRequest sent;
  server.classify = [&](auto& context, const v1::ClassifyRequest& request, auto& response) {
    sent = request;
    return CallGood(context, request, response);
  };
  ASSERT_EQ(RunAt(server, {"classify", "--model=m", "--version=2", "--priority=-3", "--truncate",
                           "--nospecial_tokens", "--top=3", "--threshold=0.5", "--spans", "text"})
                .exit,
            kDone);
  EXPECT_EQ(
      sent.ShortDebugString(),
      "target { model: \"m\" version: \"2\" priority: -3 } inputs { text: \"text\" } text { truncate: true "
      "without_special_tokens: true } options { top: 3 threshold: 0.5 all_tokens: true }");
  ASSERT_EQ(RunAt(server, {"classify", "--raw", "text"}).exit, kDone);
  EXPECT_TRUE(sent.options().raw_scores());
}

TEST(Classify, RawScoresAndAThresholdExcludeEachOther) {
  const Outcome run = Heed({"classify", "--raw", "--threshold=0.5", "text"});
  EXPECT_EQ(run.exit, kUsage);
  EXPECT_THAT(run.err, HasSubstr("--raw and --threshold exclude each other: it is of probabilities"));
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
  server.embed = [](auto&, auto&, v1::EmbedResponse& response) {
    v1::Embedding* value = response.add_results()->mutable_value();
    for (const float number : {0.1f, 1.0f / 3}) value->add_vector(number);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"embed", "text"}).out, "0.100000001 0.333333343\n");
}

TEST(Embed, NormalizesAsTheFlagSays) {
  FakeServer server;
  v1::EmbedRequest sent;
  server.embed = [&](auto&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
    sent = request;
    response.add_results()->mutable_value();
    return grpc::Status::OK;
  };
  RunAt(server, {"embed", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_UNSPECIFIED);
  RunAt(server, {"embed", "--normalize=yes", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_YES);
  RunAt(server, {"embed", "--normalize=no", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_NO);
  RunAt(server, {"embed", "--normalize=model", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_UNSPECIFIED);
  EXPECT_THAT(Heed({"embed", "--normalize=perhaps", "text"}).err,
              HasSubstr("--normalize=perhaps: must be model, yes or no"));
}

TEST(Score, SendsTheContextWithEachContinuation) {
  FakeServer server;
  v1::ScoreRequest sent;
  server.score = [&](auto&, const v1::ScoreRequest& request, v1::ScoreResponse& response) {
    sent = request;
    for (int i = 0; i < request.inputs_size(); ++i) {
      v1::Scored* value = response.add_results()->mutable_value();
      value->set_logprob(-1.5);
      value->set_scored_tokens(2);
      value->add_logprobs()->set_bytes("\xc3");
      v1::TopLogprob* other = value->mutable_logprobs(0)->add_top();
      other->set_bytes("be");
      other->set_logprob(-0.5);
    }
    return grpc::Status::OK;
  };
  const Outcome run =
      RunAt(server, {"score", "--context=To be", "--logprobs", "--top_logprobs=1", " or", " and"});
  EXPECT_EQ(run.out,
            "-1.5000  2 tokens   or\n  0.0000  \"\\xc3\"  -0.5000 \"be\"\n"
            "-1.5000  2 tokens   and\n  0.0000  \"\\xc3\"  -0.5000 \"be\"\n");
  EXPECT_EQ(sent.options().ShortDebugString(), "logprobs: true top_logprobs: 1");
  EXPECT_EQ(sent.inputs(1).ShortDebugString(), "context { text: \"To be\" } continuation { text: \" and\" }");
  RunAt(server, {"score", " or"});
  EXPECT_FALSE(sent.inputs(0).has_context());
  EXPECT_EQ(RunAt(server, {"score", "--as=pair", "a\tb"}).exit, kUsage);
}

TEST(Fill, PrintsTheLikeliestTokensOfAPosition) {
  FakeServer server;
  server.fill = [](auto&, const v1::FillRequest& request, v1::FillResponse& response) {
    EXPECT_EQ(request.options().ShortDebugString(), "top: 2 positions: 3 positions: 1");
    v1::Filled::Position* position = response.add_results()->mutable_value()->add_positions();
    position->set_position(3);
    position->add_tokens()->set_bytes("cat");
    position->add_tokens()->set_bytes("dog");
    position->mutable_tokens(1)->set_logprob(-100);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"fill", "--top=2", "--position=3", "--position=1", "the [MASK]"}).out,
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
            "stop: \",\" } details { }");
}

TEST(Generate, EveryOptionOfTheApiIsAFlag) {
  FakeServer server;
  v1::GenerateRequest sent;
  server.generate = [&](auto&, const v1::GenerateRequest& request, auto&) {
    sent = request;
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"generate",
                                     "--logit_bias=17:-2.5",
                                     "--logit_bias=4:100",
                                     "--repetition_penalty=1.25",
                                     "--presence_penalty=-2",
                                     "--frequency_penalty=0.5",
                                     "--temperature=0.5",
                                     "--top_k=50",
                                     "--typical_p=0.75",
                                     "--top_p=0.5",
                                     "--min_p=0.25",
                                     "--seed=7",
                                     "--samples=3",
                                     "--max_tokens=9",
                                     "--min_tokens=2",
                                     "--stop=.",
                                     "--stop_token=3",
                                     "--stop_token=0",
                                     "--include_stop",
                                     "--ignore_eos",
                                     "--tokens",
                                     "--logprobs",
                                     "--top_logprobs=4",
                                     "Once"});
  ASSERT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(sent.sampling().logit_bias().at(17), -2.5);
  EXPECT_EQ(sent.sampling().logit_bias().at(4), 100);
  sent.mutable_sampling()->clear_logit_bias();
  EXPECT_EQ(sent.sampling().ShortDebugString(),
            "repetition_penalty: 1.25 presence_penalty: -2 frequency_penalty: 0.5 temperature: 0.5 top_k: 50 "
            "typical_p: 0.75 top_p: 0.5 min_p: 0.25 seed: 7 samples: 3");
  EXPECT_EQ(
      sent.stopping().ShortDebugString(),
      "max_tokens: 9 min_tokens: 2 stop: \".\" stop_tokens: 3 stop_tokens: 0 include_stop: true ignore_eos: "
      "true");
  EXPECT_EQ(sent.details().ShortDebugString(), "tokens: true logprobs: true top_logprobs: 4");
}

// Each field of the request's options has a flag: one that is added to the API is missed here.
TEST(Generate, NoFieldOfTheOptionsIsForgotten) {
  const std::string help = Heed({"help", "generate"}).out;
  const std::map<std::string, std::string> kOtherNames = {{"stop_tokens", "stop_token"}, {"width", "beams"}};
  for (const google::protobuf::Descriptor* options :
       {v1::SamplingOptions::descriptor(), v1::BeamOptions::descriptor(), v1::StoppingOptions::descriptor(),
        v1::GenerateDetails::descriptor()}) {
    for (int i = 0; i < options->field_count(); ++i) {
      const std::string name = options->field(i)->name();
      const auto other = kOtherNames.find(name);
      EXPECT_THAT(help, HasSubstr(Cat("  --", other == kOtherNames.end() ? name : other->second, " ")));
    }
  }
}

TEST(Generate, FlagsThatExcludeEachOtherAreNamed) {
  const struct {
    std::vector<std::string> flags;
    const char* message;
  } kCases[] = {
      {{"--beams=4", "--temperature=1"},
       "--temperature and --beams exclude each other: a beam search draws nothing"},
      {{"--beams=4", "--samples=2"}, "--samples and --beams exclude each other"},
      {{"--beams=4", "--logit_bias=1:2"}, "--logit_bias and --beams exclude each other"},
      {{"--beams=4", "--stop=x"}, "--stop and --beams exclude each other"},
      {{"--beams=4", "--min_tokens=2"}, "--min_tokens and --beams exclude each other"},
      {{"--beams=4", "--top_logprobs=2"}, "--top_logprobs and --beams exclude each other"},
      {{"--results=2"}, "--results needs --beams"},
      {{"--length_penalty=1"}, "--length_penalty needs --beams"},
      {{"--beams=2", "--results=3"}, "--results=3: --beams=2 finds fewer"},
      {{"--min_tokens=5", "--max_tokens=4"}, "--min_tokens=5 is above --max_tokens=4"},
  };
  for (const auto& [flags, message] : kCases) {
    std::vector<std::string> words = {"generate", "--address=127.0.0.1:1"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("Once");
    const Outcome run = Heed(words);
    EXPECT_EQ(run.exit, kUsage);
    EXPECT_THAT(run.err, HasSubstr(message));
  }
}

TEST(Generate, ABiasIsAnIdAndANumber) {
  for (const char* bias : {"17", ":1", "17:", "-1:0", "17:101", "17:nan", "x:1", "17:1:2"}) {
    const Outcome run = Heed({"generate", Cat("--logit_bias=", bias), "Once"});
    EXPECT_EQ(run.exit, kUsage) << bias;
    EXPECT_THAT(run.err, HasSubstr("must be ID:VALUE, a token's id and a number of -100 to 100"));
  }
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
    EXPECT_EQ(request.sampling().samples(), 2);
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
    token->set_bytes("a\n");
    token->set_logprob(-0.25);
    out.Write(event);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"generate", "--logprobs", "x"}).out, "-0.2500  \"a\\n\"\n");
}

TEST(Generate, JsonIsOneEventALineWithReadableText) {
  FakeServer server;
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    v1::GenerateEvent event = Piece("é");
    v1::TokenLogprob* token = event.mutable_piece()->add_logprobs();
    token->set_text("é");
    token->set_bytes("é");
    out.Write(event);
    out.Write(Piece("b"));
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"generate", "--json", "x"}).out,
            "{\"input\":0,\"sample\":0,\"piece\":{\"text\":\"é\",\"tokens\":[],\"logprobs\":[{\"id\":0,"
            "\"text\":\"é\","
            "\"bytes\":\"w6k=\",\"logprob\":0,\"top\":[]}]}}\n"
            "{\"input\":0,\"sample\":0,\"piece\":{\"text\":\"b\",\"tokens\":[],\"logprobs\":[]}}\n");
}

TEST(Generate, AStopStringIsNamed) {
  FakeServer server;
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    v1::GenerateEvent last = Finished(1);
    last.mutable_finished()->set_reason(v1::FINISH_REASON_STOP_STRING);
    last.mutable_finished()->set_stop_string("\n");
    out.Write(last);
    return grpc::Status::OK;
  };
  EXPECT_THAT(RunAt(server, {"generate", "x"}).err, HasSubstr("[STOP_STRING \"\\n\", 1 tokens, "));
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
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    auto* good = response.add_models();
    good->set_model("polarity");
    good->set_version("1");
    good->set_state(v1::MODEL_STATE_READY);
    auto* bad = response.add_models();
    bad->set_model("broken");
    bad->set_state(v1::MODEL_STATE_FAILED);
    bad->mutable_error()->set_message("config.json: no such file");
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"models"});
  EXPECT_THAT(run.out, MatchesRegex("polarity +1 +READY\nbroken +FAILED  config.json: no such file\n"));
}

// A model of which everything is known.
v1::ModelDescription Known() {
  v1::ModelDescription model;
  model.set_model("polarity");
  model.set_version("2");
  model.set_state(v1::MODEL_STATE_READY);
  model.set_load_seconds(0.25);
  model.set_architecture(v1::ARCHITECTURE_ENCODER_DECODER);
  model.set_head(v1::HEAD_LANGUAGE_MODEL);
  model.set_decode_class(v1::DECODE_CLASS_EXACT);
  model.add_attention("softmax");
  model.add_attention("linear");
  model.add_inputs(v1::INPUT_KIND_TEXT);
  model.add_inputs(v1::INPUT_KIND_PAIR);
  model.add_rpcs("heed.v1.Inference.Score");
  model.add_rpcs("heed.v1.Inference.Generate");
  model.set_parameters(1234567);
  model.set_weight_bytes(25'500'000);
  model.set_precision(v1::PRECISION_BF16);
  model.add_labels("bad");
  model.add_labels("good");
  model.set_embedding_size(384);
  v1::WeightsFile* file = model.add_weights_files();
  file->set_name("model.safetensors");
  file->set_bytes(51'000'000);
  file->set_sha256(std::string(64, 'a'));
  v1::SpecialTokens* special = model.mutable_special_tokens();
  special->set_bos_token_id(1);
  special->add_eos_token_ids(2);
  special->add_eos_token_ids(3);
  special->set_pad_token_id(0);
  special->set_mask_token_id(4);
  special->set_decoder_start_token_id(5);
  model.mutable_default_sampling()->set_temperature(0.5);
  model.mutable_default_sampling()->set_top_k(50);
  model.mutable_default_stopping()->set_max_tokens(256);
  model.set_state_bytes_per_token(4096);
  model.set_state_limit_bytes(2'000'000'000);
  auto* cost = model.add_costs();
  cost->set_tokens(1024);
  cost->set_state_bytes(4096 * 1024);
  cost->set_multiply_adds(3e9);
  return model;
}

TEST(Describe, IsAPageOfAllThatIsKnown) {
  FakeServer server;
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    model = Known();
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"describe", "polarity"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(run.out, Cat("model          polarity\n"
                         "version        2\n"
                         "state          READY, loaded in 0.25 s\n"
                         "architecture   encoder-decoder\n"
                         "attention      softmax, linear\n"
                         "size           0 layers of width 0\n"
                         "head           language-model\n"
                         "labels         bad, good\n"
                         "vectors        of 384 numbers\n"
                         "inputs         text, pair\n"
                         "calls          Score, Generate\n"
                         "decoding       exact\n"
                         "vocabulary     0\n"
                         "special tokens bos 1, eos 2 3, pad 0, mask 4, decoder start 5\n"
                         "longest        any length\n"
                         "source         any length\n"
                         "sampling       temperature: 0.5 top_k: 50\n"
                         "stopping       max_tokens: 256\n"
                         "parameters     1,234,567\n"
                         "weights        25.5 MB in memory, bf16\n"
                         "weights file   model.safetensors, 51.0 MB\n"
                         "sha256         ",
                         std::string(64, 'a'),
                         "\n"
                         "state          4,096 bytes a token more\n"
                         "state at most  2.0 GB\n"
                         "\n"
                         "    tokens            state    bytes a token  multiply-adds\n"
                         "     1,024           4.2 MB            4,096          3e+09\n"));
  EXPECT_EQ(RunAt(server, {"describe", "a", "b"}).exit, kUsage);
}

TEST(Describe, OneThatIsNotReadyIsDescribedWithWhy) {
  FakeServer server;
  server.describe_model = [](auto&, const v1::DescribeModelRequest& request, v1::ModelDescription& model) {
    const bool failed = request.model() == "broken";
    model.set_model(request.model());
    model.set_state(failed ? v1::MODEL_STATE_FAILED : v1::MODEL_STATE_LOADING);
    if (failed) model.mutable_error()->set_message("config.json: no such file");
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"describe", "broken"}).out,
            "model          broken\nstate          FAILED: config.json: no such file\n");
  EXPECT_EQ(RunAt(server, {"describe", "slow"}).out, "model          slow\nstate          LOADING\n");
}

TEST(Info, IsAPageOfTheServer) {
  FakeServer server;
  server.describe_server = [](auto&, auto&, v1::ServerDescription& description) {
    description.set_version("0.2.0");
    description.mutable_build()->set_compiler("GCC 14.2.0");
    description.mutable_build()->set_libraries("gRPC 1.51.1");
    description.mutable_build()->set_isa("avx512_core_bf16");
    description.mutable_build()->set_threads(2);
    description.mutable_started()->set_seconds(1'700'000'000);
    description.add_features("reflection");
    description.mutable_limits()->set_inputs(1024);
    description.mutable_limits()->set_deadline_seconds(600);
    v1::ModelSummary* model = description.add_models();
    model->set_model("polarity");
    model->set_version("1");
    model->set_state(v1::MODEL_STATE_LOADING);
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"info"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_THAT(run.out, AllOf(HasSubstr("version        0.2.0\n"), HasSubstr("compiler       GCC 14.2.0\n"),
                             HasSubstr("libraries      gRPC 1.51.1\n"),
                             HasSubstr("computes with  2 threads, avx512_core_bf16\n"),
                             HasSubstr("started        2023-11-14T22:13:20Z\n"),
                             HasSubstr("features       reflection\n"), HasSubstr("at most 1,024 inputs"),
                             HasSubstr("at most 600 s a request"),
                             HasSubstr("polarity             1          LOADING\n")));
  EXPECT_THAT(RunAt(server, {"info", "--json"}).out, HasSubstr("\"version\":\"0.2.0\""));
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
}  // namespace heed::cli
