// Tokenize and Detokenize, on a real port: what the tokenizers' golden cases say, and what is refused.
#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/digest.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/server/service/tls_world.h"
#include "tests/server/service/watched_tokenizer.h"

namespace heed {
namespace {

using testing::ElementsAre;

v1::TokenizeResponse Tokenized(World& world, const v1::TokenizeRequest& request) {
  v1::TokenizeResponse response;
  const grpc::Status status = world.inference()->Tokenize(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}
grpc::Status StatusOf(World& world, const v1::TokenizeRequest& request) {
  v1::TokenizeResponse response;
  return world.inference()->Tokenize(NewContext().get(), request, &response);
}
v1::DetokenizeResponse Detokenized(World& world, const v1::DetokenizeRequest& request) {
  v1::DetokenizeResponse response;
  const grpc::Status status = world.inference()->Detokenize(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}
grpc::Status StatusOf(World& world, const v1::DetokenizeRequest& request) {
  v1::DetokenizeResponse response;
  return world.inference()->Detokenize(NewContext().get(), request, &response);
}

std::vector<int32_t> ListOf(const google::protobuf::RepeatedField<int32_t>& list) {
  return {list.begin(), list.end()};
}

// A classifier with a tokenizer of the golden cases.
std::string FolderOf(const std::string& name) {
  return Cat(HEED_SOURCE_DIR, "/tests/golden/tokenizers/", name);
}
auto Maker(const std::string& name) {
  return [name]() -> absl::StatusOr<LoadedModel> {
    auto model = NewFakeClassifier();
    LoadedModel loaded;
    ASSIGN_OR_RETURN(loaded.tokenizer, LoadTokenizer(FolderOf(name)));
    ModelInfo info = model->info();
    info.vocab_size = loaded.tokenizer->vocab_size();
    info.type_vocab_size = 2;
    model->set_info(info);
    loaded.model = std::move(model);
    return loaded;
  };
}

v1::TokenizeRequest RequestOf(const Json& one) {
  v1::TokenizeRequest request;
  request.mutable_text()->set_without_special_tokens(!one.value("add_special_tokens", true));
  request.mutable_options()->set_max_tokens(one.value("max_length", 0));
  request.mutable_options()->set_pieces(true);
  v1::Input* input = request.add_inputs();
  if (!one.contains("pair")) {
    input->set_text(one.value("text", ""));
  } else {
    input->mutable_pair()->set_first(one.value("text", ""));
    input->mutable_pair()->set_second(one.value("pair", ""));
  }
  return request;
}

class GoldenTokens : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    cases_ = ParseJson(ReadFile(FolderOf(GetParam()), "cases.json", 64 << 20).value(), "cases.json").value();
    world_ = World::Ready({{"m", Maker(GetParam())}});
    ASSERT_FALSE(cases_.empty());
  }
  Json cases_;
  std::unique_ptr<World> world_;
};

TEST_P(GoldenTokens, AreWhatTheWireGives) {
  for (const Json& one : cases_) {
    SCOPED_TRACE(one.value("text", "").substr(0, 100));
    const v1::TokenizeResponse response = Tokenized(*world_, RequestOf(one));
    ASSERT_EQ(response.results_size(), 1);
    const v1::Tokenized& value = response.results(0).value();
    EXPECT_EQ(Json(ListOf(value.tokens().ids())), one["ids"]);
    EXPECT_EQ(Json(ListOf(value.tokens().types())), one["type_ids"]);
    Json offsets = Json::array();
    for (const v1::TokenPiece& piece : value.pieces()) offsets.push_back({piece.begin(), piece.end()});
    EXPECT_EQ(offsets, one["offsets"]);
  }
}

TEST_P(GoldenTokens, AreTextAgain) {
  for (const Json& one : cases_) {
    SCOPED_TRACE(one.value("text", "").substr(0, 100));
    for (const bool skip : {true, false}) {
      const char* key = skip ? "decoded_skip" : "decoded_keep";
      if (!one.contains(key)) continue;
      v1::DetokenizeRequest request;
      v1::Tokens* tokens = request.add_inputs();
      for (const Json& id : one["ids"]) tokens->add_ids(id.get<int32_t>());
      request.mutable_options()->set_skip_special_tokens(skip);
      EXPECT_EQ(Detokenized(*world_, request).results(0).value().text(), one.value(key, "none"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTokens, testing::Values("bert-uncased", "roberta", "t5"),
                         [](const auto& info) { return Cat("OfFolder", info.index); });

TEST(Tokenize, SaysWhichTextOfAPairATokenIsOf) {
  // RoBERTa's, whose types do not: <s> A </s> </s> B </s>.
  auto world = World::Ready({{"m", Maker("roberta")}});
  v1::TokenizeRequest request;
  request.mutable_options()->set_pieces(true);
  request.add_inputs()->mutable_pair()->set_first(".");
  request.mutable_inputs(0)->mutable_pair()->set_second(",");
  std::vector<v1::TokenOrigin> origins;
  std::string spelled;
  const v1::TokenizeResponse response = Tokenized(*world, request);
  for (const auto& piece : response.results(0).value().pieces()) {
    origins.push_back(piece.origin());
    spelled += piece.spelling() + " ";
  }
  EXPECT_THAT(origins, ElementsAre(v1::TOKEN_ORIGIN_ADDED, v1::TOKEN_ORIGIN_TEXT, v1::TOKEN_ORIGIN_ADDED,
                                   v1::TOKEN_ORIGIN_ADDED, v1::TOKEN_ORIGIN_SECOND, v1::TOKEN_ORIGIN_ADDED));
  EXPECT_EQ(spelled, "<s> . </s> </s> , </s> ");
}

TEST(Tokenize, OfBytesGivesBytesAndTheirCharacters) {
  auto world = World::Ready(EveryModel());
  v1::TokenizeRequest request;
  request.mutable_target()->set_model("writer");
  request.add_inputs()->set_text("a\u00e9");
  request.mutable_options()->set_pieces(true);
  const v1::Tokenized value = Tokenized(*world, request).results(0).value();
  EXPECT_THAT(value.tokens().ids(), ElementsAre('a', 0xc3, 0xa9));
  EXPECT_EQ(value.tokens().types_size(), 0) << "the model knows none";
  EXPECT_EQ(value.pieces(1).spelling(), "\ufffd");
  EXPECT_EQ(value.pieces(1).bytes(), "\xc3");
  EXPECT_EQ(value.pieces(2).begin(), 1);
  EXPECT_EQ(value.pieces(2).end(), 2);
  request.mutable_options()->set_pieces(false);
  EXPECT_EQ(Tokenized(*world, request).results(0).value().pieces_size(), 0);
}

TEST(Tokenize, CutsWhereItIsAskedTo) {
  auto world = World::Ready(OneClassifier());  // reads 64
  v1::TokenizeRequest request;
  request.add_inputs()->set_text(std::string(100, 'x'));
  const auto count = [&] { return Tokenized(*world, request).results(0).value().tokens().ids_size(); };
  EXPECT_EQ(count(), 100) << "nothing is refused for its number of tokens";
  request.mutable_text()->set_truncate(true);
  EXPECT_EQ(count(), 64);
  request.mutable_options()->set_max_tokens(80);
  EXPECT_EQ(count(), 64) << "the shorter of both";
  request.mutable_options()->set_max_tokens(7);
  EXPECT_EQ(count(), 7);
  request.mutable_text()->set_truncate(false);
  EXPECT_EQ(count(), 7);
}

TEST(Tokenize, OfAnEmptyTextGivesSpecialTokensOnly) {
  auto world = World::Ready({{"m", Maker("roberta")}});
  v1::TokenizeRequest request;
  request.add_inputs()->set_text("");
  EXPECT_THAT(Tokenized(*world, request).results(0).value().tokens().ids(), ElementsAre(0, 2));
  request.mutable_text()->set_without_special_tokens(true);
  EXPECT_EQ(Tokenized(*world, request).results(0).value().tokens().ids_size(), 0);
}

TEST(Tokenize, AnswersWhatIsGoodBesideWhatIsNot) {
  auto world = World::Ready(
      OneClassifier(), [](config::v1::ServerConfig& config) { config.mutable_limits()->set_text_bytes(10); });
  v1::TokenizeRequest request;
  request.add_inputs()->set_text("good");
  request.add_inputs()->set_text("eleven byte");
  request.add_inputs();
  *request.add_inputs() = TokensOf({1, 2});
  request.add_inputs()->mutable_pair()->set_first("a");
  const v1::TokenizeResponse response = Tokenized(*world, request);
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.model(), "m");
  EXPECT_EQ(response.results(0).value().tokens().ids_size(), 4);
  ExpectTold(response.results(1).error(), {.reason = "TEXT_TOO_LARGE",
                                           .field = "inputs[1].text",
                                           .message = "the text has 11 bytes, at most 10 are read"});
  ExpectTold(response.results(2).error(), {.reason = "INPUT_EMPTY", .field = "inputs[2]"});
  ExpectTold(response.results(3).error(), {.reason = "INPUT_KIND_UNSUPPORTED",
                                           .field = "inputs[3].tokens",
                                           .message = "Tokenize does not read tokens, it reads text, pair"});
  ExpectTold(response.results(4).error(),
             {.reason = "INVALID_VALUE", .field = "inputs[4].pair", .message = "has no form for pairs"});
}

TEST(Tokenize, RefusesWhatNoInputCouldMakeRight) {
  auto world = World::Ready(EveryModel(),
                            [](config::v1::ServerConfig& config) { config.mutable_limits()->set_inputs(3); });
  v1::TokenizeRequest request;
  request.mutable_target()->set_model("reader");
  ExpectTold(StatusOf(*world, request), {.reason = "INPUT_EMPTY", .field = "inputs"});
  request.add_inputs();
  ExpectTold(StatusOf(*world, request), {.reason = "INPUT_EMPTY", .field = "inputs[0]"});
  request.mutable_inputs(0)->set_text("fine");
  request.mutable_options()->set_max_tokens(-1);
  ExpectTold(StatusOf(*world, request), {.reason = "INVALID_VALUE",
                                         .field = "options.max_tokens",
                                         .message = "the value is -1, it must be at least 0"});
  request.clear_options();
  request.mutable_target()->set_model("nobody");
  ExpectTold(StatusOf(*world, request),
             {.code = grpc::NOT_FOUND, .reason = "MODEL_NOT_FOUND", .field = "target.model"});
  request.mutable_target()->set_model("reader");
  for (int i = 0; i < 3; ++i) request.add_inputs()->set_text("fine");
  ExpectTold(StatusOf(*world, request),
             {.reason = "TOO_MANY_INPUTS", .field = "inputs", .message = "there are 4 inputs, at most 3"});
  ExpectServes(*world);
}

TEST(Tokenize, FewerTokensThanTheSpecialOnesAreRefused) {
  auto world = World::Ready({{"m", Maker("roberta")}});
  v1::TokenizeRequest request;
  request.add_inputs()->set_text("fine");
  request.mutable_options()->set_max_tokens(1);
  ExpectTold(StatusOf(*world, request),
             {.reason = "INVALID_VALUE",
              .field = "inputs[0].text",
              .message = "max_length 1 is below the 2 special tokens of every input"});
}

TEST(Tokenize, IsRefusedByNameWhereTheModelHasNoTokenizer) {
  auto world = World::Ready({{"m", [] { return LoadedModel{.model = NewFakeClassifier()}; }}});
  v1::TokenizeRequest tokenize;
  tokenize.add_inputs()->set_text("fine");
  v1::DetokenizeRequest detokenize;
  detokenize.add_inputs()->add_ids(1);
  const auto refusal = [](const std::string& rpc) {
    return Refusal{.reason = "RPC_UNSUPPORTED",
                   .field = "target.model",
                   .message = Cat("'m' does not answer ", rpc, ", it has no tokenizer, it answers Classify")};
  };
  ExpectTold(StatusOf(*world, tokenize), refusal("Tokenize"));
  ExpectTold(StatusOf(*world, detokenize), refusal("Detokenize"));
}

TEST(Tokenize, IsAmongTheRpcsOfAModelWithATokenizer) {
  auto world = World::Ready(EveryModel());
  EXPECT_THAT(DescriptionOf(*world, "reader").rpcs(),
              ElementsAre("heed.v1.Inference.Classify", "heed.v1.Inference.Tokenize",
                          "heed.v1.Inference.Detokenize"));
}

// Two long requests have both threads that read requests; a third, which came meanwhile, is read before they
// end.
TEST(Tokenize, LetsOthersInBetweenTwoInputs) {
  Gate gate;
  std::atomic<int> slow{0}, before{0};
  const auto look = [&](std::string_view text) {
    if (text == "fine") before = slow.load();
    if (text == "slow" && ++slow <= 2) gate.Pass();
    return absl::OkStatus();
  };
  const auto make = [&] {
    LoadedModel loaded = WithBytes(NewFakeClassifier());
    loaded.tokenizer = std::make_unique<WatchedTokenizer>(look);
    return loaded;
  };
  auto world = World::Ready({{"m", make}}, WithMetrics);
  v1::TokenizeRequest request;
  for (int i = 0; i < 1000; ++i) request.add_inputs()->set_text("slow");
  const auto ask = [&] { return Tokenized(*world, request).results_size(); };
  auto first = std::async(std::launch::async, ask), second = std::async(std::launch::async, ask);
  ASSERT_TRUE(Eventually([&] { return gate.reached() == 2; }));
  auto third = std::async(std::launch::async, [&] {
    v1::ClassifyRequest classify;
    classify.add_inputs()->set_text("fine");
    return Ask(*world, classify).status.ok();
  });
  ASSERT_TRUE(Eventually([&] { return MetricSum(*world, "heed_calls_in_flight") == 3; }));
  gate.Open();
  EXPECT_TRUE(third.get());
  EXPECT_EQ(first.get() + second.get(), 2000);
  EXPECT_LT(before, 1000);
}

TEST(Tokenize, WhatAnInputThrowsIsThatInputsError) {
  auto world = World::Ready({{"m", [] {
                                LoadedModel loaded = WithBytes(NewFakeClassifier());
                                loaded.tokenizer =
                                    std::make_unique<WatchedTokenizer>([](std::string_view text) {
                                      if (text == "bad") throw std::bad_alloc();
                                      return absl::OkStatus();
                                    });
                                return loaded;
                              }}});
  v1::TokenizeRequest request;
  for (const char* text : {"good", "bad", "good"}) request.add_inputs()->set_text(text);
  const v1::TokenizeResponse response = Tokenized(*world, request);
  EXPECT_TRUE(response.results(0).has_value());
  EXPECT_EQ(response.results(1).error().reason(), "OUT_OF_MEMORY");
  EXPECT_TRUE(response.results(2).has_value());
}

TEST(Tokenize, IsRefusedWhereItsAnswerWouldTakeTooMuchMemory) {
  auto world = World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_answer_bytes(65536);
  });
  v1::TokenizeRequest request;
  request.add_inputs()->set_text(std::string(10000, 'x'));
  request.mutable_options()->set_pieces(true);
  ExpectTold(StatusOf(*world, request), {.reason = "ANSWER_TOO_LARGE", .field = ""});
  v1::DetokenizeRequest ids;
  ids.add_inputs()->mutable_ids()->Resize(10000, 'x');
  ExpectTold(StatusOf(*world, ids), {.reason = "ANSWER_TOO_LARGE", .field = ""});
}

TEST(Tokenize, WantsATokenThatIsGoodForIt) {
  const PemFiles files;
  const auto entry = [](const std::string& name, const std::string& methods) {
    return Cat("token { name: '", name, "' sha256: '", Sha256(name).value(), "' methods: '", methods,
               "' models: '*' }\n");
  };
  files.Write("tokens", entry("all", "*") + entry("reads", "heed.v1.Inference/Classify") +
                            entry("splits", "heed.v1.Inference/Tokenize"));
  auto world = World::Ready(OneClassifier(),
                            [&](config::v1::ServerConfig& config) { config.set_tokens(files / "tokens"); });
  v1::TokenizeRequest request;
  request.add_inputs()->set_text("fine");
  const auto ask = [&](const std::string& token) {
    auto context = NewContext();
    context->AddMetadata("authorization", "Bearer " + token);
    v1::TokenizeResponse response;
    return world->inference()->Tokenize(context.get(), request, &response);
  };
  EXPECT_TRUE(ask("all").ok());
  EXPECT_TRUE(ask("splits").ok());
  ExpectTold(ask("reads"), {.code = grpc::PERMISSION_DENIED,
                            .reason = "METHOD_FORBIDDEN",
                            .field = "",
                            .message = "the token 'reads' is not good for this method"});
}

TEST(Tokenize, IsCountedAsACallOfItsOwn) {
  auto world = World::Ready(OneClassifier(), WithMetrics);
  v1::TokenizeRequest request;
  for (const char* text : {"one", "two"}) request.add_inputs()->set_text(text);
  Tokenized(*world, request);
  EXPECT_TRUE(Eventually([&] {
    return MetricSum(Metrics(*world), "grpc_server_handled_total",
                     {MethodLabel("Tokenize"), CodeLabel(grpc::OK)}) == 1;
  }));
  EXPECT_EQ(MetricSum(Metrics(*world), "heed_request_tokenization_time_seconds_count"), 2);
  EXPECT_EQ(MetricSum(Metrics(*world), "heed_request_success_total"), 0) << "the model has done nothing";
}

TEST(Detokenize, RefusesIdsByTheirPlace) {
  auto world = World::Ready(
      OneClassifier(), [](config::v1::ServerConfig& config) { config.mutable_limits()->set_text_bytes(10); });
  v1::DetokenizeRequest request;
  for (const std::vector<int32_t>& ids :
       std::vector<std::vector<int32_t>>{{'o', 'k', 0xc3}, {1, -1}, {256}, std::vector<int32_t>(11, 'x'), {}})
    request.add_inputs()->mutable_ids()->Add(ids.begin(), ids.end());
  const v1::DetokenizeResponse response = Detokenized(*world, request);
  EXPECT_EQ(response.results(0).value().text(), "ok\ufffd");
  ExpectTold(response.results(1).error(),
             {.reason = "INVALID_VALUE", .field = "inputs[1]", .message = "ids[1] is -1, ids are 0 to 255"});
  ExpectTold(response.results(2).error(),
             {.reason = "INVALID_VALUE", .field = "inputs[2]", .message = "ids[0] is 256, ids are 0 to 255"});
  ExpectTold(
      response.results(3).error(),
      {.reason = "INPUT_TOO_LONG", .field = "inputs[3]", .message = "there are 11 ids, at most 10 are read"});
  EXPECT_EQ(response.results(4).value().text(), "") << "no ids are the empty text";
}

}  // namespace
}  // namespace heed
