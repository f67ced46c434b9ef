// One vector for an input.
#ifndef HEED_SERVER_JOBS_EMBED_H_
#define HEED_SERVER_JOBS_EMBED_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/input.h"

namespace heed {

struct EmbedOptions {
  bool normalize = false;  // to length 1; else as the model gives it (its configuration may normalise)
};

struct Embedded {
  std::vector<float> vector;
  Usage usage;
};

// For head kEmbedding. `done` is called once, from the scheduler's thread, and must be quick; not if this
// returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewEmbedJob(JobInput input, const EmbedOptions& options,
                                                 std::function<void(absl::StatusOr<Embedded>)> done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_EMBED_H_
