// Generation on the fake model, whose tokens are letters: what is streamed, and when.
#include "server/jobs/generate.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "server/scheduler.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kEnd = 26;  // 0 .. 25 are letters

std::vector<int32_t> Ids(std::string_view text) {
  std::vector<int32_t> ids;
  for (char c : text) ids.push_back(c - 'a');
  return ids;
}

class Letters : public Tokenizer {
 public:
  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view>,
                                  const EncodeOptions&) const override {
    return Encoding{.ids = Ids(text)};
  }
  std::string Decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (int32_t id : ids) text += static_cast<char>(id == kEnd ? '$' : 'a' + id);
    return text;
  }
  int32_t vocab_size() const override { return 27; }
  int32_t TokenId(std::string_view) const override { return -1; }
};

// After a letter the next one of the alphabet, after z the end.
std::vector<float> Alphabet(const std::vector<int32_t>& history) {
  std::vector<float> logits(27);
  logits[(history.back() + 1) % 27] = 5;
  return logits;
}

// Depends on all of the history, and says nothing clearly. Never the end.
std::vector<float> Babble(const std::vector<int32_t>& history) {
  uint32_t hash = 1;
  for (int32_t id : history) hash = hash * 1664525 + id + 1013904223;
  std::vector<float> logits(27);
  for (int i = 0; i < 27; ++i) logits[i] = static_cast<float>((hash >> (i % 13)) % 97) / 40;
  logits[kEnd] = -100;
  return logits;
}

// What a reader has of one sample.
struct Read {
  int started = 0;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::optional<Finished> finished;
  std::optional<absl::Status> error;
};

class GenerateTest : public testing::Test {
 protected:
  GenerateTest() {
    model_.head = Alphabet;
    model_.set_info({.architecture = Architecture::kDecoder,
                     .head = Head::kLanguageModel,
                     .vocab_size = 27,
                     .max_tokens = 2000,
                     .eos_token_ids = {kEnd}});
  }

  static GenerateOptions Greedy(int32_t max_tokens = 100) {
    return {.sampling = {.temperature = 0}, .stopping = {.max_tokens = max_tokens}};
  }
  static GenerateOptions Sampled(uint64_t seed, int32_t samples = 1, int32_t max_tokens = 20) {
    return {.sampling = {.seed = seed}, .stopping = {.max_tokens = max_tokens}, .samples = samples};
  }

  absl::StatusOr<std::shared_ptr<Job>> Make(std::string_view prompt, const GenerateOptions& options,
                                            int index = 0) {
    return NewGenerateJob(
        {.input = {&model_, Ids(prompt)}, .tokenizer = &letters_, .index = index, .events = events_}, options,
        [this](const absl::Status& status) { done_.push_back(status.code()); });
  }
  std::shared_ptr<Job> Submit(std::string_view prompt, const GenerateOptions& options, int index = 0) {
    auto job = Make(prompt, options, index);
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(scheduler_.Submit(*job).ok());
    return *job;
  }
  void ReadAll() {
    while (auto event = events_->Next()) {
      Read& read = reads_[{event->input, event->sample}];
      EXPECT_FALSE(read.finished || read.error) << "nothing follows the end";
      if (std::holds_alternative<Started>(event->what)) ++read.started;
      if (auto* piece = std::get_if<Piece>(&event->what)) {
        read.text += piece->text;
        for (const auto& choice : piece->tokens)
          read.tokens.push_back(choice.token), read.logprobs.push_back(choice.logprob);
      }
      if (auto* finished = std::get_if<Finished>(&event->what)) read.finished = *finished;
      if (auto* error = std::get_if<absl::Status>(&event->what)) read.error = *error;
    }
  }
  void RunAll() {
    while (scheduler_.Step()) {
      EXPECT_LE(model_.held, scheduler_.reserved_bytes());
      ReadAll();
    }
    ReadAll();
    EXPECT_EQ(model_.held, 0);
  }
  // What one job alone streams for its only sample.
  Read Run(std::string_view prompt, const GenerateOptions& options) {
    reads_.clear();
    Submit(prompt, options);
    RunAll();
    return reads_[{0, 0}];
  }
  std::string Refusal(std::string_view prompt, const GenerateOptions& options) {
    return std::string(Make(prompt, options).status().message());
  }

  Letters letters_;
  FakeClock clock_;
  FakeModel model_;
  Threads threads_{1};
  Turns turns_{&threads_, &clock_};
  Scheduler scheduler_{&model_, &turns_, &clock_, {.max_batch_tokens = 1024}, {}, /*own_thread=*/false};
  std::shared_ptr<StreamBuffer> events_ = std::make_shared<StreamBuffer>([] {});
  std::map<std::pair<int, int>, Read> reads_;
  std::vector<StatusCode> done_;
};

TEST_F(GenerateTest, GreedyFollowsTheLargestLogitToTheEndToken) {
  const Read read = Run("vw", Greedy());
  EXPECT_EQ(read.started, 1);
  EXPECT_EQ(read.text, "xyz");
  EXPECT_THAT(read.tokens, ElementsAre(23, 24, 25, kEnd));
  EXPECT_NEAR(read.logprobs[0], 5 - std::log(std::exp(5) + 26), 1e-5);
  ASSERT_TRUE(read.finished);
  EXPECT_EQ(read.finished->reason, Finished::Reason::kEndToken);
  EXPECT_EQ(read.finished->stop_token, kEnd);
  EXPECT_EQ(read.finished->usage.input_tokens, 2);
  EXPECT_EQ(read.finished->usage.output_tokens, 4);
  EXPECT_THAT(done_, ElementsAre(StatusCode::kOk));
}

TEST_F(GenerateTest, EveryTokenCanBeReadAfterItsStep) {
  Submit("a", Greedy(4));
  for (const char* text : {"b", "bc", "bcd", "bcde"}) {
    scheduler_.Step();
    ReadAll();
    EXPECT_EQ((reads_[{0, 0}].text), text);
  }
  EXPECT_EQ((reads_[{0, 0}].finished->reason), Finished::Reason::kMaxTokens);
}

TEST_F(GenerateTest, TheModelsLengthEndsIt) {
  ModelInfo info = model_.info();
  info.max_tokens = 10;
  model_.set_info(info);
  const Read read = Run("abcdefg", Greedy());
  EXPECT_EQ(read.text, "hij");
  EXPECT_EQ(read.finished->reason, Finished::Reason::kMaxTokens);
  EXPECT_THAT(Refusal("abcdefghij", Greedy()), HasSubstr("10 tokens and fills the model's length of 10"));
}

TEST_F(GenerateTest, AStopStringMaySpanTokens) {
  GenerateOptions options = Greedy();
  options.stopping.stop_strings = {"xx", "efg"};
  Read read = Run("a", options);
  EXPECT_EQ(read.text, "bcd");
  EXPECT_EQ(read.finished->reason, Finished::Reason::kStopString);
  EXPECT_EQ(read.finished->stop_string, "efg");
  EXPECT_EQ(read.finished->stop_token, std::nullopt);
  EXPECT_EQ(read.finished->usage.output_tokens, 6);
  options.stopping.include_stop = true;
  EXPECT_EQ(Run("a", options).text, "bcdefg");
}

TEST_F(GenerateTest, WhatOnlyBeganLikeAStopStringIsToldInTheEnd) {
  GenerateOptions options = Greedy(4);
  options.stopping.stop_strings = {"efg"};
  EXPECT_EQ(Run("b", options).text, "cdef");
}

TEST_F(GenerateTest, StopTokensAndTheModelsEndToken) {
  GenerateOptions options = Greedy();
  options.stopping.stop_tokens = {3};
  EXPECT_EQ(Run("a", options).text, "bc");
  EXPECT_EQ((reads_[{0, 0}].finished->reason), Finished::Reason::kEndToken);
  EXPECT_EQ((reads_[{0, 0}].finished->stop_token), 3);
  options = Greedy(4);
  options.stopping.ignore_eos = true;
  EXPECT_EQ(Run("x", options).text, "yz$a");
}

TEST_F(GenerateTest, TheTokensOfAllSamplesAreCountedAsTheyAreMade) {
  std::vector<int64_t> made;
  SchedulerEvents counts;
  counts.made = [&](int64_t tokens, Duration, bool first) {
    EXPECT_EQ(first, made.empty());
    made.push_back(tokens);
  };
  Scheduler scheduler(&model_, &turns_, &clock_, {}, counts, /*own_thread=*/false);
  model_.head = Babble;
  ASSERT_TRUE(scheduler.Submit(*Make("abc", Sampled(1, /*samples=*/3, /*max_tokens=*/4))).ok());
  while (scheduler.Step()) {
  }
  EXPECT_THAT(made, ElementsAre(3, 3, 3, 3));
}

TEST_F(GenerateTest, BeforeTheFewestTokensThereIsNoEnd) {
  GenerateOptions options = Greedy(6);
  options.sampling.min_tokens = 3;
  const Read read = Run("z", options);
  EXPECT_EQ(read.finished->usage.output_tokens, 6);
  options.stopping.max_tokens = 2;
  EXPECT_THAT(Refusal("z", options), HasSubstr("min_tokens is 3, max_tokens only 2"));
}

TEST_F(GenerateTest, SamplesShareThePromptsPass) {
  model_.head = Babble;
  Submit(std::string(300, 'a'), Sampled(1, 4, 10));
  scheduler_.Step();
  EXPECT_EQ(model_.rows_finished, 300);
  RunAll();
  EXPECT_EQ(model_.rows_finished, 300 + 4 * 9);
  std::set<std::string> texts;
  for (const auto& [key, read] : reads_) texts.insert(read.text);
  EXPECT_EQ(texts.size(), 4) << "samples differ";
}

TEST_F(GenerateTest, SameSeedSameTextWhateverSharesTheBatch) {
  model_.head = Babble;
  std::vector<std::string> prompts;
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    std::string& prompt = prompts.emplace_back(random() % 600 + 1, 'a');
    for (char& c : prompt) c = static_cast<char>('a' + random() % 26);
  }
  std::map<std::pair<int, int>, std::vector<int32_t>> alone;
  for (int i = 0; i < 40; ++i) {
    reads_.clear();
    Submit(prompts[i], Sampled(i / 2, 1 + i % 3), i);
    RunAll();
    for (const auto& [key, read] : reads_) alone[key] = read.tokens;
  }
  reads_.clear();
  for (int i = 39; i >= 0; --i) {
    Submit(prompts[i], Sampled(i / 2, 1 + i % 3), i);
    if (i % 5 == 0) scheduler_.Step();
  }
  RunAll();
  EXPECT_EQ(reads_.size(), alone.size());
  for (const auto& [key, read] : reads_) EXPECT_EQ(read.tokens, alone[key]);
}

TEST_F(GenerateTest, NotANumberFailsItsSampleAlone) {
  model_.head = [](const auto& history) {
    std::vector<float> logits = Babble(history);
    if (history.size() == 4 && history[3] % 2 == 0) logits[5] = std::numeric_limits<float>::quiet_NaN();
    return logits;
  };
  Submit("abc", Sampled(1, 16, 5));
  RunAll();
  int failed = 0, finished = 0;
  for (const auto& [key, read] : reads_) {
    EXPECT_EQ(read.error.has_value(), read.tokens[0] % 2 == 0);
    ++(read.error ? failed : finished);
    EXPECT_EQ(read.error.value_or(absl::OkStatus()).code(),
              read.error ? StatusCode::kInternal : StatusCode::kOk);
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(finished, 0);
  EXPECT_THAT(done_, ElementsAre(StatusCode::kOk));
}

TEST_F(GenerateTest, ItPausesWhileTheBacklogIsFull) {
  model_.head = Babble;
  auto slow = std::make_shared<StreamBuffer>([] {}, StreamLimits{.tokens = 8});
  auto job = NewGenerateJob({.input = {&model_, Ids("a")}, .tokenizer = &letters_, .events = slow},
                            Sampled(1, 1, 100), [](const absl::Status&) {});
  ASSERT_TRUE(scheduler_.Submit(*job).ok());
  Submit("a", Sampled(1, 1, 100), 1);
  while (scheduler_.Step()) ReadAll();
  EXPECT_EQ(slow->tokens(), 8);
  EXPECT_EQ((reads_[{1, 0}].tokens.size()), 100) << "others go on";
  int pieces = 0;
  for (; auto event = slow->Next(); ++pieces) {
    while (scheduler_.Step()) {
    }
  }
  EXPECT_EQ(pieces, 1 + 13 + 1);
}

TEST_F(GenerateTest, WhoseReaderStallsIsCancelled) {
  model_.head = Babble;
  Submit("a", Sampled(1, 2, 1000));
  while (scheduler_.Step()) {
  }
  clock_.Move(seconds(30));
  scheduler_.Step();
  EXPECT_THAT(done_, ElementsAre(StatusCode::kCancelled));
  EXPECT_EQ(model_.held, 0);
  ReadAll();
  for (int sample : {0, 1}) EXPECT_EQ((reads_[{0, sample}].error->code()), StatusCode::kCancelled);
}

TEST_F(GenerateTest, CancelledItTellsEverySampleThatIsNotOver) {
  model_.head = [](const auto& history) {
    std::vector<float> logits = Babble(history);
    if (history.back() < 13) logits[kEnd] = 100;
    return logits;
  };
  auto job = Submit("z", Sampled(4, 8, 1000));
  scheduler_.Step();
  scheduler_.Step();
  job->Cancel();
  RunAll();
  int over = 0;
  for (const auto& [key, read] : reads_) over += read.finished.has_value() && !read.error;
  EXPECT_EQ(reads_.size(), 8);
  EXPECT_GT(over, 0);
  EXPECT_LT(over, 8);
}

TEST_F(GenerateTest, ThatMustBeLongerThanTheModelHasToSayTellsWhatToChange) {
  model_.head = [](const auto&) {
    std::vector<float> logits(27, -std::numeric_limits<float>::infinity());
    logits[kEnd] = 0;
    return logits;
  };
  for (double temperature : {0.0, 1.0}) {
    GenerateOptions options = Greedy();
    options.sampling.temperature = temperature;
    options.sampling.min_tokens = 2;
    const Read read = Run("a", options);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(ReasonOf(*read.error), ErrorReason::kNoTokenLeft);
    EXPECT_EQ(FieldOf(*read.error), "stopping.min_tokens");
    EXPECT_THAT(std::string(read.error->message()), HasSubstr("min_tokens is 2"));
    options.sampling.min_tokens = 0;
    EXPECT_TRUE(Run("a", options).finished);
  }
}

TEST_F(GenerateTest, WithoutATokenizerThereAreTokensAndNoText) {
  auto job = NewGenerateJob({.input = {&model_, Ids("vw")}, .events = events_}, Greedy(),
                            [](const absl::Status&) {});
  ASSERT_TRUE(scheduler_.Submit(*job).ok());
  RunAll();
  EXPECT_EQ((reads_[{0, 0}].text), "");
  EXPECT_THAT((reads_[{0, 0}].tokens), ElementsAre(23, 24, 25, kEnd));
}

TEST_F(GenerateTest, OptionsAreCheckedAtTheDoor) {
  EXPECT_THAT(Refusal("", Greedy()), HasSubstr("no tokens"));
  EXPECT_NE(Refusal("a", Greedy(0)), "");
  EXPECT_THAT(Refusal("a", Sampled(1, 17)), HasSubstr("samples is 17, possible are 1 to 16"));
  GenerateOptions options = Greedy();
  options.stopping.stop_strings = {"x"};
  EXPECT_THAT(std::string(NewGenerateJob({.input = {&model_, {1}}, .events = events_}, options,
                                         [](const absl::Status&) {})
                              .status()
                              .message()),
              HasSubstr("no tokenizer"));
}

}  // namespace
}  // namespace heed
