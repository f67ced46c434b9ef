// The second input of an encoder that has two, from the wire to the model.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// A model of bytes, whose file says what stands for four tokens each, or nothing.
std::function<absl::StatusOr<LoadedModel>()> EtcMaker(const std::string& head, bool with_default) {
  return [=] {
    Json config = SmallConfig("etc-encoder", head,
                              {{"type", "etc"}, {"radius", 3}, {"max_distance", 2}, {"hard_g2l", true}});
    config["vocab_size"] = 256;
    config["max_position_embeddings"] = 64;
    if (with_default) config.update({{"tokens_per_global", 4}, {"global_token", 9}});
    return WithBytes(MakeRandomModel(config).model);
  };
}

v1::Input With(v1::Input input, const std::vector<int32_t>& ids, const std::vector<int32_t>& membership) {
  input.mutable_global_input()->mutable_ids()->Add(ids.begin(), ids.end());
  input.mutable_global_input()->mutable_membership()->Add(membership.begin(), membership.end());
  return input;
}

const std::vector<int32_t> kDefaultIds = {9, 9, 9}, kDefaultMembership = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2};

std::vector<std::string> Classified(World& world, const std::string& model,
                                    const std::vector<v1::Input>& inputs) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(model);
  for (const v1::Input& input : inputs) *request.add_inputs() = input;
  v1::ClassifyResponse response;
  const grpc::Status status = world.inference()->Classify(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<std::string> values;
  for (auto& result : *response.mutable_results()) {
    EXPECT_TRUE(result.has_value()) << result.error().message();
    EXPECT_EQ(result.value().usage().input_tokens(), 10) << "global tokens are not counted";
    result.mutable_value()->clear_usage();
    values.push_back(result.value().SerializeAsString());
  }
  return values;
}

TEST(GlobalInput, ThatIsLeftOutIsAsTheModelsFileSays) {
  auto world = World::Ready(
      {{"reader", EtcMaker("classification", true)}, {"strict", EtcMaker("classification", false)}});
  const v1::Input text = Text("ten bytes.");
  const auto values =
      Classified(*world, "reader",
                 {text, With(text, {}, {}), With(text, kDefaultIds, {}), With(text, {}, kDefaultMembership),
                  With(text, kDefaultIds, kDefaultMembership), With(text, {9, 8}, {}),
                  With(text, {}, {-1, -1, 0, 0, 2, 2, 2, 2, 1, 1})});
  for (int same : {1, 2, 3, 4}) EXPECT_EQ(values[same], values[0]) << same;
  EXPECT_NE(values[5], values[0]);
  EXPECT_NE(values[6], values[0]);
  EXPECT_EQ(Classified(*world, "strict", {With(text, kDefaultIds, kDefaultMembership)})[0], values[0]);
  EXPECT_EQ(Classified(*world, "strict", {With(text, kDefaultIds, {})}),
            Classified(*world, "strict", {With(text, kDefaultIds, std::vector<int32_t>(10, -1))}))
      << "they belong to none";
}

TEST(GlobalInput, StandsBesideTokensThatAreFilledIn) {
  auto world = World::Ready({{"filler", EtcMaker("lm", true)}});
  const auto filled = [&](const v1::Input& input) {
    v1::FillRequest request;
    request.mutable_target()->set_model("filler");
    request.mutable_options()->add_positions(4);
    *request.add_inputs() = input;
    v1::FillResponse response;
    const grpc::Status status = world->inference()->Fill(NewContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    response.mutable_results(0)->mutable_value()->clear_usage();
    return response.SerializeAsString();
  };
  const v1::Input text = Text("ten bytes.");
  EXPECT_EQ(filled(text), filled(With(text, kDefaultIds, kDefaultMembership)));
  EXPECT_NE(filled(text), filled(With(text, {1, 2, 3}, {})));
}

TEST(GlobalInput, ThatIsWrongIsToldWhyAndDoesNotSinkTheOthers) {
  auto world = World::Ready({{"reader", EtcMaker("classification", true)}});
  const Rpc& classify = EveryRpc().front();
  struct Wrong {
    v1::Input input;
    std::string reason, field, message;
  };
  const v1::Input text = Text("abc");
  const Wrong wrong[] = {
      {With(text, {256}, {}), "INVALID_VALUE", "ids", "ids[0] is 256, ids are 0 to 255"},
      {With(text, {3, -1}, {}), "INVALID_VALUE", "ids", "ids[1] is -1, ids are 0 to 255"},
      {With(text, std::vector<int32_t>(65, 1), {}), "INPUT_TOO_LONG", "ids",
       "there are 65 global ids, 'reader' reads at most 64"},
      {With(text, {}, {0, 0}), "INVALID_VALUE", "membership",
       "there are 2 places for the input's 3 tokens, each has one"},
      {With(text, {}, {0, 0, 1}), "INVALID_VALUE", "membership",
       "membership[2] is 1, the global ids are 0 to 0, and -1 is none"},
      {With(text, {1, 2}, {0, -2, 1}), "INVALID_VALUE", "membership", "membership[1] is -2"},
  };
  for (const Wrong& each : wrong) {
    SCOPED_TRACE(each.message);
    ExpectTold(
        classify.Ask(*world, {.inputs = {each.input}}).status,
        {.reason = each.reason, .field = "inputs[0].global_input." + each.field, .message = each.message});
    const Outcome outcome =
        classify.Ask(*world, {.inputs = {Text("fine"), each.input, With(Text("good"), {7}, {})}});
    EXPECT_TRUE(outcome.Answered(0) && outcome.Answered(2));
    EXPECT_FALSE(outcome.Answered(1));
  }
}

TEST(GlobalInput, MustBeGivenWhereTheModelHasNone) {
  auto world = World::Ready({{"reader", EtcMaker("classification", false)}});
  const Rpc& classify = EveryRpc().front();
  for (const v1::Input& input : {Text("abc"), With(Text("abc"), {}, {-1, -1, -1})}) {
    ExpectTold(classify.Ask(*world, {.inputs = {input}}).status,
               {.reason = "INVALID_VALUE",
                .field = "inputs[0].global_input.ids",
                .message = "'reader' has no global ids of its own: the input must give some"});
  }
}

// Not even an empty one.
TEST(GlobalInput, IsRefusedByModelsThatReadNone) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    for (const v1::Input& input : {With(Text("fine"), {}, {}), With(Text("fine"), {1}, {0, 0, 0, 0})}) {
      const Outcome outcome = rpc.Ask(*world, {.inputs = {input}});
      EXPECT_EQ(outcome.status.error_code(), grpc::INVALID_ARGUMENT);
      EXPECT_THAT(outcome.status.error_message(), testing::HasSubstr("no global input"));
    }
  }
}

TEST(GlobalInput, IsInTheModelsDescription) {
  auto world = World::Ready({{"with", EtcMaker("classification", true)},
                             {"without", EtcMaker("classification", false)},
                             {"none", EtcMaker("none", true)},
                             {"plain", [] { return WithBytes(NewFakeClassifier()); }}});
  const auto describe = [&](const std::string& model) { return DescriptionOf(*world, model); };
  const v1::ModelDescription with = describe("with"), without = describe("without");
  EXPECT_EQ(with.global_input().tokens_per_global(), 4);
  EXPECT_FALSE(with.global_input().required());
  EXPECT_EQ(with.max_source_tokens(), 64);
  EXPECT_EQ(with.max_global_tokens(), 0);
  ASSERT_EQ(with.attention_size(), 1);
  EXPECT_EQ(with.attention(0), "etc");
  EXPECT_TRUE(without.has_global_input() && without.global_input().required());
  EXPECT_EQ(without.global_input().tokens_per_global(), 0);
  EXPECT_GT(with.costs().rbegin()->multiply_adds(), without.costs().rbegin()->multiply_adds())
      << "of as many global tokens as the file says, or of one";
  EXPECT_FALSE(describe("plain").has_global_input());
  const v1::ModelDescription none = describe("none");
  ASSERT_EQ(none.rpcs_size(), 2) << "no RPC answers the rows of two streams";
  EXPECT_EQ(none.rpcs(0), "heed.v1.Inference.Tokenize");
}

}  // namespace
}  // namespace heed
