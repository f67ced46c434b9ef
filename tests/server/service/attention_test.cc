// Weights of attention that a request asks for, from the wire to the model and back.
#include <functional>
#include <future>
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

using testing::ElementsAre;

Json ConfigOf(const std::string& architecture, const std::string& head) {
  Json config = SmallConfig(architecture, head);
  if (head != "lm" && head != "token_classification") config["pooling"] = "mean";
  if (head == "embedding") config["head"] = "none";
  return config;
}

// Whose first layer is linear, and so has no weights.
Json HybridConfig() {
  Json config = ConfigOf("encoder", "classification");
  config["layers"][0]["attention"] = {{"type", "linear"}};
  return config;
}

std::function<absl::StatusOr<LoadedModel>()> Maker(const Json& config) {
  return [config] { return LoadedModel{.model = std::move(MakeRandomModel(config).model)}; };
}

const std::vector<int32_t> kTokens = {7, 8, 9, 10, 11, 12, 13, 14, 15};

// All weights, as the engine gives them to whoever reads the tokens in one pass.
std::vector<LayerWeights> Weigh(const Json& config, const std::vector<int32_t>& tokens,
                                const std::vector<int32_t>& source = {}) {
  const RandomModel random = MakeRandomModel(config);
  const auto sequence = random.model->Start();
  std::vector<LayerWeights> weights;
  std::vector<Work> batch = {
      {.sequence = sequence.get(), .tokens = tokens, .source = source, .weights = &weights}};
  Threads threads(1);
  const auto pass = random.model->Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return weights;
}

v1::AttentionOptions Asking(const std::vector<int32_t>& layers, const std::vector<int32_t>& heads,
                            const std::vector<int32_t>& rows, bool cross = false) {
  v1::AttentionOptions options;
  options.mutable_layers()->Add(layers.begin(), layers.end());
  options.mutable_heads()->Add(heads.begin(), heads.end());
  options.mutable_rows()->Add(rows.begin(), rows.end());
  options.set_cross(cross);
  return options;
}

template <typename Request>
Request RequestFor(const std::string& model, const std::vector<v1::Input>& inputs) {
  auto request = Good<Request>();
  request.mutable_target()->set_model(model);
  for (const v1::Input& input : inputs) *request.add_inputs() = input;
  return request;
}

template <typename Response, typename Request>
Response Answered(World& world,
                  grpc::Status (v1::Inference::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                  const Request& request) {
  Response response;
  const grpc::Status status = ((*world.inference()).*method)(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (auto& result : *response.mutable_results()) {
    EXPECT_TRUE(result.has_value()) << result.error().message();
    result.mutable_value()->clear_usage();  // times differ
  }
  return response;
}

// The message has the weights chosen of these, which are all of a model's of this kind.
void ExpectWeights(const v1::AttentionWeights& message, const std::vector<LayerWeights>& all,
                   bool cross = false) {
  EXPECT_EQ(message.cross(), cross);
  ASSERT_GT(message.layers_size(), 0);
  for (const auto& layer : message.layers()) {
    const LayerWeights& expected = all[layer.layer()];
    ASSERT_EQ(message.keys(), expected.keys);
    ASSERT_EQ(layer.weights_size(), layer.heads_size() * message.rows_size() * message.keys());
    int at = 0;
    for (const int head : layer.heads()) {
      for (const int row : message.rows()) {
        double sum = 0;
        for (int key = 0; key < message.keys(); ++key, ++at) {
          ASSERT_EQ(layer.weights(at), expected.weights[(head * expected.rows + row) * expected.keys + key])
              << "layer " << layer.layer() << " head " << head << " row " << row << " key " << key;
          sum += layer.weights(at);
        }
        EXPECT_NEAR(sum, 1, 2e-3);
      }
    }
  }
}

std::vector<LayerWeights> OfKind(const std::vector<LayerWeights>& all, bool cross) {
  std::vector<LayerWeights> some;
  for (const LayerWeights& each : all) {
    if (each.cross == cross) some.push_back(each);
  }
  return some;
}

TEST(Attention, WeightsAreTheEnginesAndChangeNoBitOfTheRest) {
  const Json classes = ConfigOf("encoder", "classification"),
             tokens = ConfigOf("encoder", "token_classification"), vectors = ConfigOf("encoder", "embedding"),
             masks = ConfigOf("encoder", "lm");
  auto world = World::Ready({{"classes", Maker(classes)},
                             {"tokens", Maker(tokens)},
                             {"vectors", Maker(vectors)},
                             {"masks", Maker(masks)}});
  const auto expect = [&](auto method, auto request, const Json& config) {
    const auto plain = Answered(*world, method, request);
    request.mutable_details()->mutable_attention();
    auto told = Answered(*world, method, request);
    for (int i = 0; i < 2; ++i) {
      EXPECT_FALSE(plain.results(i).value().has_attention());
      const v1::AttentionWeights& weights = told.results(i).value().attention();
      EXPECT_THAT(weights.layers(), testing::SizeIs(2));
      EXPECT_THAT(weights.layers(1).heads(), ElementsAre(0, 1, 2, 3));
      EXPECT_THAT(weights.rows(), testing::SizeIs(i == 0 ? 9 : 3));
      ExpectWeights(weights, Weigh(config, i == 0 ? kTokens : std::vector<int32_t>{5, 6, 7}));
      told.mutable_results(i)->mutable_value()->clear_attention();
    }
    EXPECT_EQ(told.SerializeAsString(), plain.SerializeAsString());
  };
  const std::vector<v1::Input> inputs = {TokensOf(kTokens), TokensOf({5, 6, 7})};
  using Stub = v1::Inference::Stub;
  expect(&Stub::Classify, RequestFor<v1::ClassifyRequest>("classes", inputs), classes);
  expect(&Stub::Classify, RequestFor<v1::ClassifyRequest>("tokens", inputs), tokens);
  expect(&Stub::Embed, RequestFor<v1::EmbedRequest>("vectors", inputs), vectors);
  expect(&Stub::Fill, RequestFor<v1::FillRequest>("masks", inputs), masks);
}

TEST(Attention, OfAScoreIsOfWhatTheModelReads) {
  const Json writer = ConfigOf("decoder", "lm"), translator = ConfigOf("encoder-decoder", "lm");
  auto world = World::Ready({{"writer", Maker(writer)}, {"translator", Maker(translator)}});
  const auto score = [&](const std::string& model, const v1::AttentionOptions& asked) {
    auto request = Good<v1::ScoreRequest>();
    request.mutable_target()->set_model(model);
    *request.add_inputs()->mutable_context() = TokensOf({7, 8, 9, 10, 11});
    *request.mutable_inputs(0)->mutable_continuation() = TokensOf({12, 13, 14});
    const auto plain = Answered(*world, &v1::Inference::Stub::Score, request);
    *request.mutable_details()->mutable_attention() = asked;
    const auto told = Answered(*world, &v1::Inference::Stub::Score, request);
    EXPECT_EQ(told.results(0).value().logprob(), plain.results(0).value().logprob());
    return told.results(0).value().attention();
  };
  const v1::AttentionWeights written = score("writer", {});
  EXPECT_THAT(written.rows(), testing::SizeIs(7)) << "the last is told of, not read";
  ExpectWeights(written, Weigh(writer, {7, 8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(written.layers(0).weights(1), 0) << "the first row sees itself only";

  const std::vector<LayerWeights> all = Weigh(translator, {1, 12, 13}, {7, 8, 9, 10, 11});
  const v1::AttentionWeights own = score("translator", {});
  EXPECT_EQ(own.keys(), 3);
  ExpectWeights(own, OfKind(all, false));
  const v1::AttentionWeights cross = score("translator", Asking({1}, {}, {}, true));
  EXPECT_EQ(cross.keys(), 5);
  EXPECT_THAT(cross.layers(), testing::SizeIs(1));
  ExpectWeights(cross, OfKind(all, true), true);
}

TEST(Attention, IsOfTheLayersHeadsAndRowsThatAreNamed) {
  const Json config = ConfigOf("encoder", "classification");
  auto world = World::Ready({{"m", Maker(config)}, {"hybrid", Maker(HybridConfig())}});
  auto request = RequestFor<v1::ClassifyRequest>("m", {TokensOf(kTokens)});
  *request.mutable_details()->mutable_attention() = Asking({1}, {3, 0}, {8, 2, 5});
  const auto response = Answered(*world, &v1::Inference::Stub::Classify, request);
  const v1::AttentionWeights& told = response.results(0).value().attention();
  ASSERT_EQ(told.layers_size(), 1);
  EXPECT_EQ(told.layers(0).layer(), 1);
  EXPECT_THAT(told.layers(0).heads(), ElementsAre(0, 3));
  EXPECT_THAT(told.rows(), ElementsAre(2, 5, 8));
  ExpectWeights(told, Weigh(config, kTokens));

  request = RequestFor<v1::ClassifyRequest>("hybrid", {TokensOf(kTokens)});
  request.mutable_details()->mutable_attention();
  const auto hybrid = Answered(*world, &v1::Inference::Stub::Classify, request);
  EXPECT_THAT(hybrid.results(0).value().attention().layers(), testing::SizeIs(1)) << "all that have weights";
  ExpectWeights(hybrid.results(0).value().attention(), Weigh(HybridConfig(), kTokens));
}

// They come together once both are there.
TEST(Attention, OfOneInABatchWithOthersIsAsAlone) {
  const Json config = ConfigOf("encoder", "classification");
  auto world = World::Ready({{"m", Maker(config)}}, [](config::v1::ServerConfig& config) {
    config.mutable_scheduling()->set_max_running(2);
    config.mutable_scheduling()->set_max_wait_seconds(1);
  });
  const auto plain = RequestFor<v1::ClassifyRequest>("m", {TokensOf({5, 6, 7, 8})});
  auto asking = RequestFor<v1::ClassifyRequest>("m", {TokensOf(kTokens)});
  *asking.mutable_details()->mutable_attention() = Asking({}, {}, {0});
  auto other =
      std::async(std::launch::async, [&] { return Answered(*world, &v1::Inference::Stub::Classify, plain); });
  const auto told = Answered(*world, &v1::Inference::Stub::Classify, asking);
  ExpectWeights(told.results(0).value().attention(), Weigh(config, kTokens));
  EXPECT_FALSE(other.get().results(0).value().has_attention());
}

TEST(Attention, ThatIsNotThereIsRefusedWithFieldValueAndLimit) {
  Json linear = HybridConfig();
  linear["layers"][1] = linear["layers"][0];
  auto world = World::Ready({{"m", Maker(ConfigOf("encoder", "classification"))},
                             {"hybrid", Maker(HybridConfig())},
                             {"linear", Maker(linear)},
                             {"translator", Maker(ConfigOf("encoder-decoder", "lm"))}});
  const auto refusal = [&](const std::string& model, const v1::AttentionOptions& asked) {
    auto request = RequestFor<v1::ClassifyRequest>(model, {TokensOf(kTokens)});
    *request.mutable_details()->mutable_attention() = asked;
    return Ask(*world, request).status;
  };
  struct Case {
    std::string model;
    v1::AttentionOptions asked;
    std::string field, message;
  };
  const std::vector<Case> cases = {
      {"m", Asking({0, 2}, {}, {}), ".layers", "the layer 2 is none of 'm', whose layers are 0 to 1"},
      {"m", Asking({-1}, {}, {}), ".layers", "the index -1 is below 0"},
      {"m", Asking({1, 0, 1}, {}, {}), ".layers", "the index 1 is given twice"},
      {"m", Asking({}, {4}, {}), ".heads", "the head 4 is none of layer 0, whose heads are 0 to 3"},
      {"m", Asking({}, {2, 2}, {}), ".heads", "the index 2 is given twice"},
      {"m", Asking({}, {}, {-7}), ".rows", "the index -7 is below 0"},
      {"m", Asking({}, {}, {3, 1, 3}), ".rows", "the index 3 is given twice"},
      {"m", Asking({}, {}, {0, 9}), ".rows", "the row 9 is none of inputs[0], whose rows are 0 to 8"},
      {"m", Asking({}, {}, {}, true), ".cross", "'m' looks at no source: it is no encoder-decoder"},
      {"hybrid", Asking({1, 0}, {}, {}), ".layers",
       "the layer 0 has attention 'linear', which has no weights over all keys"},
      {"linear", {}, "", "no layer of 'linear' has weights over all keys: its attention is 'linear'"},
  };
  for (const auto& [model, asked, field, message] : cases) {
    SCOPED_TRACE(model + ": " + asked.ShortDebugString());
    ExpectTold(refusal(model, asked),
               {.reason = "INVALID_VALUE", .field = "details.attention" + field, .message = message});
  }
  auto score = Good<v1::ScoreRequest>();
  score.mutable_target()->set_model("translator");
  *score.mutable_details()->mutable_attention() = Asking({2}, {}, {}, true);
  *score.add_inputs()->mutable_context() = TokensOf({5});
  *score.mutable_inputs(0)->mutable_continuation() = TokensOf({5, 6});
  ExpectTold(Ask(*world, score).status,
             {.reason = "INVALID_VALUE",
              .field = "details.attention.layers",
              .message = "the layer 2 is none of 'translator', whose decoder's layers are 0 to 1"});
}

TEST(Attention, ARowThatOneInputDoesNotHaveSinksNoOther) {
  auto world = World::Ready({{"m", Maker(ConfigOf("encoder", "classification"))}});
  auto request =
      RequestFor<v1::ClassifyRequest>("m", {TokensOf(kTokens), TokensOf({5, 6}), TokensOf(kTokens)});
  *request.mutable_details()->mutable_attention() = Asking({}, {}, {8});
  const Outcome outcome = Ask(*world, request);
  EXPECT_TRUE(outcome.Answered(0) && outcome.Answered(2)) << outcome.status.error_message();
  ASSERT_TRUE(outcome.inputs.contains(1) && outcome.inputs.at(1));
  ExpectTold(*outcome.inputs.at(1), {.reason = "INVALID_VALUE",
                                     .field = "details.attention.rows",
                                     .message = "the row 8 is none of inputs[1], whose rows are 0 to 1"});
}

TEST(Attention, BeyondTheLimitIsRefusedAndJustWithinIsAnswered) {
  constexpr int64_t kMost = 4 * 2 * 3 * 4 * 9;  // 2 layers, 3 heads, 4 rows, 9 keys
  auto world = World::Ready(
      {{"m", Maker(ConfigOf("encoder", "classification"))}},
      [](config::v1::ServerConfig& config) { config.mutable_limits()->set_attention_bytes(kMost); });
  auto request = RequestFor<v1::ClassifyRequest>("m", {TokensOf(kTokens)});
  *request.mutable_details()->mutable_attention() = Asking({}, {0, 1, 3}, {0, 1, 2, 8});
  EXPECT_TRUE(Ask(*world, request).status.ok());
  request.mutable_details()->mutable_attention()->add_rows(4);
  ExpectTold(
      Ask(*world, request).status,
      {.reason = "ANSWER_TOO_LARGE",
       .field = "details.attention",
       .message = "the weights of inputs[0] take 1080 bytes (4 * 6 heads of 2 layers * 5 rows * 9 keys), at "
                  "most 864 are given"});
}

// Of all requests, as other answers are: known before anything is computed.
TEST(Attention, CountsInTheMemoryOfAnswers) {
  auto world = World::Ready({{"m", Maker(ConfigOf("encoder", "classification"))}},
                            [](config::v1::ServerConfig& config) {
                              config.mutable_limits()->set_answer_bytes(3 * 4 * 2 * 4 * 100 * 100);
                            });
  auto request = RequestFor<v1::ClassifyRequest>("m", {TokensOf(std::vector<int32_t>(100, 5))});
  EXPECT_TRUE(Ask(*world, request).status.ok());
  request.mutable_details()->mutable_attention();
  const grpc::Status status = Ask(*world, request).status;
  EXPECT_EQ(DetailsOf(status).info.reason(), "ANSWER_TOO_LARGE") << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr("at most 960000 are possible"));
  *request.mutable_details()->mutable_attention() = Asking({}, {}, {0});
  EXPECT_TRUE(Ask(*world, request).status.ok());
}

// Here is room for a pass without them, and for one layer's of one row, but not for two layers' of all.
TEST(Attention, ThatNeedsMoreStateThanThereIsIsRefused) {
  const Json config = ConfigOf("encoder", "classification");
  const RandomModel model = MakeRandomModel(config);
  constexpr int64_t kLong = 400, kLayer = 4 * 4 * kLong * kLong;
  const int64_t room =
      model->StateBytes(kLong) + model->WorkspaceBytes({.rows = kLong, .answers = kLong}) + 2 * kLayer;
  auto world = World::Ready({{"m", Maker(config)}}, [&](config::v1::ServerConfig& config) {
    config.mutable_scheduling()->set_state_bytes(room);
  });
  auto request = RequestFor<v1::ClassifyRequest>("m", {TokensOf(std::vector<int32_t>(kLong, 5))});
  *request.mutable_details()->mutable_attention() = Asking({1}, {}, {0});
  EXPECT_TRUE(Ask(*world, request).status.ok());
  request.mutable_details()->mutable_attention()->Clear();
  const grpc::Status status = Ask(*world, request).status;
  EXPECT_EQ(DetailsOf(status).info.reason(), "STATE_TOO_LARGE") << status.error_message();
}

TEST(Attention, OfACallThatIsCancelledIsForgotten) {
  Gate gate;
  const auto make = [&] {
    ModelInfo info = FakeInfo(Head::kClassification, 2);
    info.labels = {"no", "yes"};
    info.attentions = {{.type = "full", .weighing_heads = 2}};
    auto model = NewFake(info, [](const auto&) { return std::vector<float>{1, 2}; });
    model->on_layer = [&](int) { gate.Pass(); };
    return WithBytes(std::move(model));
  };
  auto world = World::Ready({{"m", make}});
  auto request = RequestFor<v1::ClassifyRequest>("m", {Text("abc")});
  request.mutable_details()->mutable_attention();
  const auto context = NewContext();
  auto asked = std::async(std::launch::async, [&] {
    v1::ClassifyResponse response;
    return world->inference()->Classify(context.get(), request, &response);
  });
  EXPECT_TRUE(Eventually([&] { return gate.reached() > 0; }));
  context->TryCancel();
  EXPECT_EQ(asked.get().error_code(), grpc::CANCELLED);
  gate.Open();
  EXPECT_TRUE(Ask(*world, RequestFor<v1::ClassifyRequest>("m", {Text("abc")})).status.ok());
}

TEST(Attention, IsInTheModelsDescriptionLayerByLayer) {
  Json translator = ConfigOf("encoder-decoder", "lm");
  translator["decoder_layers"][0]["attention"] = {{"type", "linear"}};
  auto world = World::Ready({{"hybrid", Maker(HybridConfig())}, {"translator", Maker(translator)}});
  const auto layers = [&](const std::string& model) {
    const v1::ModelDescription description = DescriptionOf(*world, model);
    EXPECT_EQ(description.attention_limit_bytes(), 16'777'216);
    std::vector<std::string> told;
    for (const auto& layer : description.attention_layers()) told.push_back(layer.ShortDebugString());
    return told;
  };
  EXPECT_THAT(layers("hybrid"), ElementsAre("type: \"linear\"", "type: \"full\" heads: 4"));
  EXPECT_THAT(layers("translator"),
              ElementsAre("type: \"linear\" cross_type: \"full\" cross_heads: 4",
                          "type: \"full\" heads: 4 cross_type: \"full\" cross_heads: 4"));
}

}  // namespace
}  // namespace heed
