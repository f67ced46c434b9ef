// One vector for an input.
#ifndef HEED_SERVER_JOBS_EMBED_H_
#define HEED_SERVER_JOBS_EMBED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/reading.h"

namespace heed {

struct EmbedOptions {
  enum class Normalize {
    kModel,
    kYes,
    kNo
  };  // to length 1: as the model's configuration says, or in any case
  Normalize normalize = Normalize::kModel;
  int64_t dimensions = 0;  // only the first so many, normalised after that; at most output_width; 0: all
};

struct Embedded {
  std::vector<float> vector;
  Usage usage;
};

// Closed form: the most memory that an answer takes.
int64_t AnswerBytes(const EmbedOptions& options, const ModelInfo& info);

// For head kEmbedding. `done` is not called if this returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewEmbedJob(JobInput input, const EmbedOptions& options,
                                                 AnsweringJob<Embedded>::Done done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_EMBED_H_
