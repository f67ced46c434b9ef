// How likely a continuation is after a context: the log-probabilities of its tokens, read as the logits come,
// so that no [rows, vocabulary] matrix is ever held.
#ifndef HEED_SERVER_JOBS_SCORE_H_
#define HEED_SERVER_JOBS_SCORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/generation/sampling.h"
#include "server/jobs/reading.h"

namespace heed {

struct ScoreOptions {
  int32_t top_logprobs = 0;  // also the n likeliest tokens in each place, at most kMaxTopLogprobs
};

struct Scored {
  double logprob = 0;                 // of the whole continuation: the sum
  std::vector<TokenChoice> by_token;  // of each scored token, in order, with its alternatives
  Usage usage;                        // input_tokens counts context and continuation
};

// Closed form: the most memory that an answer with so many scored tokens takes.
int64_t AnswerBytes(const ScoreOptions& options, int64_t tokens);

// For decoders and encoder-decoders with head kLanguageModel. `input.ids` is the context followed by the
// continuation, which begins at `context`. With context 0 the first token has no score, and by_token begins
// with the second. Of an encoder-decoder the source is the context, and `input.ids` the start token followed
// by the continuation, with context 1. `done` is not called if this returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewScoreJob(JobInput input, int64_t context, const ScoreOptions& options,
                                                 AnsweringJob<Scored>::Done done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_SCORE_H_
