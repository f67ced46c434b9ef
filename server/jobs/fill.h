// The likeliest tokens at masked positions of an input.
#ifndef HEED_SERVER_JOBS_FILL_H_
#define HEED_SERVER_JOBS_FILL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/input.h"

namespace heed {

struct FillOptions {
  int32_t top = 5;                 // tokens a position, 1 .. 100
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

// For encoders with head kLanguageModel. `done` is called once, from the scheduler's thread, and must be
// quick; not if this returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewFillJob(JobInput input, const FillOptions& options,
                                                std::function<void(absl::StatusOr<Filled>)> done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_FILL_H_
