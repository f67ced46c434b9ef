// What a generation goes on from, however it chooses its tokens: the prompt's way through its sequence, where
// the text ends, and where it goes.
#ifndef HEED_SERVER_JOBS_PROMPT_H_
#define HEED_SERVER_JOBS_PROMPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/generation/stopping.h"
#include "engine/generation/token_rules.h"
#include "engine/text/tokenizer.h"
#include "server/jobs/input.h"
#include "server/stream_buffer.h"

namespace heed {

struct GenerateInput {
  JobInput input;                             // the prompt; of an encoder-decoder, source and start token
  const Tokenizer* tokenizer = nullptr;       // outlives the job; nullptr: pieces have tokens and no text
  int index = 0;                              // StreamEvent::input
  std::shared_ptr<StreamBuffer> events;       // may be shared by the jobs of one stream
  std::shared_ptr<const TokenRules> rules{};  // nullptr: any token may come
};

// INVALID_ARGUMENT unless the prompt is valid, the options are, and a token at least can follow.
absl::Status Validate(const GenerateInput& input, const StopOptions& options);

// Tokens that end the text.
std::vector<int32_t> EndTokens(const ModelInfo& info, const StopOptions& options);
// How many tokens can follow: within the model's length, or to the end of the image that it draws.
int64_t Room(const JobInput& prompt);
// The most tokens that may be generated.
int64_t MostTokens(const JobInput& prompt, const StopOptions& options);
// The rules that hold, which look at the input as long as they act. Where end tokens end nothing, none is
// forced.
TokenRuling RulingOf(const GenerateInput& input, const StopOptions& options);
// The longest that a sequence becomes: the last token is not read.
int64_t Longest(const JobInput& prompt, const StopOptions& options);

// The first phase of a generation. The input must outlive it.
class Prompt {
 public:
  explicit Prompt(const JobInput& input) : input_(input) {}
  bool begun() const { return asked_ > 0; }
  bool read() const { return asked_ == input_.rows(); }  // each row is or was in a pass
  int64_t left() const { return input_.rows() - asked_; }
  // The next work, of `rows` rows at most. The logits of the last row of all go to `read`.
  Work Next(int64_t rows, std::function<void(std::span<const float> logits)> read);
  // When all is read: the sequence, for whoever goes on.
  std::unique_ptr<Sequence> Take() { return std::move(sequence_); }

 private:
  const JobInput& input_;
  std::unique_ptr<Sequence> sequence_;  // from the first work on
  int64_t asked_ = 0;                   // rows that are or were in a pass
};

}  // namespace heed

#endif  // HEED_SERVER_JOBS_PROMPT_H_
