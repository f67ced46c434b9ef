// heed classify; and with it the loop from many texts to their answers that others share.
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Answers as CallGood does, and keeps the request.
auto GoodThatKeeps(v1::ClassifyRequest* sent) {
  return [sent](auto& context, const v1::ClassifyRequest& request, auto& response) {
    *sent = request;
    return CallGood(context, request, response);
  };
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
  server.classify = GoodThatKeeps(&sent);
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

TEST(Classify, GlobalTokensAreOfEachText) {
  FakeServer server;
  v1::ClassifyRequest sent;
  server.classify = GoodThatKeeps(&sent);
  ASSERT_EQ(RunAt(server, {"classify", "--global-tokens", "5,0", "one", "two"}).exit, kDone);
  for (const v1::Input& input : sent.inputs())
    EXPECT_EQ(input.global_tokens().ShortDebugString(), "positions: 5 positions: 0");
  ASSERT_EQ(RunAt(server, {"classify", "--global_tokens=", "one"}).exit, kDone);
  EXPECT_TRUE(sent.inputs(0).has_global_tokens()) << "none, whatever the model says";
  EXPECT_EQ(sent.inputs(0).global_tokens().positions_size(), 0);
  ASSERT_EQ(RunAt(server, {"classify", "one"}).exit, kDone);
  EXPECT_FALSE(sent.inputs(0).has_global_tokens());
  const Outcome wrong = RunAt(server, {"classify", "--global_tokens=0,-5", "one"});
  EXPECT_EQ(wrong.exit, kUsage);
  EXPECT_THAT(wrong.err,
              HasSubstr("--global_tokens=0,-5: must be places of tokens, whole numbers of at least 0 "
                        "with commas between"));
}

TEST(Classify, AGlobalInputIsOfEachText) {
  FakeServer server;
  v1::ClassifyRequest sent;
  server.classify = GoodThatKeeps(&sent);
  ASSERT_EQ(
      RunAt(server, {"classify", "--global_input=ids: [5, 9] membership: [0, 1, -1]", "one", "two"}).exit,
      kDone);
  ASSERT_EQ(sent.inputs_size(), 2);
  for (const v1::Input& input : sent.inputs()) {
    EXPECT_EQ(input.global_input().ShortDebugString(),
              "ids: 5 ids: 9 membership: 0 membership: 1 membership: -1");
  }
  ASSERT_EQ(RunAt(server, {"classify", "--global_input=", "one"}).exit, kDone);
  EXPECT_TRUE(sent.inputs(0).has_global_input()) << "the model's own";
  ASSERT_EQ(RunAt(server, {"classify", "one"}).exit, kDone);
  EXPECT_FALSE(sent.inputs(0).has_global_input());
  const Outcome wrong = RunAt(server, {"classify", "--global_input=5 9", "one"});
  EXPECT_EQ(wrong.exit, kUsage);
  EXPECT_THAT(wrong.err, HasSubstr("--global_input=5 9: must be fields of GlobalInput as protobuf's text"));
}

TEST(Classify, AsksForWeightsOfAttentionAndShowsThemAsJson) {
  FakeServer server;
  v1::ClassifyRequest sent;
  server.classify = [&](auto&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    sent = request;
    auto* attention = response.add_results()->mutable_value()->mutable_attention();
    attention->set_keys(2);
    attention->add_layers()->add_weights(0.25);
    return grpc::Status::OK;
  };
  const Outcome run =
      RunAt(server, {"classify", "--json", "--attention=layers: [1, 0] rows: 3 cross: true", "one"});
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(sent.details().attention().ShortDebugString(), "layers: 1 layers: 0 rows: 3 cross: true");
  EXPECT_THAT(run.out,
              HasSubstr("\"attention\":{\"layers\":[{\"layer\":0,\"heads\":[],\"weights\":[0.25]}]"));
  ASSERT_EQ(RunAt(server, {"classify", "--json", "--attention=", "one"}).exit, kDone);
  EXPECT_TRUE(sent.details().has_attention()) << "all";
  ASSERT_EQ(RunAt(server, {"classify", "--json", "one"}).exit, kDone);
  EXPECT_FALSE(sent.has_details());
}

TEST(Classify, WeightsThatCouldNotBeShownAreNotAskedFor) {
  const Outcome run = Heed({"classify", "--attention=rows: 0", "text"});
  EXPECT_EQ(run.exit, kUsage);
  EXPECT_THAT(run.err, HasSubstr("--attention needs --json"));
  const Outcome wrong = Heed({"classify", "--json", "--attention=row: 0", "text"});
  EXPECT_EQ(wrong.exit, kUsage);
  EXPECT_THAT(wrong.err,
              HasSubstr("--attention=row: 0: must be fields of AttentionOptions as protobuf's text"));
}

std::string WriteImage(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "heed_image_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Classify, ImagesAreSentAsTheyAreAndAnsweredByName) {
  FakeServer server;
  std::vector<int> sizes;
  std::string last;
  server.classify = [&](auto&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    sizes.push_back(request.inputs_size());
    for (const v1::Input& input : request.inputs()) {
      last = input.image().encoded();
      response.add_results()->mutable_value()->add_labels()->set_label("cat");
    }
    return grpc::Status::OK;
  };
  const std::string small = WriteImage("small.png", std::string("\x89PNG\0\r\n\xff", 8)),
                    large = WriteImage("large.png", std::string(1'500'000, 'x'));
  const Outcome run = RunAt(server, {"classify", "--image", large, "--image", large, "--image", small});
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(run.out, Cat("cat 0.0000  ", large, "\ncat 0.0000  ", large, "\ncat 0.0000  ", small, "\n"));
  EXPECT_THAT(sizes, ElementsAre(1, 2)) << "what a message takes";
  EXPECT_EQ(last, std::string("\x89PNG\0\r\n\xff", 8));
}

TEST(Classify, AnImageThatIsNotThereIsNamed) {
  FakeServer server;
  EXPECT_THAT(RunAt(server, {"classify", "--image=/nowhere/cat.png"}).err,
              HasSubstr("/nowhere/cat.png: No such file"));
  const std::string empty = WriteImage("empty.png", "");
  EXPECT_THAT(RunAt(server, {"classify", "--image", empty}).err, HasSubstr(empty + ": is empty"));
  const Outcome both = RunAt(server, {"classify", "--image", empty, "text"});
  EXPECT_EQ(both.exit, kUsage);
  EXPECT_THAT(both.err, HasSubstr("texts, --image and --csv exclude each other"));
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

TEST(Classify, AnEmptyInputIsTold) {
  FakeServer server;
  const Outcome run = RunAt(server, {"classify"}, "");
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(run.err, "heed: no text to answer: the input is empty\n");
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
      HasSubstr("{\"value\":{\"labels\":[{\"label\":\"good\",\"index\":0,\"score\":0.75}],\"spans\":[],"
                "\"rows\":[]}}\n{\"error\":{\"code\":3,"));
}

TEST(Classify, AServerThatForgetsAnInputIsFoundOut) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  EXPECT_THAT(RunAt(server, {"classify", "one"}).err, HasSubstr("the server gave 0 results for 1 inputs"));
}

}  // namespace
}  // namespace heed::cli
