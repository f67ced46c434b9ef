// Global tokens that an input names, from the wire to the model.
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// A model of bytes whose encoder's layers read global tokens; its file names some.
RandomModel SlidingModel(const std::string& architecture, const std::string& head,
                         const std::vector<int64_t>& of_file) {
  const Json sliding = {{"type", "sliding_window"}, {"window", 4}, {"global_tokens", of_file}};
  Json config = SmallConfig(architecture, head);
  for (Json& layer : config["layers"]) layer["attention"] = sliding;
  config["vocab_size"] = 256;
  if (head != "lm") config["pooling"] = "mean";
  if (head == "embedding") config["head"] = "none";
  return MakeRandomModel(config);
}

std::function<absl::StatusOr<LoadedModel>()> SlidingMaker(const std::string& architecture,
                                                          const std::string& head,
                                                          const std::vector<int64_t>& of_file) {
  return [=] { return WithBytes(SlidingModel(architecture, head, of_file).model); };
}

v1::Input With(v1::Input input, const std::vector<int32_t>& positions) {
  input.mutable_global_tokens()->mutable_positions()->Add(positions.begin(), positions.end());
  return input;
}

const char kText[] = "A text that is longer than the window of any layer.";  // 51 bytes

template <typename Response, typename Request>
Response Answered(World& world,
                  grpc::Status (v1::Inference::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                  const std::string& model, const std::vector<v1::Input>& inputs) {
  Request request;
  request.mutable_target()->set_model(model);
  for (const v1::Input& input : inputs) *request.add_inputs() = input;
  Response response;
  const grpc::Status status = ((*world.inference()).*method)(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (auto& result : *response.mutable_results()) {
    EXPECT_TRUE(result.has_value());
    result.mutable_value()->clear_usage();  // times differ
  }
  return response;
}

TEST(GlobalTokens, AreThoseThatAModelsFileWouldHave) {
  auto world = World::Ready({{"classes", SlidingMaker("encoder", "classification", {3})},
                             {"other_classes", SlidingMaker("encoder", "classification", {0, 20})},
                             {"no_classes", SlidingMaker("encoder", "classification", {})},
                             {"vectors", SlidingMaker("encoder", "embedding", {3})},
                             {"other_vectors", SlidingMaker("encoder", "embedding", {0, 20})}});
  const auto classes = [&](const std::string& model, const std::vector<v1::Input>& inputs) {
    return Answered(*world, &v1::Inference::Stub::Classify, model, inputs);
  };
  const auto vectors = [&](const std::string& model, const std::vector<v1::Input>& inputs) {
    return Answered(*world, &v1::Inference::Stub::Embed, model, inputs);
  };
  // Named, in any order, in a batch with others that name none, or say that there are none.
  const v1::Input text = Text(kText), named = With(text, {20, 0}), none = With(text, {});
  const auto together = classes("classes", {text, named, none});
  const auto value = [](const auto& response, int i = 0) {
    return response.results(i).value().SerializeAsString();
  };
  EXPECT_EQ(value(together, 0), value(classes("classes", {text})));
  EXPECT_EQ(value(together, 1), value(classes("other_classes", {text})));
  EXPECT_EQ(value(together, 2), value(classes("no_classes", {text})));
  EXPECT_NE(value(together, 0), value(together, 1));
  EXPECT_NE(value(together, 0), value(together, 2));
  EXPECT_EQ(value(vectors("vectors", {named})), value(vectors("other_vectors", {text})));
  const v1::Input tokens =
      TokensOf({7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27});
  EXPECT_EQ(value(vectors("vectors", {With(tokens, {0, 20})})), value(vectors("other_vectors", {tokens})));
}

TEST(GlobalTokens, OfAnEncoderDecoderAreOfItsSource) {
  auto world = World::Ready({{"writer", SlidingMaker("encoder-decoder", "lm", {3})},
                             {"other", SlidingMaker("encoder-decoder", "lm", {0, 20})}});
  const auto score = [&](const std::string& model, const v1::Input& context) {
    v1::ScoreRequest request;
    request.mutable_target()->set_model(model);
    *request.add_inputs()->mutable_context() = context;
    *request.mutable_inputs(0)->mutable_continuation() = Text("so");
    v1::ScoreResponse response;
    EXPECT_TRUE(world->inference()->Score(NewContext().get(), request, &response).ok());
    return response.results(0).value().logprob();
  };
  EXPECT_EQ(score("writer", With(Text(kText), {0, 20})), score("other", Text(kText)));
  EXPECT_NE(score("writer", Text(kText)), score("other", Text(kText)));
  const auto text = [&](const std::string& model, const v1::Input& source) {
    v1::GenerateRequest request = GreedyRequest(model, "", 12);
    *request.mutable_inputs(0) = source;
    request.mutable_details()->set_logprobs(true);
    const auto context = NewContext();
    auto stream = world->inference()->Generate(context.get(), request);
    double sum = 0;
    for (v1::GenerateEvent event; stream->Read(&event);) {
      for (const auto& token : event.piece().logprobs()) sum += token.logprob();
    }
    EXPECT_TRUE(stream->Finish().ok());
    return sum;
  };
  EXPECT_EQ(text("writer", With(Text(kText), {20, 0})), text("other", Text(kText)));
  v1::ScoreRequest request;
  request.mutable_target()->set_model("writer");
  *request.add_inputs()->mutable_context() = Text(kText);
  *request.mutable_inputs(0)->mutable_continuation() = With(Text("so"), {0});
  ExpectTold(Ask(*world, request).status, {.reason = "INVALID_VALUE",
                                           .field = "inputs[0].continuation.global_tokens",
                                           .message = "a continuation has no global tokens"});
}

TEST(GlobalTokens, ThatAreWrongAreToldWhyAndDoNotSinkTheOthers) {
  auto world = World::Ready({{"reader", SlidingMaker("encoder", "classification", {})}});
  const Rpc& classify = EveryRpc().front();
  std::vector<int32_t> many(4097);
  std::iota(many.begin(), many.end(), 0);
  const std::vector<std::pair<v1::Input, std::string>> wrong = {
      {With(Text("abc"), {0, 3}), "positions[1] is 3, the input's tokens are 0 to 2"},
      {With(TokensOf({5, 6}), {-1}), "positions[0] is -1, the input's tokens are 0 to 1"},
      {With(Text("abc"), {2, 0, 2}), "positions[2] is 2, which is there already; each is named once"},
      {With(Text("abc"), many), "there are 4097 global tokens, 'reader' takes at most 4096"},
  };
  for (const auto& [input, message] : wrong) {
    const Refusal refusal{.reason = "INVALID_VALUE", .field = "inputs[0].global_tokens", .message = message};
    ExpectTold(classify.Ask(*world, {.inputs = {input}}).status, refusal);
    const Outcome outcome = classify.Ask(*world, {.inputs = {Text("fine"), input, With(Text("good"), {3})}});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    EXPECT_TRUE(outcome.Answered(0) && outcome.Answered(2)) << message;
    EXPECT_FALSE(outcome.Answered(1)) << message;
  }
}

// Not even none of them.
TEST(GlobalTokens, AreRefusedByModelsThatTakeNone) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    for (const std::vector<int32_t>& positions : {std::vector<int32_t>{}, {0}}) {
      const Outcome outcome = rpc.Ask(*world, {.inputs = {With(Text("fine"), positions)}});
      EXPECT_EQ(outcome.status.error_code(), grpc::INVALID_ARGUMENT);
      EXPECT_THAT(outcome.status.error_message(), testing::HasSubstr("no global tokens"));
    }
  }
}

TEST(GlobalTokens, AreInTheModelsDescriptionWithWhatTheyCost) {
  auto world = World::Ready({{"m", SlidingMaker("encoder", "classification", {})},
                             {"plain", [] { return WithBytes(NewFakeClassifier()); }}});
  v1::DescribeModelRequest request;
  v1::ModelDescription sliding, plain;
  request.set_model("m");
  ASSERT_TRUE(world->models()->DescribeModel(NewContext().get(), request, &sliding).ok());
  request.set_model("plain");
  ASSERT_TRUE(world->models()->DescribeModel(NewContext().get(), request, &plain).ok());
  EXPECT_EQ(sliding.max_global_tokens(), 4096);
  EXPECT_EQ(plain.max_global_tokens(), 0);
  for (const v1::SequenceCost& cost : sliding.costs()) {
    EXPECT_GT(cost.global_state_bytes(), cost.state_bytes());
    EXPECT_GT(cost.global_multiply_adds(), cost.multiply_adds());
  }
  for (const v1::SequenceCost& cost : plain.costs()) EXPECT_EQ(cost.global_multiply_adds(), 0);
}

// Admission knows what they hold: here is room for an input without them.
TEST(GlobalTokens, ThatNeedMoreStateThanThereIsAreRefused) {
  const RandomModel model = SlidingModel("encoder", "classification", {});
  constexpr int64_t kTokens = 8000, kMost = 4096;
  const int64_t room = model->StateBytes(kTokens) +
                       model->WorkspaceBytes({.rows = kTokens, .answers = kTokens}) +
                       (model->StateBytes(kTokens, 0, kMost) - model->StateBytes(kTokens)) / 2;
  auto world = World::Ready(
      {{"reader", SlidingMaker("encoder", "classification", {})}},
      [&](config::v1::ServerConfig& config) { config.mutable_scheduling()->set_state_bytes(room); });
  const Rpc& classify = EveryRpc().front();
  std::vector<int32_t> all(kMost);
  std::iota(all.begin(), all.end(), 0);
  const v1::Input text = Text(std::string(kTokens, 'a'));
  const Outcome outcome = classify.Ask(*world, {.inputs = {text, With(text, all)}});
  EXPECT_TRUE(outcome.Answered(0)) << outcome.status.error_message();
  ASSERT_TRUE(outcome.inputs.contains(1) && outcome.inputs.at(1));
  EXPECT_EQ(outcome.inputs.at(1)->reason(), "STATE_TOO_LARGE");
}

}  // namespace
}  // namespace heed
