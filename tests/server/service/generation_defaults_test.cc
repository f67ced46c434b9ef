// What a folder's generation_config.json does to Generate, over a socket: what DescribeModel tells, what a
// request changes, and, of published folders, what transformers generates with the same files.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

using testing::ElementsAre;

// What is streamed of the first input, and why it ended.
struct Made {
  std::vector<int32_t> tokens;
  v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
  bool scored = false;  // by a search
};

Made Generated(World& world, v1::GenerateRequest request) {
  request.mutable_details()->set_tokens(true);
  const auto context = NewContext();
  auto stream = world.inference()->Generate(context.get(), request);
  Made made;
  for (v1::GenerateEvent event; stream->Read(&event);) {
    made.tokens.insert(made.tokens.end(), event.piece().tokens().begin(), event.piece().tokens().end());
    if (!event.has_finished()) continue;
    made.reason = event.finished().reason();
    made.scored = event.finished().has_score();
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return made;
}

// A model that goes on with the alphabet, with defaults as a folder may give.
std::unique_ptr<World> Writer(const GenerationDefaults& defaults) {
  World::Models models = EveryModel();
  models["writer"] = [defaults] {
    LoadedModel loaded = WithBytes(NewFakeWriter());
    loaded.generation = defaults;
    return loaded;
  };
  return World::Ready(std::move(models));
}

v1::GenerateRequest Asking(const std::string& text) {
  v1::GenerateRequest request;
  request.mutable_target()->set_model("writer");
  *request.add_inputs() = Text(text);
  return request;
}

std::string TextOf(const Made& made) { return {made.tokens.begin(), made.tokens.end()}; }

TEST(GenerationDefaults, HoldWhereARequestSaysNothing) {
  const auto world = Writer({.sampling = {.temperature = 0}, .max_new_tokens = 3});
  EXPECT_EQ(TextOf(Generated(*world, Asking("a"))), "bcd");
  v1::GenerateRequest longer = Asking("a");
  longer.mutable_stopping()->set_max_tokens(5);
  EXPECT_EQ(TextOf(Generated(*world, longer)), "bcdef");
  const v1::ModelDescription model = DescriptionOf(*world, "writer");
  EXPECT_EQ(model.default_sampling().temperature(), 0);
  EXPECT_EQ(model.default_stopping().max_tokens(), 3);
  EXPECT_FALSE(model.has_default_beam());
  EXPECT_FALSE(model.has_token_rules());
}

TEST(GenerationDefaults, AreBeamsWhereARequestAsksForNeitherThemNorSampling) {
  const auto world = Writer({.sampling = {.temperature = 0}, .beam = {.width = 2}, .max_new_tokens = 3});
  EXPECT_EQ(DescriptionOf(*world, "writer").default_beam().width(), 2);
  const Made searched = Generated(*world, Asking("a"));
  EXPECT_EQ(TextOf(searched), "bcd");
  EXPECT_TRUE(searched.scored);
  v1::GenerateRequest sampled = Asking("a");
  sampled.mutable_sampling();
  EXPECT_FALSE(Generated(*world, sampled).scored);
  v1::GenerateRequest stopped = Asking("a");
  stopped.mutable_stopping()->add_stop("c");
  ExpectTold(Ask(*world, stopped).status,
             {.reason = "INVALID_VALUE",
              .field = "stopping.stop",
              .message = "not possible with beam search, which is the model's default: ask for sampling"});
}

TEST(GenerationDefaults, RulesHoldWhateverIsAskedFor) {
  const auto rules = std::make_shared<const TokenRules>(
      TokenRules{.suppress_tokens = {'c'}, .bad_words_ids = {{'b', 'x'}}, .forced_eos_token_ids = {'!'}});
  const auto world = Writer({.sampling = {.temperature = 0}, .max_new_tokens = 4, .rules = rules});
  EXPECT_EQ(DescriptionOf(*world, "writer").token_rules().ShortDebugString(),
            "suppress_tokens: 99 bad_words_ids { ids: 98 ids: 120 } forced_eos_token_ids: 33");
  const std::string text = TextOf(Generated(*world, Asking("a")));
  EXPECT_EQ(text.substr(0, 1), "b");
  EXPECT_NE(text.substr(1, 1), "c");
  EXPECT_EQ(text.substr(2), "d!");
}

TEST(GenerationDefaults, WhatIsNotServedIsSaid) {
  const auto world = Writer({.warnings = {"generation_config.json: penalty_alpha 0.6 is not served"}});
  EXPECT_THAT(DescriptionOf(*world, "writer").warnings(),
              ElementsAre("generation_config.json: penalty_alpha 0.6 is not served"));
}

TEST(GenerationDefaults, ADecoderHasNoFirstTokenBesideItsPrompt) {
  const auto world = Writer({});
  v1::GenerateRequest request = Asking("a");
  request.set_first_token(7);
  ExpectTold(
      Ask(*world, request).status,
      {.reason = "INVALID_VALUE", .field = "first_token", .message = "'writer' is no encoder-decoder"});
}

// ------------------------------------------------------------------------------- beside transformers

// A published checkpoint with this generation_config.json.
struct Folder {
  Folder(const std::string& name, const Json& generation_config) {
    const std::filesystem::path from = HEED_SOURCE_DIR "/tests/golden/walks/" + name;
    for (const auto& file : std::filesystem::directory_iterator(from))
      std::filesystem::copy(file.path(), folder / file.path().filename().string());
    folder.Write("generation_config.json", CanonicalText(generation_config));
  }
  std::unique_ptr<World> Served() const {
    return World::Ready({}, [&](config::v1::ServerConfig& config) {
      auto* model = config.add_models();
      model->set_name("writer");
      model->set_folder(folder.path());
      model->set_precision(config::v1::PRECISION_F32);
    });
  }
  TempFolder folder;
};

v1::GenerateRequest OfTokens(const Json& ids) {
  v1::GenerateRequest request;
  *request.add_inputs() = TokensOf(ids.get<std::vector<int32_t>>());
  return request;
}

TEST(GenerationDefaults, GiveWhatTransformersGeneratesWithTheSameFile) {
  const std::string path = HEED_SOURCE_DIR "/tests/golden/walks/generation.json";
  const Json cases = ParseJson(ReadNamedFile(path, 1 << 20).value(), path).value();
  EXPECT_GE(cases.size(), 12u);
  for (const Json& golden : cases) {
    SCOPED_TRACE(golden["folder"].get<std::string>() + " " + CanonicalText(golden["generation_config"]));
    const Folder folder(golden["folder"].get<std::string>(), golden["generation_config"]);
    const auto world = folder.Served();
    const v1::ModelDescription model = DescriptionOf(*world, "writer");
    EXPECT_THAT(model.warnings(), ElementsAre());
    EXPECT_EQ(model.tokenizer(), "BPE");
    EXPECT_EQ(model.family(), golden["folder"] == "decoder" ? "qwen3" : "bart");
    for (const Json& run : golden["runs"])
      EXPECT_EQ(Json(Generated(*world, OfTokens(run["ids"])).tokens), run["generated"]);
  }
}

TEST(GenerationDefaults, ARequestsOwnFirstTokenComesInstead) {
  const Folder folder("encoder_decoder", {{"forced_bos_token_id", 7}, {"decoder_start_token_id", 2}});
  const auto world = folder.Served();
  v1::GenerateRequest request = OfTokens({0, 50, 60, 2});
  request.mutable_stopping()->set_max_tokens(3);
  EXPECT_EQ(Generated(*world, request).tokens.front(), 7);
  request.set_first_token(9);
  EXPECT_EQ(Generated(*world, request).tokens.front(), 9);
  request.set_first_token(100000);
  ExpectTold(Ask(*world, request).status, {.reason = "INVALID_VALUE", .field = "first_token"});
}

}  // namespace
}  // namespace heed
