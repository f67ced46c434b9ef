// What requests ask of a model's attention (details.attention): which weights, checked with field, value and
// limit, and the answer that has them.
#ifndef HEED_SERVER_API_ATTENTION_H_
#define HEED_SERVER_API_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "heed/v1/inference.pb.h"
#include "server/jobs/input.h"
#include "server/registry.h"

namespace heed {

// As far as it does not depend on an input. nullopt: none is wanted.
absl::StatusOr<std::optional<WeightsChoice>> ToChoice(const v1::Details& details, const ServedModel& model);

// What depends on an input, whose job will read `rows` and a source of so many: INVALID_ARGUMENT if it has no
// such row, or its weights are more than `most` bytes. `where` names it: "inputs[2]".
absl::Status CheckChoice(const WeightsChoice& choice, const ModelInfo& info, int64_t rows, int64_t source,
                         int64_t most, const std::string& where);

// The weights as a job gives them.
v1::AttentionWeights ToMessage(const WeightsChoice& choice, const std::vector<LayerWeights>& weights,
                               const ModelInfo& info);

}  // namespace heed

#endif  // HEED_SERVER_API_ATTENTION_H_
