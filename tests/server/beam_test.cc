// Beam search under the scheduler: what it finds, whoever shares the steps, and what it holds.
#include "server/jobs/beam.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/generate.h"
#include "server/scheduler.h"
#include "tests/server/fakes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;

// What one sample's stream held, in its order.
struct Heard {
  std::string order;  // s, p, f, e: started, piece, finished, error
  std::vector<int32_t> tokens;
  double score = 0;
  Finished::Reason reason{};
  std::optional<int32_t> stop_token;
  absl::Status error;
};

std::map<std::pair<int, int>, Heard> HearAll(StreamBuffer& events) {
  std::map<std::pair<int, int>, Heard> all;
  while (auto event = events.Next()) {
    Heard& heard = all[{event->input, event->sample}];
    heard.order += "spfe"[event->what.index()];
    if (auto* piece = std::get_if<Piece>(&event->what)) {
      for (const TokenChoice& choice : piece->tokens) heard.tokens.push_back(choice.token);
    } else if (auto* finished = std::get_if<Finished>(&event->what)) {
      heard.score = finished->score.value_or(0);  // of samples none
      heard.reason = finished->reason;
      heard.stop_token = finished->stop_token;
    } else if (auto* error = std::get_if<absl::Status>(&event->what)) {
      heard.error = *error;
    }
  }
  return all;
}

class BeamOfARealModel : public testing::TestWithParam<const char*> {
 protected:
  JobInput Prompt(int i) {
    JobInput input{.model = &*model_, .ids = std::vector<int32_t>(1 + i * 97 % 300)};
    for (size_t k = 0; k < input.ids.size(); ++k) input.ids[k] = static_cast<int32_t>((k * 7 + i) % 50);
    if (model_->info().architecture == Architecture::kEncoderDecoder) {
      input.source = std::exchange(input.ids, {1});
    }
    return input;
  }

  std::map<std::pair<int, int>, Heard> Search(int first, int last, bool with_others) {
    auto events = std::make_shared<StreamBuffer>([] {}, StreamLimits{.tokens = 1 << 20});
    Scheduler scheduler(&*model_, &turns_, &Clock::Real(),
                        {.max_batch_tokens = 512, .max_prefill_tokens = 256});
    for (int i = first; i < last; ++i) {
      auto job =
          NewBeamJob({.input = Prompt(i), .index = i, .events = events}, {.max_tokens = 9},
                     {.width = 2 + i % 3, .length_penalty = 1, .results = 2}, [](const absl::Status&) {});
      EXPECT_TRUE(job.ok()) << job.status();
      EXPECT_TRUE(scheduler.Submit(*job).ok());
      if (!with_others) continue;
      auto other = NewGenerateJob({.input = Prompt(i), .index = 1000 + i, .events = events},
                                  {.stopping = {.max_tokens = 12}}, [](const absl::Status&) {});
      EXPECT_TRUE(scheduler.Submit(*other).ok());
    }
    scheduler.Drain(kNever);
    return HearAll(*events);
  }

  // The same search, each step from the whole text anew.
  std::vector<BeamSearch::Hypothesis> Slow(int i) {
    BeamSearch search({.width = 2 + i % 3, .length_penalty = 1, .results = 2}, {}, 9);
    const JobInput prompt = Prompt(i);
    std::vector<std::vector<int32_t>> texts = {prompt.ids};
    while (search.live() > 0) {
      for (int b = 0; b < search.live(); ++b) {
        auto sequence = model_->Start();
        std::vector<Work> batch(1);
        batch[0] = {.sequence = sequence.get(), .tokens = texts[b], .source = prompt.source};
        batch[0].wanted = {static_cast<int32_t>(texts[b].size()) - 1};
        batch[0].read = [&](int32_t, std::span<const float> logits) { search.Read(b, logits); };
        const auto pass = model_->Begin(&batch);
        while (pass->Advance(threads_)) {
        }
      }
      std::vector<std::vector<int32_t>> next;
      const auto extensions = search.Advance();
      for (const auto& [parent, token] : *extensions) {
        next.push_back(texts[parent]);
        next.back().push_back(token);
      }
      texts = std::move(next);
    }
    return search.Results();
  }

  RandomModel model_ = MakeRandomModel(SmallConfig(GetParam(), "lm"));
  Threads threads_{2};
  Turns turns_{&threads_};
};

TEST_P(BeamOfARealModel, FindsWhatASearchWithoutMemoryFinds) {
  for (int i = 0; i < 4; ++i) {
    const auto heard = Search(i, i + 1, false);
    const auto slow = Slow(i);
    for (int sample : {0, 1}) {
      EXPECT_EQ(heard.at({i, sample}).tokens, slow[sample].tokens);
      EXPECT_NEAR(heard.at({i, sample}).score, slow[sample].score, 1e-4);
      EXPECT_EQ(heard.at({i, sample}).order, "spf");
    }
  }
}

TEST_P(BeamOfARealModel, IsTheSameBitsInAnyCompany) {
  const auto together = Search(0, 6, true);
  for (int i = 0; i < 6; ++i) {
    for (const auto& [key, alone] : Search(i, i + 1, false)) {
      EXPECT_EQ(together.at(key).tokens, alone.tokens);
      EXPECT_EQ(together.at(key).score, alone.score);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BeamOfARealModel, testing::Values("decoder", "encoder-decoder"),
                         [](const auto& info) { return info.index == 0 ? "Decoder" : "EncoderDecoder"; });

// Steps by hand, on the fake model.
class BeamTest : public testing::Test {
 protected:
  BeamTest() {
    model_.set_info({.architecture = Architecture::kDecoder,
                     .head = Head::kLanguageModel,
                     .vocab_size = 5,
                     .output_width = 5,
                     .max_tokens = 40,
                     .eos_token_ids = {4}});
    model_.head = [](const std::vector<int32_t>& history) {
      std::vector<float> logits = {0.1f, 0.2f, 0.3f, 0.4f, -1};
      logits[history.size() % 4] += 1;
      return logits;
    };
  }
  std::shared_ptr<Job> Submit(const BeamOptions& beam, const StopOptions& stopping = {.max_tokens = 6}) {
    auto job = NewBeamJob({.input = {&model_, {0, 1, 2}}, .events = events_}, stopping, beam,
                          [this](const absl::Status& status) { ended_.push_back(status); });
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(scheduler_.Submit(*job).ok());
    return *job;
  }
  std::string Refusal(const BeamOptions& beam, const StopOptions& stopping = {.max_tokens = 6}) {
    return std::string(
        NewBeamJob({.input = {&model_, {0}}, .events = events_}, stopping, beam, [](const absl::Status&) {})
            .status()
            .message());
  }

  FakeModel model_;
  FakeClock clock_;
  Threads threads_{1};
  Turns turns_{&threads_, &clock_};
  std::shared_ptr<StreamBuffer> events_ = std::make_shared<StreamBuffer>([] {});
  std::vector<absl::Status> ended_;
  Scheduler scheduler_{&model_, &turns_, &clock_, {}, {}, /*own_thread=*/false};
};

TEST_F(BeamTest, AStepIsARowForEachHypothesisAfterOnePrompt) {
  Submit({.width = 3});
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(scheduler_.Step());
  ASSERT_EQ(ended_.size(), 1u);
  ASSERT_EQ(model_.passes.size(), 6u);
  EXPECT_EQ(model_.passes[0], std::vector<int64_t>{3});
  for (int i = 1; i < 6; ++i) EXPECT_EQ(model_.passes[i], (std::vector<int64_t>{1, 1, 1}));
}

TEST_F(BeamTest, NothingIsToldBeforeTheEndAndThenTheBestFirst) {
  Submit({.width = 3, .results = 3}, {.max_tokens = 4});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(scheduler_.Step());
    for (const auto& [key, heard] : HearAll(*events_)) EXPECT_EQ(heard.order, "s");
  }
  ASSERT_TRUE(scheduler_.Step());
  const auto heard = HearAll(*events_);
  ASSERT_EQ(heard.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(heard.at({0, i}).order, "pf");
    EXPECT_EQ(heard.at({0, i}).tokens.size(), 4u);
    EXPECT_EQ(heard.at({0, i}).reason, Finished::Reason::kMaxTokens);
    EXPECT_EQ(heard.at({0, i}).stop_token, std::nullopt);
    EXPECT_LE(heard.at({0, i}).score, heard.at({0, std::max(i - 1, 0)}).score);
  }
}

TEST_F(BeamTest, HoldsNoMoreThanItHasReservedAndGivesItBack) {
  const auto job = Submit({.width = 4});
  while (scheduler_.Step()) EXPECT_LE(model_.held, job->terms().bytes);
  EXPECT_EQ(model_.held, 0);
  EXPECT_EQ(scheduler_.reserved_bytes(), 0);
}

TEST_F(BeamTest, CancelledItEndsOnceAndHoldsNothing) {
  const auto job = Submit({.width = 4, .results = 2});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(scheduler_.Step());
  job->Cancel();
  scheduler_.Step();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(ended_[0]));
  EXPECT_EQ(model_.held, 0);
  const auto heard = HearAll(*events_);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(heard.at({0, i}).order, "se");
}

TEST_F(BeamTest, AVocabularyTooSmallForAllResultsIsAnErrorOfTheRest) {
  model_.set_info({.architecture = Architecture::kDecoder,
                   .head = Head::kLanguageModel,
                   .vocab_size = 3,
                   .output_width = 3,
                   .eos_token_ids = {1}});
  model_.head = [](const auto&) { return std::vector<float>{0, 1, -1}; };
  Submit({.width = 4, .results = 4}, {.max_tokens = 1});
  ASSERT_TRUE(scheduler_.Step());
  const auto heard = HearAll(*events_);
  EXPECT_EQ(heard.at({0, 0}).tokens, std::vector<int32_t>{1});
  EXPECT_EQ(heard.at({0, 0}).reason, Finished::Reason::kEndToken);
  EXPECT_EQ(heard.at({0, 0}).stop_token, heard.at({0, 0}).tokens.back());
  EXPECT_EQ(heard.at({0, 3}).order, "se");
  EXPECT_THAT(heard.at({0, 3}).error.message(), HasSubstr("3 texts"));
  EXPECT_EQ(ended_, std::vector<absl::Status>{absl::OkStatus()});
}

TEST_F(BeamTest, RefusesWhatItCannotDo) {
  EXPECT_THAT(Refusal({.width = 0}), HasSubstr("beam.width"));
  EXPECT_THAT(Refusal({.width = 20}), HasSubstr("20"));
  EXPECT_THAT(Refusal({.width = 2}, {.max_tokens = 5, .stop_strings = {"x"}}), HasSubstr("stop string"));
}

}  // namespace
}  // namespace heed
