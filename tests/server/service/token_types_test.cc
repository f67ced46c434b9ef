// Types of tokens, which tell the texts of a pair apart, from the wire to the model.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// Bytes; of a pair those of the second text are of type 1.
class PairsOfBytes : public Tokenizer {
 public:
  PairsOfBytes() { MeasureTokens(); }
  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const override {
    const std::string both = std::string(text) + std::string(pair.value_or(""));
    ASSIGN_OR_RETURN(Encoding encoding, bytes_->Encode(both, std::nullopt, options));
    for (size_t i = text.size(); i < encoding.type_ids.size(); ++i) encoding.type_ids[i] = 1;
    return encoding;
  }
  std::string Decode(std::span<const int32_t> ids, bool skip) const override {
    return bytes_->Decode(ids, skip);
  }
  int32_t vocab_size() const override { return bytes_->vocab_size(); }
  int32_t TokenId(std::string_view token) const override { return bytes_->TokenId(token); }

 private:
  std::unique_ptr<const Tokenizer> bytes_ = NewBytesTokenizer();
};

std::function<absl::StatusOr<LoadedModel>()> Maker(const std::string& architecture, const std::string& head,
                                                   int types) {
  return [=] {
    Json config = SmallConfig(architecture, head);
    config["vocab_size"] = 256;
    config["type_vocab_size"] = types;
    if (head == "none") config["pooling"] = "mean";
    return LoadedModel{.model = MakeRandomModel(config).model,
                       .tokenizer = std::make_unique<PairsOfBytes>(),
                       .description = "A model of a test."};
  };
}

v1::Input Pair(const std::string& first, const std::string& second) {
  v1::Input input;
  input.mutable_pair()->set_first(first);
  input.mutable_pair()->set_second(second);
  return input;
}

v1::Input Typed(const std::vector<int32_t>& ids, const std::vector<int32_t>& types) {
  v1::Input input = TokensOf(ids);
  input.mutable_tokens()->mutable_types()->Add(types.begin(), types.end());
  return input;
}

template <typename Response, typename Request>
std::vector<std::string> Answered(World& world,
                                  grpc::Status (v1::Inference::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&, Response*),
                                  const std::vector<v1::Input>& inputs) {
  auto request = Good<Request>();
  for (const v1::Input& input : inputs) AddInput(input, &request);
  Response response;
  const grpc::Status status = ((*world.inference()).*method)(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<std::string> values;
  for (auto& result : *response.mutable_results()) {
    EXPECT_TRUE(result.has_value()) << result.error().message();
    result.mutable_value()->clear_usage();  // times differ
    values.push_back(result.value().SerializeAsString());
  }
  return values;
}

TEST(TokenTypes, OfAPairAreThoseOfItsTokenizerWhereTheModelKnowsTypes) {
  auto world = World::Ready({{"reader", Maker("encoder", "classification", 2)},
                             {"embedder", Maker("encoder", "none", 3)},
                             {"filler", Maker("encoder", "lm", 2)}});
  const std::vector<v1::Input> inputs = {Pair("ab", "cd"), Typed({97, 98, 99, 100}, {0, 0, 1, 1}),
                                         Text("abcd"), Typed({97, 98, 99, 100}, {0, 0, 0, 0}),
                                         TokensOf({97, 98, 99, 100})};
  const auto expect_pairs_apart = [](const std::vector<std::string>& values) {
    ASSERT_EQ(values.size(), 5u);
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(values[2], values[3]);
    EXPECT_EQ(values[2], values[4]) << "all are 0 where nothing is said";
    EXPECT_NE(values[0], values[2]);
  };
  expect_pairs_apart(Answered(*world, &v1::Inference::Stub::Classify, inputs));
  expect_pairs_apart(Answered(*world, &v1::Inference::Stub::Embed, inputs));
  expect_pairs_apart(Answered(*world, &v1::Inference::Stub::Fill, inputs));
}

TEST(TokenTypes, OfATokenizerMeanNothingToAModelWithOneOrNone) {
  for (const int types : {0, 1}) {
    auto world = World::Ready({{"reader", Maker("encoder", "classification", types)}});
    const auto values = Answered(*world, &v1::Inference::Stub::Classify, {Pair("ab", "cd"), Text("abcd")});
    EXPECT_EQ(values[0], values[1]) << types;
  }
}

TEST(TokenTypes, OfAContextAreItsOwnAndWhatFollowsIsOfTheFirst) {
  auto world = World::Ready({{"writer", Maker("decoder", "lm", 2)}});
  const auto score = [&](const v1::Input& context) {
    auto request = Good<v1::ScoreRequest>();
    *request.add_inputs()->mutable_context() = context;
    *request.mutable_inputs(0)->mutable_continuation() = Text("so");
    v1::ScoreResponse response;
    const grpc::Status status = world->inference()->Score(NewContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.results(0).value().logprob();
  };
  EXPECT_EQ(score(Pair("ab", "cd")), score(Typed({97, 98, 99, 100}, {0, 0, 1, 1})));
  EXPECT_EQ(score(Text("abcd")), score(Typed({97, 98, 99, 100}, {0, 0, 0, 0})));
  EXPECT_NE(score(Text("abcd")), score(Pair("ab", "cd")));
}

TEST(TokenTypes, ThatAreWrongAreRefusedWithBothNumbers) {
  auto world = World::Ready({{"reader", Maker("encoder", "classification", 2)},
                             {"embedder", Maker("encoder", "none", 0)},
                             {"writer", Maker("decoder", "lm", 2)}});
  const struct {
    int rpc;
    v1::Input input;
    std::string message;
  } wrong[] = {
      {0, Typed({1, 2, 3}, {0, 1}), "there are 2 types for 3 ids, each has one"},
      {0, Typed({1, 2, 3}, {0, 1, 2}), "types[2] is 2, types are 0 to 1"},
      {0, Typed({1, 2, 3}, {0, -1, 1}), "types[1] is -1, types are 0 to 1"},
      {1, Typed({1, 2, 3}, {0, 0, 0}), "'embedder' knows no types of tokens"},
      {2, Typed({1, 2, 3}, {0, 0, 0}), "a continuation's tokens have no types"},
  };
  for (const auto& each : wrong) {
    const Rpc& rpc = EveryRpc()[each.rpc];
    ExpectTold(rpc.Ask(*world, {.inputs = {each.input}}).status,
               {.reason = "INVALID_VALUE",
                .field = "inputs[0]" + rpc.place + ".tokens.types",
                .message = each.message});
  }
}

TEST(TokenTypes, AreCountedInTheDescriptionOfTheModel) {
  auto world = World::Ready(
      {{"reader", Maker("encoder", "classification", 2)}, {"writer", Maker("encoder-decoder", "lm", 2)}});
  const auto types = [&](const std::string& model) {
    v1::DescribeModelRequest request;
    request.set_model(model);
    v1::ModelDescription description;
    EXPECT_TRUE(world->models()->DescribeModel(NewContext().get(), request, &description).ok());
    return description.token_types();
  };
  EXPECT_EQ(types("reader"), 2);
  EXPECT_EQ(types("writer"), 0) << "an encoder-decoder's are all of the first";
}

}  // namespace
}  // namespace heed
