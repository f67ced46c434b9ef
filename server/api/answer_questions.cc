#include "server/api/answer_questions.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/tokenizer.h"
#include "server/api/answering.h"
#include "server/api/many_inputs.h"
#include "server/error.h"
#include "server/jobs/find_spans.h"

namespace heed {
namespace {

absl::Status CheckRange(int32_t value, int32_t most, std::string_view field) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return AtField(Invalid("the value is ", value, ", it must be 0 to ", most), field);
}

absl::StatusOr<SpanOptions> ToOptions(const v1::AnswerOptions& options) {
  RETURN_IF_ERROR(CheckRange(options.top(), kMaxSpans, "options.top"));
  RETURN_IF_ERROR(CheckRange(options.max_answer_tokens(), kMaxSpanTokens, "options.max_answer_tokens"));
  SpanOptions spans;
  if (options.top() > 0) spans.top = options.top();
  if (options.max_answer_tokens() > 0) spans.max_tokens = options.max_answer_tokens();
  return spans;
}

// The context's tokens lie beside each other. A special token in front, [CLS] say, is where models learn to
// point at when there is no answer.
absl::StatusOr<SpanPlace> PlaceOf(const std::vector<int8_t>& texts) {
  SpanPlace place;
  place.begin = std::ranges::find(texts, int8_t{1}) - texts.begin();
  place.end = std::find_if(texts.begin() + place.begin, texts.end(), [](int8_t text) { return text != 1; }) -
              texts.begin();
  if (place.begin == place.end) return Error(ErrorReason::kInputEmpty, "of the context there are no tokens");
  if (texts.front() == kNoText) place.none = 0;
  return place;
}

// Characters [begin, end) of a text.
std::string_view Characters(std::string_view utf8, int64_t begin, int64_t end) {
  int64_t character = -1;
  size_t first = utf8.size(), at = 0;
  for (; at < utf8.size(); ++at) {
    if ((static_cast<unsigned char>(utf8[at]) & 0xc0) == 0x80) continue;
    ++character;
    if (character == begin) first = at;
    if (character == end) break;
  }
  return utf8.substr(std::min(first, at), at - std::min(first, at));
}

// What spans of tokens are as text.
struct SpanWriter {
  std::string_view context;
  Offsets offsets;

  v1::AnswerSpan ToMessage(const FoundSpan& span) const {
    v1::AnswerSpan message;
    message.set_begin(offsets[span.first].first);
    message.set_end(std::max(offsets[span.first].first, offsets[span.last].second));
    message.set_text(std::string(Characters(context, message.begin(), message.end())));
    message.set_score(static_cast<float>(span.score));
    return message;
  }
};

class QuestionInputs final : public Answering<v1::AnswerRequest, v1::AnswerResponse> {
 public:
  QuestionInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
                 const SpanOptions& options)
      : Answering(api, std::move(call), model, std::nullopt), options_(options) {}

 private:
  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override {
    const v1::Question& question = request().inputs(i);
    const std::string where = Where(i);
    ASSIGN_OR_RETURN(ReadInput read, reader().ReadPair({.first = question.question(),
                                                        .second = question.context(),
                                                        .first_field = where + ".question",
                                                        .second_field = where + ".context",
                                                        .field = where}));
    const auto place = PlaceOf(read.texts);
    if (!place.ok()) return AtField(place.status(), where + ".context");
    // The request lives until its answer is made.
    const auto writer = std::make_shared<const SpanWriter>(question.context(), std::move(read.offsets));
    JobInput input = ToJob(std::move(read));
    const int64_t tokens = input.length();
    RETURN_IF_ERROR(
        ReserveAnswer(i, AnsweredBytes(options_, tokens, std::ssize(question.context())), tokens, &input));
    const bool none = request().options().no_answer();
    auto done = Into<FoundSpans>(i, [writer, none](const FoundSpans& found) {
      v1::Answered answered;
      for (const FoundSpan& span : found.spans) *answered.add_spans() = writer->ToMessage(span);
      if (none && found.none) answered.set_no_answer_score(static_cast<float>(*found.none));
      *answered.mutable_usage() = ToMessage(found.usage);
      return answered;
    });
    return AtInput(NewFindSpansJob(std::move(input), *place, options_, std::move(done)), i);
  }

  const SpanOptions options_;
};

}  // namespace

absl::Status AnswerQuestions(const ApiContext& api, std::shared_ptr<AnswerCall> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Answer", api, *call));
  ASSIGN_OR_RETURN(const SpanOptions options, ToOptions(call->request().options()));
  std::make_shared<QuestionInputs>(api, std::move(call), model, options)->Begin();
  return absl::OkStatus();
}

}  // namespace heed
