// The jobs that read an input and answer, on the fake model: what it says of a history of tokens is made into
// answers.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/classify.h"
#include "server/jobs/classify_tokens.h"
#include "server/jobs/embed.h"
#include "server/jobs/fill.h"
#include "server/jobs/score.h"
#include "server/scheduler.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

ModelInfo InfoOf(Architecture architecture, std::vector<std::string> labels = {}) {
  return {.architecture = architecture,
          .vocab_size = 100,
          .max_tokens = 5000,
          .decode = architecture == Architecture::kDecoder ? DecodeClass::kExact : DecodeClass::kNone,
          .labels = std::move(labels),
          .mask_token_id = 99};
}

// Logits of a vocabulary of 100 that depend on the history's length.
std::vector<float> Babbling(const std::vector<int32_t>& history) {
  std::vector<float> logits(100);
  for (int i = 0; i < 100; ++i) logits[i] = std::sin(static_cast<float>(i * history.size()));
  return logits;
}

class JobsTest : public testing::Test {
 protected:
  // Makes a job, runs it alone to its end, and gives its answer.
  template <typename Answer, typename Make>
  absl::StatusOr<Answer> Run(const Make& make) {
    absl::StatusOr<std::shared_ptr<AnsweringJob<Answer>>> ended = absl::UnknownError("not ended");
    auto job = make([&ended](auto given) { ended = std::move(given); });
    if (!job.ok()) return job.status();
    Scheduler scheduler(&model_, &turns_, &clock_, options_, {}, /*own_thread=*/false);
    EXPECT_TRUE(scheduler.Submit(*job).ok());
    while (scheduler.Step()) EXPECT_LE(model_.held, scheduler.reserved_bytes());
    EXPECT_EQ(model_.held, 0);
    if (!ended.ok()) return ended.status();
    return (*ended)->Answer();
  }
  absl::StatusOr<Classified> Classify(std::vector<int32_t> ids, const ClassifyOptions& options = {}) {
    return Run<Classified>([&](auto done) { return NewClassifyJob({&model_, ids}, options, done); });
  }
  absl::StatusOr<ClassifiedTokens> ClassifyTokens(std::vector<int32_t> ids, const Offsets& offsets,
                                                  const ClassifyOptions& options = {}) {
    return Run<ClassifiedTokens>(
        [&](auto done) { return NewClassifyTokensJob({&model_, ids}, offsets, options, done); });
  }
  absl::StatusOr<Embedded> Embed(std::vector<int32_t> ids, const EmbedOptions& options = {}) {
    return Run<Embedded>([&](auto done) { return NewEmbedJob({&model_, ids}, options, done); });
  }
  absl::StatusOr<Scored> Score(std::vector<int32_t> ids, int64_t context, const ScoreOptions& options = {}) {
    return Run<Scored>([&](auto done) { return NewScoreJob({&model_, ids}, context, options, done); });
  }
  absl::StatusOr<Filled> Fill(std::vector<int32_t> ids, const FillOptions& options = {}) {
    return Run<Filled>([&](auto done) { return NewFillJob({&model_, ids}, options, done); });
  }

  FakeClock clock_;
  FakeModel model_{2, InfoOf(Architecture::kEncoder, {"bad", "good", "odd"})};
  Threads threads_{1};
  Turns turns_{&threads_, &clock_};
  SchedulerOptions options_;
};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_F(JobsTest, LabelsComeAsProbabilitiesBestFirst) {
  model_.head = [](const auto&) { return std::vector<float>{0, std::log(6.0f), std::log(3.0f)}; };
  const auto answer = Classify({1, 2, 3});
  ASSERT_TRUE(answer.ok());
  ASSERT_THAT(answer->labels, SizeIs(3));
  EXPECT_EQ(answer->labels[0].label, "good");
  EXPECT_EQ(answer->labels[0].index, 1);
  EXPECT_NEAR(answer->labels[0].score, 0.6, 1e-6);
  EXPECT_NEAR(answer->labels[1].score, 0.3, 1e-6);
  EXPECT_EQ(answer->labels[2].label, "bad");
  EXPECT_EQ(answer->usage.input_tokens, 3);
}

TEST_F(JobsTest, LabelsAreCutToTheBestOrThoseAboveAThresholdOrLeftAsLogits) {
  model_.head = [](const auto&) { return std::vector<float>{0, std::log(6.0f), std::log(3.0f)}; };
  EXPECT_THAT(Classify({1}, {.top = 1})->labels, SizeIs(1));
  EXPECT_THAT(Classify({1}, {.threshold = 0.2})->labels, SizeIs(2));
  EXPECT_EQ(Classify({1}, {.raw_scores = true})->labels[0].score, std::log(6.0f));
}

TEST_F(JobsTest, SeveralLabelsMayBeTrueAtOnce) {
  ModelInfo info = InfoOf(Architecture::kEncoder, {"x", "y"});
  info.multi_label = true;
  model_.set_info(info);
  model_.head = [](const auto&) { return std::vector<float>{0, 50}; };
  const auto answer = Classify({1});
  ASSERT_THAT(answer->labels, SizeIs(2));
  EXPECT_EQ(answer->labels[0].score, 1.0f);
  EXPECT_EQ(answer->labels[1].score, 0.5f);
}

TEST_F(JobsTest, ADecoderClassifiesInChunksAndAnEncoderAtOnce) {
  auto last = [](const auto& history) {
    return std::vector<float>{0, 0, static_cast<float>(history.size())};
  };
  FakeModel decoder(2, InfoOf(Architecture::kDecoder, {"a", "b", "c"}));
  options_.max_batch_tokens = 512;
  for (FakeModel* model : {&model_, &decoder}) {
    model->head = last;
    Scheduler scheduler(model, &turns_, &clock_, options_, {}, false);
    float score = 0;
    auto job = NewClassifyJob({model, std::vector<int32_t>(1200)}, {.raw_scores = true},
                              [&](auto ended) { score = (*ended)->Answer().labels[0].score; });
    ASSERT_TRUE(scheduler.Submit(*job).ok());
    while (scheduler.Step()) {
    }
    EXPECT_EQ(score, 1200);
  }
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(1200)));
  EXPECT_THAT(decoder.passes, ElementsAre(ElementsAre(512), ElementsAre(512), ElementsAre(176)));
}

TEST_F(JobsTest, NotANumberFailsItsInputAlone) {
  model_.head = [](const auto& history) {
    return std::vector<float>{0, history[0] == 7 ? std::numeric_limits<float>::quiet_NaN() : 1, 0};
  };
  Scheduler scheduler(&model_, &turns_, &clock_, {}, {}, false);
  std::vector<StatusCode> codes;
  for (int32_t id : {6, 7, 8}) {
    auto job = NewClassifyJob({&model_, {id}}, {},
                              [&](const auto& ended) { codes.push_back(ended.status().code()); });
    ASSERT_TRUE(scheduler.Submit(*job).ok());
  }
  scheduler.Step();
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(1, 1, 1)));
  EXPECT_THAT(codes, ElementsAre(StatusCode::kOk, StatusCode::kInternal, StatusCode::kOk));
}

TEST_F(JobsTest, InputsAreCheckedAtTheDoor) {
  EXPECT_THAT(Message(Classify({}).status()), HasSubstr("no tokens"));
  EXPECT_THAT(Message(Classify({1, 100}).status()),
              HasSubstr("token 1 of the input is 100, ids are from 0 to 99"));
  EXPECT_THAT(Message(Classify({-1}).status()), HasSubstr("token 0 of the input is -1"));
  EXPECT_THAT(Message(Classify(std::vector<int32_t>(5001)).status()),
              HasSubstr("has 5001 tokens, the model reads at most 5000"));
  EXPECT_EQ(Classify({1}, {.top = -1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Classify({1}, {.threshold = std::nan("")}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Classify({1}, {.raw_scores = true, .threshold = 0.5}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(JobsTest, AnEmbeddingHasLengthOneAsTheModelSaysOrTheCaller) {
  using Normalize = EmbedOptions::Normalize;
  const auto raw = ElementsAre(3, 4);
  const auto scaled = ElementsAre(FloatNear(0.6f, 1e-7f), FloatNear(0.8f, 1e-7f));
  model_.head = [](const auto&) { return std::vector<float>{3, 4}; };
  EXPECT_THAT(Embed({1})->vector, raw);
  EXPECT_THAT(Embed({1}, {Normalize::kYes})->vector, scaled);
  ModelInfo info = model_.info();
  info.normalize = true;
  model_.set_info(info);
  EXPECT_THAT(Embed({1})->vector, scaled);
  EXPECT_THAT(Embed({1}, {Normalize::kNo})->vector, raw);
  model_.head = [](const auto&) { return std::vector<float>{0, 0}; };
  EXPECT_THAT(Embed({1}, {Normalize::kYes})->vector, ElementsAre(0, 0));
}

// The job holds what it has read, however long nobody asks.
TEST_F(JobsTest, TheAnswerIsMadeByWhoeverAsksOnceTheSchedulerIsDone) {
  model_.head = [](const auto&) { return std::vector<float>{0, std::log(6.0f), std::log(3.0f)}; };
  std::shared_ptr<AnsweringJob<Classified>> ended;
  std::weak_ptr<Job> watched;
  {
    Scheduler scheduler(&model_, &turns_, &clock_, {}, {}, false);
    auto job = NewClassifyJob({&model_, {1}}, {}, [&](auto given) { ended = *given; });
    watched = *job;
    ASSERT_TRUE(scheduler.Submit(*std::move(job)).ok());
    scheduler.Step();
  }
  ASSERT_NE(ended, nullptr);
  Classified classified;
  std::jthread([&] { classified = ended->Answer(); }).join();
  EXPECT_EQ(classified.labels[0].label, "good");
  ended.reset();
  EXPECT_TRUE(watched.expired()) << "nothing else has kept it";
}

template <typename T>
int64_t Held(const std::vector<T>& list) {
  return static_cast<int64_t>(list.capacity() * sizeof(T));
}
int64_t Held(const std::string& text) {
  return text.capacity() < sizeof(text) ? 0 : static_cast<int64_t>(text.capacity()) + 1;
}

TEST_F(JobsTest, AnAnswersMemoryIsKnownBeforeItsJobIsMade) {
  const auto expect_within = [](int64_t held, int64_t bound) {
    EXPECT_LE(held, bound);
    EXPECT_GE(3 * held, bound) << "a bound that says something";
  };
  model_.head = Babbling;
  std::vector<int32_t> ids(300);
  for (int i = 0; i < 300; ++i) ids[i] = i % 100;
  const ScoreOptions scoring{.top_logprobs = 5};
  const auto scored = Score(ids, 100, scoring);
  int64_t held = sizeof(Scored) + Held(scored->by_token);
  for (const TokenChoice& choice : scored->by_token) held += Held(choice.top);
  expect_within(held, AnswerBytes(scoring, 200));

  FillOptions filling{.top = 7};
  for (int32_t i = 0; i < 250; ++i) filling.positions.push_back(i);
  const auto filled = Fill(ids, filling);
  held = sizeof(Filled) + Held(filled->positions);
  for (const auto& position : filled->positions) held += Held(position.tokens);
  expect_within(held, AnswerBytes(filling, 250));

  const auto embedded = Embed({1});
  ModelInfo info = model_.info();
  info.output_width = 100;
  expect_within(sizeof(Embedded) + Held(embedded->vector), AnswerBytes(EmbedOptions(), info));

  info.labels.assign(100, "a label that is so long that it lies in memory of its own");
  model_.set_info(info);
  const auto classified = Classify({1}, {.top = 50});
  held = sizeof(Classified) + Held(classified->labels);
  for (const LabelScore& label : classified->labels) held += Held(label.label);
  expect_within(held, AnswerBytes(ClassifyOptions{.top = 50}, info));

  const ClassifyOptions each{.all_tokens = true};
  const auto tokens = ClassifyTokens(ids, {}, each);
  held = sizeof(ClassifiedTokens) + Held(tokens->spans);
  for (const LabelledSpan& span : tokens->spans) held += Held(span.label.label);
  expect_within(held, AnswerBytes(each, info, 300));
}

TEST_F(JobsTest, WhatIsFilledIsKnownBeforeItsJobIsMade) {
  const ModelInfo info = model_.info();
  EXPECT_THAT(PositionsToFill({}, info, std::vector<int32_t>{10, 99, 12, 99}), ElementsAre(1, 3));
  EXPECT_THAT(PositionsToFill({.positions = {2}}, info, std::vector<int32_t>{10, 99, 12, 99}),
              ElementsAre(2));
}

// A span as "label[begin,end)".
std::vector<std::string> Words(const std::vector<LabelledSpan>& spans) {
  std::vector<std::string> words;
  for (const auto& span : spans)
    words.push_back(span.label.label + "[" + std::to_string(span.begin) + "," + std::to_string(span.end) +
                    ")");
  return words;
}

std::vector<std::string> Joined(std::vector<std::string> labels, const Offsets& offsets) {
  std::vector<LabelScore> tokens;
  for (auto& label : labels) tokens.push_back({label, 0, 0.5f});
  return Words(JoinSpans(tokens, offsets));
}

TEST(Spans, MarksBeginAndGoOn) {
  const Offsets offsets = {{0, 3}, {4, 9}, {10, 12}, {13, 19}, {20, 21}, {22, 25}};
  EXPECT_THAT(Joined({"B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-PER"}, offsets),
              ElementsAre("PER[0,9)", "LOC[13,19)", "LOC[20,21)", "PER[22,25)"));
}

TEST(Spans, PlainLabelsJoinTheirNeighbours) {
  const Offsets offsets = {{0, 1}, {1, 2}, {2, 3}, {4, 5}};
  EXPECT_THAT(Joined({"x", "x", "y", "x"}, offsets), ElementsAre("x[0,2)", "y[2,3)", "x[4,5)"));
}

TEST(Spans, SpecialTokensAreNoneAndPart) {
  const Offsets offsets = {{0, 0}, {0, 1}, {0, 0}, {1, 2}, {0, 0}};
  EXPECT_THAT(Joined({"x", "x", "x", "x", "x"}, offsets), ElementsAre("x[0,1)", "x[1,2)"));
}

TEST(Spans, TheScoreIsTheMeanAndTheIndexTheFirst) {
  const auto spans =
      JoinSpans({{"B-A", 1, 0.9f}, {"I-A", 2, 0.6f}, {"I-A", 2, 0.3f}}, {{0, 1}, {1, 2}, {2, 3}});
  ASSERT_THAT(spans, SizeIs(1));
  EXPECT_NEAR(spans[0].label.score, 0.6, 1e-6);
  EXPECT_EQ(spans[0].label.index, 1);
}

TEST_F(JobsTest, TokensAreClassifiedEachOrInSpans) {
  model_.set_info(InfoOf(Architecture::kEncoder, {"O", "B-X", "I-X"}));
  // Token 0 is "O", 1 "B-X", 2 "I-X", with probability 0.8.
  model_.head = [](const auto& history) {
    std::vector<float> logits(3, std::log(0.1f));
    logits[history.back()] = std::log(0.8f);
    return logits;
  };
  const Offsets offsets = {{0, 2}, {3, 4}, {4, 7}, {7, 8}};
  const std::vector<int32_t> ids = {0, 1, 2, 0};
  const auto spans = ClassifyTokens(ids, offsets);
  ASSERT_TRUE(spans.ok());
  EXPECT_THAT(Words(spans->spans), ElementsAre("X[3,7)"));
  EXPECT_NEAR(spans->spans[0].label.score, 0.8, 1e-6);
  EXPECT_THAT(Words(ClassifyTokens(ids, offsets, {.all_tokens = true})->spans),
              ElementsAre("O[0,2)", "B-X[3,4)", "I-X[4,7)", "O[7,8)"));
  EXPECT_THAT(Words(ClassifyTokens(ids, {})->spans), ElementsAre("X[1,3)"));
  EXPECT_THAT(ClassifyTokens(ids, offsets, {.threshold = 0.9})->spans, SizeIs(0));
}

// The logits of what comes after a history: its sum at token (last + 1), and 0 elsewhere.
std::vector<float> Counting(const std::vector<int32_t>& history) {
  std::vector<float> logits(100);
  logits[(history.back() + 1) % 100] = static_cast<float>(history.size());
  return logits;
}
double LogprobOfNext(int64_t tokens_before) { return tokens_before - std::log(std::exp(tokens_before) + 99); }
double LogprobOfOther(int64_t tokens_before) { return -std::log(std::exp(tokens_before) + 99); }

TEST_F(JobsTest, AContinuationIsScoredTokenByToken) {
  model_.head = Counting;
  const auto scored = Score({10, 11, 12, 50}, 1, {.top_logprobs = 2});
  ASSERT_TRUE(scored.ok());
  ASSERT_THAT(scored->by_token, SizeIs(3));
  EXPECT_EQ(scored->by_token[0].token, 11);
  EXPECT_NEAR(scored->by_token[0].logprob, LogprobOfNext(1), 1e-6);
  EXPECT_NEAR(scored->by_token[1].logprob, LogprobOfNext(2), 1e-6);
  EXPECT_NEAR(scored->by_token[2].logprob, LogprobOfOther(3), 1e-6);
  EXPECT_NEAR(scored->logprob, LogprobOfNext(1) + LogprobOfNext(2) + LogprobOfOther(3), 1e-6);
  EXPECT_THAT(scored->by_token[2].top, ElementsAre(Pair(13, FloatNear(LogprobOfNext(3), 1e-6)),
                                                   Pair(0, FloatNear(LogprobOfOther(3), 1e-6))));
  EXPECT_EQ(scored->usage.input_tokens, 4);
}

TEST_F(JobsTest, WithoutAContextTheFirstTokenHasNoScore) {
  model_.head = Counting;
  const auto scored = Score({10, 11, 12}, 0);
  EXPECT_THAT(scored->by_token, SizeIs(2));
  EXPECT_NEAR(scored->logprob, LogprobOfNext(1) + LogprobOfNext(2), 1e-6);
  EXPECT_THAT(Message(Score({10}, 0).status()), HasSubstr("nothing to score"));
  EXPECT_THAT(Message(Score({10, 11}, 2).status()), HasSubstr("no tokens"));
  EXPECT_THAT(Message(Score({10, 11}, 1, {.top_logprobs = 21}).status()), HasSubstr("21"));
}

TEST_F(JobsTest, AScoreInChunksIsTheSame) {
  FakeModel decoder(2, InfoOf(Architecture::kDecoder));
  std::vector<int32_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 100);
  std::vector<double> scores;
  for (int64_t budget : {512, 640, 4096}) {
    decoder.head = Babbling;
    Scheduler scheduler(&decoder, &turns_, &clock_, {.max_batch_tokens = budget}, {}, false);
    auto job = NewScoreJob({&decoder, ids}, 300, {}, [&](auto ended) {
      const Scored scored = (*ended)->Answer();
      EXPECT_EQ(scored.by_token.size(), 700);
      scores.push_back(scored.logprob);
    });
    ASSERT_TRUE(scheduler.Submit(*job).ok());
    while (scheduler.Step()) {
    }
  }
  EXPECT_THAT(scores, ElementsAre(scores[0], scores[0], scores[0]));
}

TEST_F(JobsTest, MasksAreFilledWithTheLikeliestTokens) {
  model_.head = Counting;
  const auto filled = Fill({10, 99, 12, 99}, {.top = 2});
  ASSERT_TRUE(filled.ok());
  ASSERT_THAT(filled->positions, SizeIs(2));
  EXPECT_EQ(filled->positions[0].position, 1);
  EXPECT_EQ(filled->positions[1].position, 3);
  EXPECT_THAT(filled->positions[1].tokens, ElementsAre(Pair(0, FloatNear(LogprobOfNext(4), 1e-6)),
                                                       Pair(1, FloatNear(LogprobOfOther(4), 1e-6))));
}

TEST_F(JobsTest, PositionsToFillMayBeGiven) {
  model_.head = Counting;
  EXPECT_EQ(Fill({10, 11}, {.positions = {0}})->positions[0].tokens[0].first, 11);
  EXPECT_THAT(Message(Fill({10, 11}).status()), HasSubstr("no mask token"));
  EXPECT_THAT(Message(Fill({10, 11}, {.positions = {2}}).status()),
              HasSubstr("position 2 is beyond the input's 2 tokens"));
  EXPECT_THAT(Message(Fill({10, 11}, {.positions = {1, 1}}).status()), HasSubstr("not ascending"));
  EXPECT_THAT(Message(Fill({99}, {.top = 101}).status()), HasSubstr("101"));
}

TEST_F(JobsTest, ACancelledInputIsAnsweredSo) {
  Scheduler scheduler(&model_, &turns_, &clock_, {}, {}, false);
  StatusCode code = StatusCode::kOk;
  auto job = NewEmbedJob({&model_, {1}}, {}, [&](const auto& ended) { code = ended.status().code(); });
  ASSERT_TRUE(scheduler.Submit(*job).ok());
  (*job)->Cancel();
  scheduler.Step();
  EXPECT_EQ(code, StatusCode::kCancelled);
}

TEST_F(JobsTest, AnEncoderDecodersSourceIsCountedAndReadWhole) {
  model_.set_info(InfoOf(Architecture::kEncoderDecoder, {}));
  const JobInput input{.model = &model_, .ids = {1}, .source = std::vector<int32_t>(9, 2)};
  const JobTerms terms = TermsOf(input, /*longest=*/5, /*sequences=*/2);
  EXPECT_EQ(terms.rows, 10);
  EXPECT_EQ(terms.bytes, 2 * 8 * (5 + 9));
  EXPECT_TRUE(terms.whole);
  const auto sequence = model_.Start();
  const Work work = NextRows(sequence.get(), input, 0, 10);
  EXPECT_EQ(work.source, input.source);
  EXPECT_EQ(work.tokens, input.ids);
  EXPECT_EQ(work.rows({}), 10);
}

TEST_F(JobsTest, ASourceIsForEncoderDecodersAndWithinTheirLength) {
  ModelInfo info = InfoOf(Architecture::kEncoderDecoder, {});
  info.max_source_tokens = 4;
  const auto refusal = [&](std::vector<int32_t> ids, std::vector<int32_t> source) {
    model_.set_info(info);
    return Message(Validate(JobInput{.model = &model_, .ids = std::move(ids), .source = std::move(source)}));
  };
  EXPECT_EQ(refusal({1}, {1, 2}), "");
  EXPECT_THAT(refusal({1}, {}), HasSubstr("source has no tokens"));
  EXPECT_THAT(refusal({1}, {1, 2, 3, 4, 5}), HasSubstr("5 tokens, the model reads at most 4"));
  EXPECT_THAT(refusal({1}, {1, 100}), HasSubstr("token 1 of the source is 100"));
  info.architecture = Architecture::kDecoder;
  EXPECT_THAT(refusal({1}, {1}), HasSubstr("no source"));
}

TEST_F(JobsTest, LabelsAreOfWhatAnEncoderReadsAndCountInItsBytes) {
  model_.set_info(InfoOf(Architecture::kEncoder, {}));
  JobInput input{.model = &model_, .ids = {1, 2, 3}};
  EXPECT_EQ(input.labelled(), kNoLabels);
  EXPECT_EQ(TermsOf(input, 3).bytes, 8 * 3);
  input.labels = {0, 1, 1};
  EXPECT_EQ(input.labelled(), 2);
  EXPECT_EQ(TermsOf(input, 3).bytes, 8 * (3 + 2));
  const auto sequence = model_.Start();
  EXPECT_EQ(NextRows(sequence.get(), input, 0, 3).labels, input.labels);
  input.source = {4, 5, 6};
  EXPECT_EQ(NextRows(sequence.get(), input, 0, 6).labels, input.labels);
}

TEST_F(JobsTest, LabelsAreOneARowAndAtMostAsManyAsTheModelTakes) {
  ModelInfo info = InfoOf(Architecture::kEncoder, {});
  const auto refusal = [&](std::vector<int32_t> labels) {
    model_.set_info(info);
    return Message(Validate(JobInput{.model = &model_, .ids = {1, 2, 3}, .labels = std::move(labels)}));
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({0, 0, 0}), HasSubstr("global tokens, of which the model takes none"));
  info.max_global_tokens = 2;
  EXPECT_EQ(refusal({0, 0, 0}), "");
  EXPECT_EQ(refusal({1, 0, 1}), "");
  EXPECT_THAT(refusal({1, 1, 1}), HasSubstr("3 global tokens, the model takes at most 2"));
  EXPECT_THAT(refusal({1, 1}), HasSubstr("2 labels, and 3 tokens"));
  EXPECT_THAT(refusal({0, 2, 0}), HasSubstr("label 1 is 2"));
}

TEST_F(JobsTest, WeightsOfAttentionCountInItsBytesAndAreOfOnePass) {
  ModelInfo info = InfoOf(Architecture::kDecoder, {});
  info.decode = DecodeClass::kExact;
  info.attentions = {{.type = "full", .layer = 0, .weighing_heads = 4},
                     {.type = "linear", .layer = 1},
                     {.type = "full", .layer = 2, .weighing_heads = 2}};
  model_.set_info(info);
  JobInput input{.model = &model_, .ids = {1, 2, 3}};
  const JobTerms plain = TermsOf(input, 3);
  EXPECT_FALSE(plain.whole);
  const auto more = [&](const WeightsChoice& choice) {
    input.weights = choice;
    const JobTerms terms = TermsOf(input, 3);
    EXPECT_TRUE(terms.whole);
    return terms.bytes - plain.bytes;
  };
  EXPECT_EQ(more({}), 4 * (4 * 3 * 3) + 4 * (4 + 2) * 3 * 3);
  EXPECT_EQ(more({.attentions = {2}, .heads = {1}, .rows = {0, 2}}), 4 * (2 * 3 * 3) + 4 * 2 * 3);
}

}  // namespace
}  // namespace heed
