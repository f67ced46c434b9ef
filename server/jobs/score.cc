#include "server/jobs/score.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/ops/rows.h"
#include "server/error.h"

namespace heed {
namespace {

// The rows whose logits tell of the tokens from `context` on: each is told of by the row before it.
std::vector<int32_t> RowsBefore(int64_t context, int64_t tokens) {
  const int64_t first = std::max<int64_t>(context, 1) - 1;
  std::vector<int32_t> rows(tokens - 1 - first);
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(first));
  return rows;
}

class ScoreJob : public AnsweringJob<Scored> {
 public:
  // `targets` are the tokens that the wanted rows tell of.
  ScoreJob(const JobInput& input, std::vector<int32_t> wanted, std::vector<int32_t> targets,
           const ScoreOptions& options, Done done)
      : AnsweringJob(input, std::move(wanted), std::move(done)),
        targets_(std::move(targets)),
        options_(options) {
    scored_.by_token.reserve(targets_.size());
  }

  Scored Answer() override {
    scored_.usage = Spent();
    ++scored_.usage.input_tokens;  // the last token is told of, not read
    return std::move(scored_);
  }

 private:
  void Read(int64_t i, std::span<const float> logits) override {
    const double sum = LogSumExp(logits.data(), std::ssize(logits));
    const double logprob = logits[targets_[i]] - sum;
    TokenChoice& choice = scored_.by_token.emplace_back();
    choice.token = targets_[i];
    choice.logprob = static_cast<float>(logprob);
    if (options_.top_logprobs > 0) choice.top = Largest(logits, options_.top_logprobs);
    for (auto& [id, score] : choice.top) score = static_cast<float>(score - sum);
    scored_.logprob += logprob;
  }

  const std::vector<int32_t> targets_;
  const ScoreOptions options_;
  Scored scored_;
};

}  // namespace

int64_t AnswerBytes(const ScoreOptions& options, int64_t tokens) {
  const int64_t top = options.top_logprobs * static_cast<int64_t>(sizeof(std::pair<int32_t, float>));
  return sizeof(Scored) + kListBytes +
         tokens * (static_cast<int64_t>(sizeof(TokenChoice)) + kListBytes + top);
}

absl::StatusOr<std::shared_ptr<Job>> NewScoreJob(JobInput input, int64_t context, const ScoreOptions& options,
                                                 AnsweringJob<Scored>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  const int64_t tokens = std::ssize(input.ids);
  if (context < 0 || context >= tokens)
    return Error(ErrorReason::kInputEmpty, "the continuation has no tokens");
  if (tokens < 2)
    return Error(ErrorReason::kInputEmpty, "there is nothing to score: the first token of all has no score");
  if (options.top_logprobs < 0 || options.top_logprobs > kMaxTopLogprobs) {
    return Invalid("top_logprobs is ", options.top_logprobs, ", possible are 0 to ", kMaxTopLogprobs);
  }
  std::vector<int32_t> wanted = RowsBefore(context, tokens);
  std::vector<int32_t> targets(input.ids.end() - std::ssize(wanted), input.ids.end());
  input.ids.pop_back();
  if (!input.types.empty()) input.types.pop_back();
  return std::make_shared<ScoreJob>(input, std::move(wanted), std::move(targets), options, std::move(done));
}

}  // namespace heed
