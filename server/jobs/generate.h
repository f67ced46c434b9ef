// Generation: the prompt once, in chunks (an encoder-decoder's source whole), then one token a step for each
// of its samples, until each has stopped. The samples share the prompt's pass; then each has a sequence of
// its own.
//
// What happens goes to a StreamBuffer as it happens. While that is full the job pauses; the scheduler cancels
// it when that lasts.
#ifndef HEED_SERVER_JOBS_GENERATE_H_
#define HEED_SERVER_JOBS_GENERATE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/generation/sampling.h"
#include "engine/generation/stopping.h"
#include "server/jobs/prompt.h"

namespace heed {

struct GenerateOptions {
  SamplingOptions sampling;  // the seed is set; sample i draws from stream i
  StopOptions stopping;      // max_tokens is at least 1; the text ends at the model's length in any case
  int32_t samples = 1;       // 1 .. 16
};

// For decoders and encoder-decoders with head kLanguageModel. For each sample: Started when the job is
// admitted, Pieces, and then Finished or an error; all have had theirs when `done` is called: once, last,
// with what ended the job (OK also if a sample has failed on its own), from the scheduler's thread; it must
// be quick. Nothing is called if this returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewGenerateJob(GenerateInput input, const GenerateOptions& options,
                                                    std::function<void(const absl::Status&)> done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_GENERATE_H_
