// What every kind of job is made of: a model, the token ids that it reads, and how urgent it is.
#ifndef HEED_SERVER_JOBS_INPUT_H_
#define HEED_SERVER_JOBS_INPUT_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/models/model.h"
#include "server/job.h"

namespace heed {

struct JobInput {
  const Model* model = nullptr;  // outlives the job
  std::vector<int32_t> ids;      // special tokens included
  Urgency urgency;
};

// INVALID_ARGUMENT, with the value and the limit, unless the ids are 1 .. max_tokens of the model's
// vocabulary.
absl::Status Validate(const JobInput& input);

// The next work of a sequence that reads `ids` and has read `begin` of them: the next `rows`, or as many of
// them as end on the grid where more will follow.
Work NextRows(Sequence* sequence, std::span<const int32_t> ids, int64_t begin, int64_t rows);

// The `top` largest of n scores (all of them if 0), largest first, of equal ones the lowest index first.
std::vector<std::pair<int32_t, float>> Largest(std::span<const float> scores, int64_t top);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_INPUT_H_
