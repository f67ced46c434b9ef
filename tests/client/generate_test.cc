// heed generate: flags to options, events to text.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "engine/images/decode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"
#include "tests/engine/base/temp_folder.h"

namespace heed::cli {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

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
                                     "--first_token=8",
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
  EXPECT_EQ(sent.first_token(), 8);
  ASSERT_EQ(RunAt(server, {"generate", "--beams=2", "--early_stopping", "Once"}).exit, kDone);
  EXPECT_EQ(sent.beam().ShortDebugString(), "width: 2 early_stopping: true");
  ASSERT_EQ(RunAt(server, {"generate", "Once"}).exit, kDone);
  EXPECT_EQ(sent.strategy_case(), v1::GenerateRequest::STRATEGY_NOT_SET) << "as the model does by default";
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
      {{"--early_stopping"}, "--early_stopping needs --beams"},
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

// A server whose model draws 2 x 3 pixels of 5 levels.
void DrawSmall(FakeServer& server, int channels, v1::GenerateRequest* sent) {
  server.describe_model = [channels](auto&, const auto&, v1::ModelDescription& model) {
    auto* image = model.mutable_generated_image();
    image->set_height(2);
    image->set_width(3);
    image->set_channels(channels);
    image->set_levels(5);
    return grpc::Status::OK;
  };
  server.generate = [channels, sent](auto&, const v1::GenerateRequest& request,
                                     grpc::ServerWriter<v1::GenerateEvent>& out) {
    *sent = request;
    for (int sample = 0; sample < std::max(1, request.sampling().samples()); ++sample) {
      for (int i = request.inputs(0).tokens().ids_size(); i < 6 * channels; ++i) {
        v1::GenerateEvent event = Piece("", 0, sample);
        event.mutable_piece()->add_tokens(i % 5);
        out.Write(event);
      }
      out.Write(Finished(6 * channels, 0, sample));
    }
    return grpc::Status::OK;
  };
}

// Red, green and blue, pixel by pixel.
std::vector<int> ReadPng(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const auto image = DecodeImage(std::string(std::istreambuf_iterator<char>(in), {}));
  EXPECT_TRUE(image.ok()) << file << ": " << image.status();
  if (!image.ok()) return {};
  EXPECT_EQ(image->width, 3);
  EXPECT_EQ(image->height, 2);
  return {image->values.begin(), image->values.end()};
}

std::vector<int> Grey(const std::vector<int>& levels) {
  std::vector<int> pixels;
  for (const int level : levels) pixels.insert(pixels.end(), 3, level);
  return pixels;
}

TEST(Generate, WritesTheImageThatAModelDraws) {
  const TempFolder folder;
  FakeServer server;
  v1::GenerateRequest sent;
  DrawSmall(server, 1, &sent);
  const Outcome run = RunAt(server, {"generate", "--png=" + (folder / "a.png")});
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("a.png]"));
  ASSERT_EQ(sent.inputs_size(), 1);
  EXPECT_TRUE(sent.inputs(0).has_tokens()) << "it begins with its first pixel";
  EXPECT_EQ(ReadPng(folder / "a.png"), Grey({0, 64, 128, 191, 255, 0}));
}

TEST(Generate, WritesWhatAPromptHasBegunAndSamplesInFilesOfTheirOwn) {
  const TempFolder folder;
  FakeServer server;
  v1::GenerateRequest sent;
  DrawSmall(server, 1, &sent);
  const Outcome run =
      RunAt(server, {"generate", "--png=" + (folder / "a.png"), "--as=tokens", "--samples=2", "4 4 4"});
  EXPECT_EQ(run.exit, kDone) << run.err;
  for (const char* file : {"a-1.png", "a-2.png"})
    EXPECT_EQ(ReadPng(folder / file), Grey({255, 255, 255, 191, 255, 0}));
}

TEST(Generate, PutsTheChannelsOfAPixelBesideOneAnother) {
  const TempFolder folder;
  FakeServer server;
  v1::GenerateRequest sent;
  DrawSmall(server, 3, &sent);
  EXPECT_EQ(RunAt(server, {"generate", "--png=" + (folder / "a.png")}).exit, kDone);
  EXPECT_EQ(ReadPng(folder / "a.png"),
            (std::vector<int>{0, 64, 128, 64, 128, 191, 128, 191, 255, 191, 255, 0, 255, 0, 64, 0, 64, 128}));
}

TEST(Generate, WritesNoImageThatNothingWasDrawnOf) {
  const TempFolder folder;
  FakeServer server;
  v1::GenerateRequest sent;
  DrawSmall(server, 1, &sent);
  server.generate = [](auto&, auto&, auto&) { return grpc::Status(grpc::INTERNAL, "it has failed"); };
  const Outcome run = RunAt(server, {"generate", "--png=" + (folder / "a.png"), "--as=tokens", "4"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_THAT(run.err, HasSubstr("it has failed"));
  EXPECT_FALSE(std::ifstream(folder / "a.png").is_open());
}

TEST(Generate, SaysWhyThereIsNoImage) {
  const TempFolder folder;
  v1::GenerateRequest sent;
  FakeServer many, writer, small;
  DrawSmall(many, 5, &sent);
  const Outcome channels = RunAt(many, {"generate", "--png=" + (folder / "a.png")});
  EXPECT_EQ(channels.exit, kFailed);
  EXPECT_THAT(channels.err, HasSubstr("images of 5 channels, a PNG file has 1 to 4"));
  writer.describe_model = [](auto&, const auto&, v1::ModelDescription& model) {
    model.set_model("writer");
    return grpc::Status::OK;
  };
  const Outcome none = RunAt(writer, {"generate", "--png=" + (folder / "a.png")});
  EXPECT_EQ(none.exit, kFailed);
  EXPECT_THAT(none.err, HasSubstr("'writer' draws no images"));
  DrawSmall(small, 1, &sent);
  const Outcome nowhere = RunAt(small, {"generate", "--png=" + (folder / "nowhere/a.png")});
  EXPECT_EQ(nowhere.exit, kFailed);
  EXPECT_THAT(nowhere.err, HasSubstr("nowhere/a.png: No such file"));
}

}  // namespace
}  // namespace heed::cli
