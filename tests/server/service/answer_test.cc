// Answer, on a real port: spans of a model that transformers has made, from its own logits; what offsets
// count; what is refused.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/weights/weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/find_spans.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

using testing::ElementsAre;

v1::AnswerResponse Answered(World& world, const v1::AnswerRequest& request) {
  v1::AnswerResponse response;
  const grpc::Status status = world.inference()->Answer(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}
grpc::Status StatusOf(World& world, const v1::AnswerRequest& request) {
  v1::AnswerResponse response;
  return world.inference()->Answer(NewContext().get(), request, &response);
}

v1::AnswerRequest RequestOf(const std::string& question, const std::string& context) {
  v1::AnswerRequest request;
  request.add_inputs()->set_question(question);
  request.mutable_inputs(0)->set_context(context);
  return request;
}

// Words w0, w1, ...: token i is "wi", and a word that is none of these is w0. A pair begins with `front`.
std::unique_ptr<const Tokenizer> NumberedWords(int count, int front) {
  Json json = ParseJson(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
      "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
      "model": {"type": "WordLevel", "vocab": {}, "unk_token": "w0"}})",
                        "t")
                  .value();
  for (int i = 0; i < count; ++i) json["model"]["vocab"][Cat("w", i)] = i;
  const Json special = {{"SpecialToken", {{"id", "front"}, {"type_id", 0}}}};
  const Json first = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
             second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special, first}},
      {"pair", {special, first, second}},
      {"special_tokens", {{"front", {{"id", "front"}, {"ids", {front}}, {"tokens", {"w"}}}}}}};
  auto tokenizer = NewPipelineTokenizer(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// ------------------------------------------------------------------------------------------- the oracle's
// case

constexpr char kGolden[] = HEED_SOURCE_DIR "/tests/golden/hf/bert_qa";

std::string Words(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) text += Cat(text.empty() ? "" : " ", "w", id);
  return text;
}

TEST(Answer, IsWhatTransformersLogitsSay) {
  const auto cases = Weights::LoadFile(Cat(kGolden, "/cases.safetensors"));
  ASSERT_TRUE(cases.ok()) << cases.status();
  const auto read = [&](const char* name) { return *(*cases)->Read(name); };
  const std::vector<float> starts = ToFloats(read("c2.start_logits")), ends = ToFloats(read("c2.end_logits"));
  // 50 tokens, the last 11 of type 1; the first stands for [CLS].
  const std::vector<int32_t> ids = {27, 8,  21, 50, 37, 42, 28, 47, 5,  29, 28, 6,  7,  16, 30, 57, 8,
                                    58, 16, 60, 12, 36, 17, 18, 37, 8,  18, 46, 26, 44, 32, 20, 50, 60,
                                    17, 55, 39, 8,  40, 46, 44, 21, 30, 24, 23, 24, 8,  60, 36, 35};
  ASSERT_EQ(starts.size(), ids.size());
  auto world =
      World::Ready({{"m", [&ids]() -> absl::StatusOr<LoadedModel> {
                       ASSIGN_OR_RETURN(auto model, LoadModel(kGolden, {}));
                       return LoadedModel{.model = std::move(model), .tokenizer = NumberedWords(61, ids[0])};
                     }}});
  const std::string context = Words(std::span(ids).subspan(39));
  v1::AnswerRequest request = RequestOf(Words(std::span(ids).subspan(1, 38)), context);
  request.mutable_options()->set_top(7);
  request.mutable_options()->set_max_answer_tokens(4);
  request.mutable_options()->set_no_answer(true);
  const v1::Answered value = Answered(*world, request).results(0).value();
  const FoundSpans expected =
      BestSpans(starts, ends, {.begin = 39, .end = 50, .none = 0}, {.top = 7, .max_tokens = 4});
  ASSERT_EQ(value.spans_size(), 7);
  for (int i = 0; i < 7; ++i) {
    const FoundSpan& span = expected.spans[i];
    EXPECT_NEAR(value.spans(i).score(), span.score, 1e-5);
    EXPECT_EQ(value.spans(i).text(), Words(std::span(ids).subspan(span.first, span.last - span.first + 1)));
    EXPECT_EQ(context.substr(value.spans(i).begin(), value.spans(i).end() - value.spans(i).begin()),
              value.spans(i).text());
  }
  EXPECT_NEAR(value.no_answer_score(), *expected.none, 1e-5);
  EXPECT_EQ(value.usage().input_tokens(), 50);
}

// --------------------------------------------------------------------------------------------- a small model

// An answer begins at w1, and ends at w2; that there is none is not likely.
World::Models Finder() {
  return {{"m", [] {
             ModelInfo info = FakeInfo(Head::kTokenClassification, 2);
             info.labels = {"start", "end"};
             const auto head = [](const std::vector<int32_t>& history) {
               return std::vector<float>{history.back() == 1 ? 9.0f : 0.0f,
                                         history.back() == 2 ? 9.0f : 0.0f};
             };
             LoadedModel loaded = WithBytes(NewFake(info, head));
             loaded.tokenizer = NumberedWords(8, 3);
             return loaded;
           }}};
}

TEST(Answer, CountsTheContextsCharacters) {
  auto world = World::Ready(Finder());
  const v1::AnswerRequest request = RequestOf("w1 w2", "\u00e9\u00e9\u00e9 w1  \U0001f600 w2 w4");
  const v1::Answered value = Answered(*world, request).results(0).value();
  ASSERT_EQ(value.spans_size(), 1) << "one, where nothing is said";
  EXPECT_EQ(value.spans(0).text(), "w1  \U0001f600 w2");
  EXPECT_EQ(value.spans(0).begin(), 4);
  EXPECT_EQ(value.spans(0).end(), 12);
  EXPECT_GT(value.spans(0).score(), 0.9f);
  EXPECT_FALSE(value.has_no_answer_score()) << "which was not asked for";
}

TEST(Answer, IsNoLongerThanAsked) {
  auto world = World::Ready(Finder());
  v1::AnswerRequest request = RequestOf("w5", "w1 w4 w4 w2");
  request.mutable_options()->set_max_answer_tokens(3);
  request.mutable_options()->set_top(100);
  const v1::Answered value = Answered(*world, request).results(0).value();
  EXPECT_EQ(value.spans_size(), 4 + 3 + 2) << "all that there are";
  for (const v1::AnswerSpan& span : value.spans()) EXPECT_LE(span.end() - span.begin(), 8) << span.text();
  EXPECT_LT(value.spans(0).score(), 0.01f);
}

TEST(Answer, OfEachQuestionIsItsOwn) {
  auto world = World::Ready(Finder());
  v1::AnswerRequest request = RequestOf("w5", "w1 w2");
  *request.add_inputs() = RequestOf("", "w1 w2").inputs(0);
  *request.add_inputs() = RequestOf("w5", " ").inputs(0);
  *request.add_inputs() = RequestOf("w5", std::string(3 * 70, ' ')).inputs(0);
  std::string longer;
  for (int i = 0; i < 70; ++i) longer += "w4 ";
  request.mutable_inputs(3)->set_context(longer);
  *request.add_inputs() = RequestOf("w5", "w4 w1 w2").inputs(0);
  const v1::AnswerResponse response = Answered(*world, request);
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.results(0).value().spans(0).text(), "w1 w2");
  ExpectTold(response.results(1).error(), {.reason = "INPUT_EMPTY", .field = "inputs[1].question"});
  ExpectTold(response.results(2).error(), {.reason = "INPUT_EMPTY", .field = "inputs[2].context"});
  ExpectTold(
      response.results(3).error(),
      {.reason = "INPUT_TOO_LONG", .field = "inputs[3]", .message = "72 tokens, 'm' reads at most 64"});
  EXPECT_EQ(response.results(4).value().spans(0).begin(), 3);
  request.mutable_text()->set_truncate(true);
  EXPECT_TRUE(Answered(*world, request).results(3).has_value());
}

TEST(Answer, RefusesOptionsByName) {
  auto world = World::Ready(Finder());
  v1::AnswerRequest request = RequestOf("w5", "w1");
  for (const int top : {-1, 101}) {
    request.mutable_options()->set_top(top);
    ExpectTold(StatusOf(*world, request), {.reason = "INVALID_VALUE",
                                           .field = "options.top",
                                           .message = Cat("the value is ", top, ", it must be 0 to 100")});
  }
  request.mutable_options()->set_top(0);
  for (const int tokens : {-1, 1025}) {
    request.mutable_options()->set_max_answer_tokens(tokens);
    ExpectTold(StatusOf(*world, request),
               {.reason = "INVALID_VALUE",
                .field = "options.max_answer_tokens",
                .message = Cat("the value is ", tokens, ", it must be 0 to 1024")});
  }
  ExpectTold(StatusOf(*world, {}), {.reason = "INPUT_EMPTY", .field = "inputs"});
}

TEST(Answer, IsForModelsThatFindSpans) {
  auto world = World::Ready(EveryModel());
  v1::AnswerRequest request = RequestOf("a", "b");
  request.mutable_target()->set_model("reader");
  ExpectTold(StatusOf(*world, request), {.reason = "RPC_UNSUPPORTED",
                                         .field = "target.model",
                                         .message = "'reader' does not answer Answer, it answers Classify"});
  EXPECT_THAT(DescriptionOf(*World::Ready(Finder())).rpcs(),
              ElementsAre("heed.v1.Inference.Classify", "heed.v1.Inference.Answer",
                          "heed.v1.Inference.Tokenize", "heed.v1.Inference.Detokenize"));
}

}  // namespace
}  // namespace heed
