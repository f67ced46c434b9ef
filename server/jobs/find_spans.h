// Question answering: where in a text the answer stands, of a model that gives each token two logits, that an
// answer begins there and that it ends there.
#ifndef HEED_SERVER_JOBS_FIND_SPANS_H_
#define HEED_SERVER_JOBS_FIND_SPANS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/reading.h"

namespace heed {

inline constexpr int32_t kMaxSpans = 100, kMaxSpanTokens = 1024;

struct SpanOptions {
  int32_t top = 1;          // the n best, 1 .. kMaxSpans
  int32_t max_tokens = 15;  // of a span, 1 .. kMaxSpanTokens
};

// Where an answer may stand, in tokens of the input.
struct SpanPlace {
  int64_t begin = 0, end = 0;  // [begin, end), at least one
  int64_t none = -1;  // the token at which the model says that there is no answer; -1: it has none such
};

struct FoundSpan {
  int64_t first = 0, last = 0;  // tokens of the input, both belong to it
  double score = 0;
};

struct FoundSpans {
  std::vector<FoundSpan> spans;  // best first
  std::optional<double> none;    // the score of no answer
  Usage usage;
};

// The probability that an answer begins at a token is the softmax of the starts of all tokens where one may,
// and of the token for none; of ends alike. A span's score is the product of both of its own: transformers'
// question-answering pipeline. Of equal scores the earlier span, then the shorter one is first.
FoundSpans BestSpans(std::span<const float> starts, std::span<const float> ends, const SpanPlace& place,
                     const SpanOptions& options);

// Closed form: the most memory that an answer to an input of so many tokens takes.
int64_t AnswerBytes(const SpanOptions& options, int64_t tokens);

// For head kTokenClassification with the labels "start" and "end", in this order. `done`: as
// NewClassifyJob's.
absl::StatusOr<std::shared_ptr<Job>> NewFindSpansJob(JobInput input, const SpanPlace& place,
                                                     const SpanOptions& options,
                                                     AnsweringJob<FoundSpans>::Done done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_FIND_SPANS_H_
