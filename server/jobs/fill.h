// The likeliest tokens at masked positions of an input.
#ifndef HEED_SERVER_JOBS_FILL_H_
#define HEED_SERVER_JOBS_FILL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/reading.h"

namespace heed {

inline constexpr int32_t kMaxFillTop = 100;

struct FillOptions {
  int32_t top = 5;                 // tokens a position, 1 .. kMaxFillTop
  std::vector<int32_t> positions;  // of the input, ascending; empty: where the model's mask token stands
};

struct Filled {
  struct Position {
    int32_t position = 0;
    std::vector<std::pair<int32_t, float>> tokens;  // (id, log-probability), likeliest first
  };
  std::vector<Position> positions;
  Usage usage;
};

// Where tokens are wanted: the positions given, or those of the mask token.
std::vector<int32_t> PositionsToFill(const FillOptions& options, const ModelInfo& info,
                                     std::span<const int32_t> ids);
// Closed form: the most memory that an answer with so many positions takes.
int64_t AnswerBytes(const FillOptions& options, int64_t positions);

// For encoders with head kLanguageModel. `done` is not called if this returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewFillJob(JobInput input, const FillOptions& options,
                                                AnsweringJob<Filled>::Done done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_FILL_H_
