#include "server/jobs/prompt.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/error.h"

namespace heed {

absl::Status Validate(const GenerateInput& input, const StopOptions& options) {
  const ModelInfo& info = input.input.model->info();
  RETURN_IF_ERROR(Validate(input.input));
  RETURN_IF_ERROR(Validate(options, info.vocab_size));
  if (!input.tokenizer && !options.stop_strings.empty()) {
    return Invalid("stop strings need a text, and the model has no tokenizer");
  }
  if (MostTokens(input.input, options) < 1 && input.input.drawn) {
    return Error(ErrorReason::kInputTooLong, "the prompt has ", input.input.pixels(), " pixels, the image ",
                 info.drawn.pixels());
  }
  if (MostTokens(input.input, options) < 1) {
    return Error(ErrorReason::kInputTooLong, "the prompt has ", input.input.ids.size(),
                 " tokens and fills the model's length of ", info.max_tokens);
  }
  return absl::OkStatus();
}

std::vector<int32_t> EndTokens(const ModelInfo& info, const StopOptions& options) {
  std::vector<int32_t> ends = options.stop_tokens;
  if (!options.ignore_eos) ends.insert(ends.end(), info.eos_token_ids.begin(), info.eos_token_ids.end());
  return ends;
}

int64_t Room(const JobInput& prompt) {
  const ModelInfo& info = prompt.model->info();
  const int64_t length = info.max_tokens == 0 ? std::numeric_limits<int64_t>::max() : info.max_tokens;
  const int64_t room = length - std::ssize(prompt.ids);
  // An image's last pixel need not be read.
  return prompt.drawn ? std::min(info.drawn.pixels() - prompt.pixels(), room + 1) : room;
}

int64_t MostTokens(const JobInput& prompt, const StopOptions& options) {
  return std::min<int64_t>(options.max_tokens, Room(prompt));
}

TokenRuling RulingOf(const GenerateInput& input, const StopOptions& options) {
  constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
  return {input.rules.get(), input.input.ids, input.input.source,
          options.ignore_eos ? kNoEnd : MostTokens(input.input, options)};
}

int64_t Longest(const JobInput& prompt, const StopOptions& options) {
  return std::ssize(prompt.ids) + MostTokens(prompt, options) - 1;
}

Work Prompt::Next(int64_t rows, std::function<void(std::span<const float> logits)> read) {
  if (!sequence_) sequence_ = input_.model->Start();
  Work work = NextRows(sequence_.get(), input_, asked_, rows);
  if (!work.more) work.wanted = {static_cast<int32_t>(std::ssize(work.tokens) - 1)};
  work.read = [read = std::move(read)](int32_t, std::span<const float> logits) { read(logits); };
  asked_ += work.rows(input_.model->info().input);
  return work;
}

}  // namespace heed
