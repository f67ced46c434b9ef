// What answers take: memory is known before it is used, and a large one holds up no stream.
#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

// Bytes, with somebody who looks on.
class WatchedBytes : public Tokenizer {
 public:
  WatchedBytes(std::function<void()> on_encode, std::function<void()> on_token)
      : on_encode_(std::move(on_encode)) {
    MeasureTokens();
    on_token_ = std::move(on_token);
  }
  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const override {
    if (!pair) on_encode_();  // else it is asked what it can
    return bytes_->Encode(text, pair, options);
  }
  std::string Decode(std::span<const int32_t> ids, bool skip) const override {
    return bytes_->Decode(ids, skip);
  }
  std::string TokenBytes(int32_t id) const override {
    if (on_token_) on_token_();
    return bytes_->TokenBytes(id);
  }
  int32_t vocab_size() const override { return bytes_->vocab_size(); }
  int32_t TokenId(std::string_view token) const override { return bytes_->TokenId(token); }

 private:
  const std::unique_ptr<const Tokenizer> bytes_ = NewBytesTokenizer();
  std::function<void()> on_encode_, on_token_;
};

// Of any length, with a head.
std::unique_ptr<FakeModel> NewFake(Architecture architecture, Head head, int64_t output_width) {
  ModelInfo info;
  info.architecture = architecture;
  info.head = head;
  info.decode = architecture == Architecture::kDecoder ? DecodeClass::kExact : DecodeClass::kNone;
  info.vocab_size = 256;
  info.output_width = output_width;
  if (head == Head::kTokenClassification) info.labels.resize(output_width, std::string(5000, 'l'));
  info.attention = "full";
  auto model = std::make_unique<FakeModel>(2, info);
  model->head = [output_width](const std::vector<int32_t>&) { return std::vector<float>(output_width); };
  return model;
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

v1::ScoreRequest ScoreOf(const std::string& model, int inputs, int bytes) {
  v1::ScoreRequest request;
  request.mutable_target()->set_model(model);
  for (int i = 0; i < inputs; ++i)
    request.add_inputs()->mutable_continuation()->set_text(std::string(bytes, 'x'));
  request.mutable_options()->set_logprobs(true);
  request.mutable_options()->set_top_logprobs(20);
  return request;
}

// What four requests of some MiB take while they are read and refused; the answers would take GiB.
// AddressSanitizer keeps what was freed for a while, up to 256 MiB.
#ifdef HEED_SANITIZED
constexpr int64_t kRequestsThemselves = (64 + 256) << 20;
#else
constexpr int64_t kRequestsThemselves = 64 << 20;
#endif

// Each of these would be answered with gigabytes.
TEST(AnswerMemory, WhatCannotBeAnsweredIsRefusedBeforeItTakesMemory) {
  std::atomic<int> encoded = 0;
  auto watched = [&](std::unique_ptr<FakeModel> model) -> LoadedModel {
    return {.model = std::move(model),
            .tokenizer = std::make_unique<WatchedBytes>([&] { ++encoded; }, nullptr)};
  };
  auto world = World::Ready(
      {{"score", [&] { return watched(NewFake(Architecture::kDecoder, Head::kLanguageModel, 256)); }},
       {"fill", [&] { return watched(NewFake(Architecture::kEncoder, Head::kLanguageModel, 256)); }},
       {"embed", [&] { return watched(NewFake(Architecture::kEncoder, Head::kEmbedding, 1 << 25)); }},
       {"spans", [&] { return watched(NewFake(Architecture::kEncoder, Head::kTokenClassification, 9)); }}});
  auto stub = world->inference();
  const int64_t before = ResidentBytes();
  auto refused = [&](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("at most 268435456 are possible"));
  };

  v1::ScoreResponse scored;
  refused(stub->Score(NewContext().get(), ScoreOf("score", 60, 65'536), &scored));
  EXPECT_EQ(encoded, 1);

  v1::FillRequest fill;
  fill.mutable_target()->set_model("fill");
  fill.mutable_options()->set_top(100);
  for (int i = 0; i < 65'536; ++i) fill.mutable_options()->add_positions(i);
  for (int i = 0; i < 40; ++i) fill.add_inputs()->set_text(std::string(65'536, 'x'));
  v1::FillResponse filled;
  refused(stub->Fill(NewContext().get(), fill, &filled));
  EXPECT_EQ(encoded, 2);

  v1::EmbedRequest embed;
  embed.mutable_target()->set_model("embed");
  for (int i = 0; i < 1024; ++i) embed.add_inputs()->set_text("x");
  v1::EmbedResponse embedded;
  refused(stub->Embed(NewContext().get(), embed, &embedded));

  v1::ClassifyRequest classify;
  classify.mutable_target()->set_model("spans");
  classify.mutable_options()->set_all_tokens(true);
  for (int i = 0; i < 60; ++i) classify.add_inputs()->set_text(std::string(65'536, 'x'));
  v1::ClassifyResponse classified;
  refused(stub->Classify(NewContext().get(), classify, &classified));

  EXPECT_LT(ResidentBytes() - before, kRequestsThemselves);
}

// The limit is asked of the refusal itself.
TEST(AnswerMemory, ARequestJustWithinIsAnswered) {
  auto status_with = [](int64_t answer_bytes) {
    auto world = World::Ready(
        {{"score", [] { return WithBytes(NewFake(Architecture::kDecoder, Head::kLanguageModel, 256)); }}},
        [&](config::v1::ServerConfig& config) { config.mutable_limits()->set_answer_bytes(answer_bytes); });
    v1::ScoreResponse response;
    return world->inference()->Score(NewContext().get(), ScoreOf("score", 1, 100), &response);
  };
  const std::string refused = status_with(65'536).error_message();
  const std::string words = "could be answered with ";
  ASSERT_THAT(refused, HasSubstr(words));
  const int64_t bytes = std::stoll(refused.substr(refused.find(words) + words.size()));
  EXPECT_FALSE(status_with(bytes - 1).ok());
  EXPECT_TRUE(status_with(bytes).ok());
}

TEST(AnswerMemory, OfAllRequestsIsSharedAndGivenBack) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  std::atomic<int> reached = 0;
  auto world = World::Ready(
      {{"score",
        [&] {
          auto model = NewFake(Architecture::kDecoder, Head::kLanguageModel, 256);
          model->head = [&, gone](const std::vector<int32_t>&) {
            ++reached;
            gone.wait_for(std::chrono::seconds(30));
            return std::vector<float>(256);
          };
          return WithBytes(std::move(model));
        }}},
      [](config::v1::ServerConfig& config) { config.mutable_limits()->set_answers_bytes(700'000); });
  auto stub = world->inference();
  const v1::ScoreRequest request = ScoreOf("score", 1, 100);
  v1::ScoreResponse first_response, response;
  auto first = std::async(std::launch::async,
                          [&] { return stub->Score(NewContext().get(), request, &first_response); });
  ASSERT_TRUE(Eventually([&] { return reached > 0; }));
  auto context = NewContext();
  const grpc::Status full = stub->Score(context.get(), request, &response);
  EXPECT_EQ(full.error_code(), grpc::RESOURCE_EXHAUSTED) << full.error_message();
  EXPECT_EQ(context->GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  go.set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(Eventually([&] { return stub->Score(NewContext().get(), request, &response).ok(); }));
}

TEST(AnswerMemory, AMessageLargerThanTheServerSendsSaysSo) {
  auto world = World::Ready(
      {{"score", [] { return WithBytes(NewFake(Architecture::kDecoder, Head::kLanguageModel, 256)); }},
       {"writer", [] { return WithBytes(NewFakeWriter()); }}},
      [](config::v1::ServerConfig& config) { config.mutable_transport()->set_send_bytes(1024); });
  v1::ScoreResponse response;
  const grpc::Status scored =
      world->inference()->Score(NewContext().get(), ScoreOf("score", 1, 100), &response);
  EXPECT_EQ(scored.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(scored.error_message(), HasSubstr("a message from the server at most 1024"));

  v1::GenerateRequest request = GreedyRequest("writer", "abc", 61);
  request.clear_sampling();
  request.mutable_beam()->set_width(1);
  request.mutable_details()->set_logprobs(true);
  request.mutable_details()->set_tokens(true);
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), request);
  for (v1::GenerateEvent event; stream->Read(&event);) {
  }
  const grpc::Status written = stream->Finish();
  EXPECT_EQ(written.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(written.error_message(), HasSubstr("a message from the server at most 1024"));
}

TEST(Answers, AStreamGoesOnWhileAnAnswerIsMade) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  std::atomic<int> making = 0;
  auto world =
      World::Ready({{"score",
                     [&]() -> LoadedModel {
                       return {.model = NewFake(Architecture::kDecoder, Head::kLanguageModel, 256),
                               .tokenizer = std::make_unique<WatchedBytes>([] {},
                                                                           [&, gone] {
                                                                             ++making;
                                                                             gone.wait_for(seconds(30));
                                                                           })};
                     }},
                    {"writer", [] { return WithBytes(NewFakeWriter()); }}});
  auto stub = world->inference();
  std::vector<std::future<grpc::Status>> answers;
  for (int i = 0; i < 4; ++i) {  // more than there are threads for answers
    answers.push_back(std::async(std::launch::async, [&] {
      v1::ScoreResponse response;
      return stub->Score(NewContext().get(), ScoreOf("score", 1, 10), &response);
    }));
  }
  ASSERT_TRUE(Eventually([&] { return making >= 2; }));
  auto context = NewContext();
  auto stream = stub->Generate(context.get(), GreedyRequest("writer", "abc", 10));
  std::string text;
  for (v1::GenerateEvent event; stream->Read(&event);) text += event.piece().text();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(text, "defghijklm");
  go.set_value();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
}

}  // namespace
}  // namespace heed
