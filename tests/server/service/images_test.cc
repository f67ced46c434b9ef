// Images through Generate, over a socket: pixels as they are drawn, of decoders that draw.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/world.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Along(const std::string& axis) { return {{"attention", {{"type", "axial"}, {"axis", axis}}}}; }

// Two channels of 4 x 3 pixels of 50 levels, whose first pixel follows from nothing.
Json WholeDecoder() {
  Json config = SmallConfig("axial-decoder", "lm");
  config.erase("layers");
  config["height"] = 4;
  config["width"] = 3;
  config["channels"] = 2;
  config["outer_layers"] = config["exterior_layers"] = {Along("row"), Along("column")};
  config["inner_layers"] = Json::array({Along("row")});
  return config;
}

// 4 x 3 pixels of 47 levels, before which stands 47, or something else that says what to draw.
Json PlainDecoder() {
  Json config = SmallConfig("decoder", "lm");
  config["layers"] = {Along("row"), Along("column")};
  config["height"] = 4;
  config["width"] = 3;
  config["bos_token_id"] = 47;
  return config;
}

std::unique_ptr<World> Serving(const Json& config) {
  return World::Ready(
      {{"artist", [config]() -> absl::StatusOr<LoadedModel> {
          return LoadedModel{.model = MakeRandomModel(config).model, .tokenizer = nullptr, .description = ""};
        }}});
}

using Pixels = std::vector<int32_t>;

struct Drawn {
  grpc::Status status;
  std::vector<Pixels> images;  // of each sample
  v1::GenerateFinished finished;
  int32_t input_tokens = -1;
  double logprob = 0;
};

v1::GenerateRequest Asking(const Pixels& begun, double temperature) {
  v1::GenerateRequest request;
  request.mutable_target()->set_model("artist");
  request.add_inputs()->mutable_tokens()->mutable_ids()->Assign(begun.begin(), begun.end());
  request.mutable_sampling()->set_temperature(temperature);
  request.mutable_sampling()->set_seed(3);
  return request;
}

Drawn Draw(World& world, const v1::GenerateRequest& request) {
  const auto context = NewContext();
  const auto stream = world.inference()->Generate(context.get(), request);
  Drawn drawn;
  for (v1::GenerateEvent event; stream->Read(&event);) {
    if (event.sample() >= std::ssize(drawn.images)) drawn.images.resize(event.sample() + 1);
    Pixels& pixels = drawn.images[event.sample()];
    pixels.insert(pixels.end(), event.piece().tokens().begin(), event.piece().tokens().end());
    for (const auto& token : event.piece().logprobs()) drawn.logprob += token.logprob();
    if (event.has_started()) drawn.input_tokens = event.started().input_tokens();
    if (event.has_finished()) drawn.finished = event.finished();
  }
  drawn.status = stream->Finish();
  return drawn;
}

Drawn Draw(World& world, const Pixels& begun, double temperature = 0) {
  return Draw(world, Asking(begun, temperature));
}

TEST(Images, AreDrawnFromTheFirstPixelToTheLast) {
  const auto world = Serving(WholeDecoder());
  const Drawn drawn = Draw(*world, Pixels{}, 1);
  ASSERT_TRUE(drawn.status.ok()) << drawn.status.error_message();
  ASSERT_EQ(drawn.images.size(), 1u);
  EXPECT_EQ(drawn.images[0].size(), 24u);
  EXPECT_EQ(drawn.input_tokens, 0);
  EXPECT_EQ(drawn.finished.reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(drawn.finished.usage().input_tokens(), 0);
  EXPECT_EQ(drawn.finished.usage().output_tokens(), 24);
  EXPECT_EQ(Draw(*world, Pixels{}, 1).images, drawn.images) << "the same seed, the same image";
}

TEST(Images, ThatWereBegunAreGoneOnWith) {
  for (const Json& config : {WholeDecoder(), PlainDecoder()}) {
    const auto world = Serving(config);
    const Pixels whole = Draw(*world, Pixels{}).images.at(0);
    for (const int at : {1, 2, 3, 7, static_cast<int>(whole.size()) - 1}) {
      const Drawn rest = Draw(*world, Pixels{whole.begin(), whole.begin() + at});
      ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
      EXPECT_EQ(rest.images.at(0), (Pixels{whole.begin() + at, whole.end()})) << at;
      EXPECT_EQ(rest.input_tokens, at);
    }
  }
}

TEST(Images, AreDrawnInSamplesAndSearchedForWithBeams) {
  const auto world = Serving(WholeDecoder());
  const Pixels greedy = Draw(*world, Pixels{}).images.at(0);
  v1::GenerateRequest request = Asking({}, 1);
  request.mutable_sampling()->set_samples(3);
  const Drawn three = Draw(*world, request);
  ASSERT_EQ(three.images.size(), 3u);
  EXPECT_EQ(three.images[2].size(), 24u);
  EXPECT_NE(three.images[0], three.images[1]);
  request.mutable_beam()->set_width(1);
  EXPECT_EQ(Draw(*world, request).images.at(0), greedy);
  request.mutable_beam()->set_width(3);
  const Drawn likely = Draw(*world, request);
  ASSERT_TRUE(likely.status.ok());
  EXPECT_EQ(likely.images.at(0).size(), 24u);
}

v1::Scored ScoreOf(World& world, const Pixels& context, const Pixels& pixels) {
  v1::ScoreRequest request;
  request.mutable_target()->set_model("artist");
  auto* item = request.add_inputs();
  item->mutable_continuation()->mutable_tokens()->mutable_ids()->Assign(pixels.begin(), pixels.end());
  if (!context.empty())
    item->mutable_context()->mutable_tokens()->mutable_ids()->Assign(context.begin(), context.end());
  v1::ScoreResponse response;
  const grpc::Status status = world.inference()->Score(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.results_size() == 1 ? response.results(0).value() : v1::Scored();
}

TEST(Images, AreAsLikelyAsTheirPixels) {
  const std::pair<Json, Pixels> cases[] = {
      {WholeDecoder(), {}}, {PlainDecoder(), {}}, {PlainDecoder(), {49}}};
  for (const auto& [config, named] : cases) {
    const auto world = Serving(config);
    v1::GenerateRequest request = Asking(named, 1);
    request.mutable_details()->set_logprobs(true);
    const Drawn drawn = Draw(*world, request);
    ASSERT_TRUE(drawn.status.ok()) << drawn.status.error_message();
    const Pixels& pixels = drawn.images.at(0);
    const v1::Scored scored = ScoreOf(*world, named, pixels);
    EXPECT_NEAR(scored.logprob(), drawn.logprob, 1e-3);
    EXPECT_EQ(scored.scored_tokens(), std::ssize(pixels)) << "the first has a probability too";
    EXPECT_EQ(scored.usage().input_tokens(), std::ssize(pixels) + std::ssize(named));
    const Pixels begun(pixels.begin(), pixels.begin() + 5), rest(pixels.begin() + 5, pixels.end());
    EXPECT_EQ(ScoreOf(*world, begun, rest).scored_tokens(), std::ssize(rest));
  }
}

TEST(Images, MayBeginWithWhatIsToBeDrawnAndHaveNoOtherThanPixels) {
  Json config = PlainDecoder();
  const auto world = Serving(config);
  const Drawn any = Draw(*world, Pixels{}, 100), named = Draw(*world, Pixels{49}, 100),
              spelt = Draw(*world, Pixels{47}, 100);
  ASSERT_EQ(any.images.at(0).size(), 12u);
  ASSERT_EQ(named.images.at(0).size(), 12u);
  EXPECT_EQ(spelt.images, any.images);
  EXPECT_NE(named.images, any.images);
  EXPECT_EQ(named.input_tokens, 1);
  for (const Drawn* drawn : {&any, &named}) EXPECT_THAT(drawn->images[0], testing::Each(testing::Lt(47)));
  config.erase("bos_token_id");
  const auto unaided = Serving(config);
  EXPECT_EQ(Draw(*unaided, Pixels{5}).images.at(0).size(), 11u);
  EXPECT_THAT(Draw(*unaided, Pixels{}).status.error_message(), HasSubstr("has no tokens"));
}

TEST(Images, RefusalsNameTheValueAndTheLimit) {
  const auto world = Serving(PlainDecoder());
  const auto message = [&](const v1::GenerateRequest& request) {
    return Draw(*world, request).status.error_message();
  };
  EXPECT_THAT(message(Asking(Pixels(12, 3), 0)), HasSubstr("the prompt has 12 pixels, the image 12"));
  v1::GenerateRequest request = Asking(Pixels(5, 3), 0);
  request.mutable_stopping()->set_max_tokens(8);
  EXPECT_THAT(message(request), HasSubstr("5 pixels and max_tokens is 8, together at most 12"));
  request.mutable_stopping()->set_max_tokens(7);
  EXPECT_EQ(message(request), "");
  EXPECT_THAT(message(Asking({3, 48, 3}, 0)), HasSubstr("token 1 is 48, a pixel is 0 to 46"));
  EXPECT_THAT(message(Asking({50}, 0)), HasSubstr("ids[0] is 50, ids are 0 to 49"));
}

TEST(Images, AreDescribed) {
  for (const Json& config : {WholeDecoder(), PlainDecoder()}) {
    const auto world = Serving(config);
    const v1::ModelDescription model = DescriptionOf(*world);
    const bool whole = config["architecture"] == "axial-decoder";
    EXPECT_EQ(model.generated_image().ShortDebugString(),
              whole ? "height: 4 width: 3 channels: 2 levels: 50 begins: true"
                    : "height: 4 width: 3 channels: 1 levels: 47 begins: true");
    EXPECT_EQ(model.default_stopping().max_tokens(), whole ? 24 : 12);
    EXPECT_THAT(model.rpcs(), testing::ElementsAre("heed.v1.Inference.Score", "heed.v1.Inference.Generate"));
  }
  Json given = PlainDecoder();
  given.erase("bos_token_id");
  EXPECT_FALSE(DescriptionOf(*Serving(given)).generated_image().begins());
  EXPECT_EQ(DescriptionOf(*Serving(given)).generated_image().levels(), 50);
  EXPECT_FALSE(DescriptionOf(*Serving(SmallConfig("decoder", "lm"))).has_generated_image());
}

}  // namespace
}  // namespace heed
