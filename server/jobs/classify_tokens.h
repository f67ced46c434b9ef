// Classification of every token, joined to spans of the text.
//
// Labels may carry the marks B- (begins a span) and I- (goes on with one), as named-entity models have them;
// labels without marks join as if they were all I-. "O" is no label.
#ifndef HEED_SERVER_JOBS_CLASSIFY_TOKENS_H_
#define HEED_SERVER_JOBS_CLASSIFY_TOKENS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/classify.h"

namespace heed {

using Offsets = std::vector<std::pair<int32_t, int32_t>>;  // of each token in its text, [begin, end)

// A piece of the text with one label. The label is without its mark, its index that of the first token's, the
// score the mean of the tokens'. With all_tokens a span is one token and the label as the model has it.
struct LabelledSpan {
  int32_t begin = 0, end = 0;  // in what the offsets count
  LabelScore label;
};

struct ClassifiedTokens {
  std::vector<LabelledSpan> spans;  // in text order
  Usage usage;
};

// Joins neighbouring tokens of one label. Tokens with an empty offset (special ones) are left out, and part
// spans. `tokens` are the best labels of each token, marks included.
std::vector<LabelledSpan> JoinSpans(const std::vector<LabelScore>& tokens, const Offsets& offsets);

// Closed form: the most memory that an answer to an input of so many tokens takes.
int64_t AnswerBytes(const ClassifyOptions& options, const ModelInfo& info, int64_t tokens);

// For head kTokenClassification. `offsets` has one entry a token (Encoding::offsets), or is empty for inputs
// without text: then spans count tokens. `done`: as NewClassifyJob's.
absl::StatusOr<std::shared_ptr<Job>> NewClassifyTokensJob(JobInput input, Offsets offsets,
                                                          const ClassifyOptions& options,
                                                          AnsweringJob<ClassifiedTokens>::Done done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_CLASSIFY_TOKENS_H_
