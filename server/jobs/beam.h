// Beam search as a job: the prompt once, then a row a step for each live hypothesis, which has a sequence of
// its own. A step forks the sequences of hypotheses with several children; forks share what does not change.
//
// Which text is the best is known at the end, so nothing is streamed before: then each result is a sample,
// the best first, in one piece.
#ifndef HEED_SERVER_JOBS_BEAM_H_
#define HEED_SERVER_JOBS_BEAM_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/generation/beam_search.h"
#include "server/jobs/prompt.h"

namespace heed {

// For decoders and encoder-decoders with head kLanguageModel. `beam` has a width; stop strings are refused: a
// hypothesis ends with a token. Samples 0 .. results - 1 have Started, when the job is admitted, one Piece
// and Finished, or an error; `done` as NewGenerateJob's.
absl::StatusOr<std::shared_ptr<Job>> NewBeamJob(GenerateInput input, const StopOptions& stopping,
                                                const BeamOptions& beam,
                                                std::function<void(const absl::Status&)> done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_BEAM_H_
