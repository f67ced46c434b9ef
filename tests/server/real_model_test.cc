// Jobs and scheduler around a real (small, random) model: what is served is what the model says, whoever
// shares the batch.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/generate.h"
#include "server/jobs/score.h"
#include "server/scheduler.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// What the streams of some jobs held: the choices by input and sample.
using Texts = std::map<std::pair<int, int>, std::vector<TokenChoice>>;

class RealModelTest : public testing::TestWithParam<const char*> {
 protected:
  JobInput Prompt(int i) {
    std::mt19937 random(i);
    JobInput input{.model = &*model_, .ids = std::vector<int32_t>(1 + random() % 700)};
    for (int32_t& id : input.ids) id = static_cast<int32_t>(random() % 50);
    const ModelInfo& info = model_->info();
    if (info.architecture == Architecture::kEncoderDecoder)
      input.source = std::exchange(input.ids, {info.decoder_start_token_id});
    return input;
  }

  // Inputs first .. last - 1 through one scheduler with its own thread.
  Texts Generate(int first, int last, const SchedulerOptions& options) {
    auto events = std::make_shared<StreamBuffer>([] {}, StreamLimits{.tokens = 1 << 20});
    Scheduler scheduler(&*model_, &turns_, &Clock::Real(), options);
    for (int i = first; i < last; ++i) {
      GenerateOptions generate{.sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0, .seed = 7},
                               .stopping = {.max_tokens = 12},
                               .samples = 1 + i % 3};
      auto job = NewGenerateJob({.input = Prompt(i), .index = i, .events = events}, generate,
                                [](const absl::Status& status) { EXPECT_TRUE(status.ok()); });
      EXPECT_TRUE(scheduler.Submit(*job).ok());
    }
    scheduler.Drain(kNever);
    Texts texts;
    while (auto event = events->Next()) {
      if (auto* piece = std::get_if<Piece>(&event->what))
        texts[{event->input, event->sample}] = piece->tokens;
    }
    return texts;
  }

  void ExpectTheSameInAnyCompany() {
    const Texts together = Generate(0, 12, {.max_batch_tokens = 512, .max_prefill_tokens = 256});
    for (int i = 0; i < 12; ++i) {
      for (const auto& [key, alone] : Generate(i, i + 1, {})) {
        const auto& among = together.at(key);
        ASSERT_EQ(among.size(), 12);
        for (size_t t = 0; t < 12; ++t) {
          EXPECT_EQ(among[t].token, alone[t].token);
          EXPECT_EQ(among[t].logprob, alone[t].logprob);
        }
      }
    }
  }

  RandomModel model_ = MakeRandomModel(SmallConfig(GetParam(), "lm"));
  Threads threads_{2};
  Turns turns_{&threads_};
};

TEST_P(RealModelTest, AnswersDoNotDependOnTheCompany) { ExpectTheSameInAnyCompany(); }

TEST_P(RealModelTest, NorDoThoseOfAModelThatReadsItsPromptWhole) {
  const Json lsh = {{"type", "lsh"}, {"chunk_length", 16}, {"num_hashes", 2}, {"num_buckets", 8}};
  Json config = SmallConfig(GetParam(), "lm", lsh);
  if (config.contains("decoder_layers")) {
    for (Json& layer : config["decoder_layers"]) layer["cross_attention"] = {{"type", "full"}};
  }
  model_ = MakeRandomModel(config);
  ASSERT_EQ(model_->info().decode, DecodeClass::kApproximate);
  ExpectTheSameInAnyCompany();
}

TEST_P(RealModelTest, AScoreIsWhatTheGenerationSaid) {
  const std::vector<TokenChoice> text = Generate(3, 4, {}).at({3, 0});
  JobInput input = Prompt(3);
  const auto context = std::ssize(input.ids), given = input.given();
  for (const auto& choice : text) input.ids.push_back(choice.token);
  Scheduler scheduler(&*model_, &turns_, &Clock::Real(), {});
  std::shared_ptr<AnsweringJob<Scored>> ended;
  auto job = NewScoreJob(input, context, {}, [&](auto given) { ended = *given; });
  ASSERT_TRUE(scheduler.Submit(*job).ok());
  scheduler.Drain(kNever);
  const Scored scored = ended->Answer();
  EXPECT_EQ(scored.usage.input_tokens, given + std::ssize(text));
  ASSERT_EQ(scored.by_token.size(), text.size());
  for (size_t t = 0; t < text.size(); ++t) EXPECT_NEAR(scored.by_token[t].logprob, text[t].logprob, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Every, RealModelTest, testing::Values("decoder", "encoder-decoder"),
                         [](const auto& info) { return info.index == 0 ? "Decoder" : "EncoderDecoder"; });

}  // namespace
}  // namespace heed
