// What an Embed may ask of a vector and of its texts beside the vector itself: fewer dimensions, a prompt.
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/server/service/watched_tokenizer.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

v1::EmbedResponse Embedded(World& world, const v1::EmbedRequest& request) {
  v1::EmbedResponse response;
  const grpc::Status status = world.inference()->Embed(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}
grpc::Status StatusOf(World& world, const v1::EmbedRequest& request) {
  v1::EmbedResponse response;
  return world.inference()->Embed(NewContext().get(), request, &response);
}

// Vectors 3 0 4 0; where they are normalised 0.6 0 0.8 0.
World::Models Embedder(bool normalize) {
  return {{"m", [=] {
             auto model = NewFakeEmbedder();
             ModelInfo info = model->info();
             info.normalize = normalize;
             model->set_info(info);
             return WithBytes(std::move(model));
           }}};
}

TEST(Dimensions, AreTheFirstOfAVectorNormalisedAfterThat) {
  v1::EmbedRequest request;
  request.add_inputs()->set_text("fine");
  const auto vector = [&](World& world, int dimensions) {
    request.mutable_options()->set_dimensions(dimensions);
    const v1::Embedding value = Embedded(world, request).results(0).value();
    return std::vector<float>(value.vector().begin(), value.vector().end());
  };
  auto plain = World::Ready(Embedder(false));
  EXPECT_THAT(vector(*plain, 0), ElementsAre(3, 0, 4, 0));
  EXPECT_THAT(vector(*plain, 3), ElementsAre(3, 0, 4));
  EXPECT_THAT(vector(*plain, 1), ElementsAre(3));
  auto normalised = World::Ready(Embedder(true));
  EXPECT_THAT(vector(*normalised, 4), ElementsAre(FloatNear(0.6f, 1e-6f), 0, FloatNear(0.8f, 1e-6f), 0));
  EXPECT_THAT(vector(*normalised, 2), ElementsAre(1, 0)) << "3 0, brought to length 1";
  request.mutable_options()->set_normalize(v1::EmbedOptions::NORMALIZE_NO);
  EXPECT_THAT(vector(*normalised, 2), ElementsAre(3, 0));
}

TEST(Dimensions, BeyondTheVectorAreRefused) {
  auto world = World::Ready(Embedder(false));
  v1::EmbedRequest request;
  request.add_inputs()->set_text("fine");
  for (const int dimensions : {-1, 5, 1 << 30}) {
    request.mutable_options()->set_dimensions(dimensions);
    ExpectTold(StatusOf(*world, request),
               {.reason = "INVALID_VALUE",
                .field = "options.dimensions",
                .message = Cat("the value is ", dimensions, ", it must be 0 to 4")});
  }
}

// An embedder with prompts, that keeps the texts it reads.
class Prompts : public testing::Test {
 protected:
  Prompts() { request_.add_inputs()->set_text("fine"); }

  void Serve(const SentencePrompts& prompts) {
    world_ = World::Ready({{"m", [this, prompts] {
                              LoadedModel loaded = WithBytes(NewFakeEmbedder());
                              loaded.tokenizer =
                                  std::make_unique<WatchedTokenizer>([this](std::string_view text) {
                                    std::lock_guard lock(mutex_);
                                    read_.emplace_back(text);
                                    return absl::OkStatus();
                                  });
                              loaded.prompts = prompts;
                              return loaded;
                            }}});
  }
  // What the model's tokenizer was given, last.
  std::string Read() {
    Embedded(*world_, request_);
    std::lock_guard lock(mutex_);
    return read_.empty() ? "nothing" : read_.back();
  }

  v1::EmbedRequest request_;
  std::mutex mutex_;
  std::vector<std::string> read_;  // guarded by mutex_
  std::unique_ptr<World> world_;
};

TEST_F(Prompts, StandBeforeTextsByName) {
  Serve({.by_name = {{"query", "query: "}, {"document", ""}}, .default_name = ""});
  EXPECT_EQ(Read(), "fine") << "there is no default";
  request_.mutable_options()->set_prompt_name("query");
  EXPECT_EQ(Read(), "query: fine");
  EXPECT_EQ(Embedded(*world_, request_).results(0).value().usage().input_tokens(), 11);
  request_.mutable_options()->set_prompt_name("document");
  EXPECT_EQ(Read(), "fine") << "an empty prompt";
}

TEST_F(Prompts, TheDefaultOneIsThereWhereNothingIsSaid) {
  Serve({.by_name = {{"query", "query: "}}, .default_name = "query"});
  EXPECT_EQ(Read(), "query: fine");
  request_.mutable_options()->set_prompt_name("");
  EXPECT_EQ(Read(), "fine") << "none, as it is said";
}

TEST_F(Prompts, ThatNobodyHasAreRefusedWithThoseThatAre) {
  Serve({.by_name = {{"query", "query: "}, {"document", ""}}, .default_name = ""});
  request_.mutable_options()->set_prompt_name("passage");
  ExpectTold(StatusOf(*world_, request_), {.reason = "INVALID_VALUE",
                                           .field = "options.prompt_name",
                                           .message = "no prompt has this name; 'm' has 2: document, query"});
  Serve({});
  ExpectTold(StatusOf(*world_, request_), {.reason = "INVALID_VALUE",
                                           .field = "options.prompt_name",
                                           .message = "no prompt has this name; 'm' has no prompts"});
}

TEST_F(Prompts, AreOfTextsOnly) {
  Serve({.by_name = {{"query", "query: "}}, .default_name = "query"});
  *request_.mutable_inputs(0) = TokensOf({1, 2, 3});
  EXPECT_EQ(Embedded(*world_, request_).results(0).value().usage().input_tokens(), 3) << "as they are";
  request_.mutable_options()->set_prompt_name("query");
  ExpectTold(StatusOf(*world_, request_), {.reason = "INVALID_VALUE",
                                           .field = "inputs[0].tokens",
                                           .message = "names a prompt, which only texts have"});
  *request_.mutable_inputs(0) = Text(" ");
  ExpectTold(StatusOf(*world_, request_), {.reason = "INPUT_EMPTY", .field = "inputs[0].text"});
}

TEST_F(Prompts, AreInTheDescriptionOfTheModel) {
  Serve({.by_name = {{"query", "query: "}, {"document", ""}}, .default_name = "query"});
  const v1::ModelDescription description = DescriptionOf(*world_);
  EXPECT_EQ(description.prompts().size(), 2u);
  EXPECT_EQ(description.prompts().at("query"), "query: ");
  EXPECT_EQ(description.default_prompt_name(), "query");
}

}  // namespace
}  // namespace heed
