// What golden cases were made with where transformers draws anew each time: the Reformer's rotations,
// BigBird's plans. It stands among the cases' tensors as "rotations.1", of all cases of a folder, or as
// "c0.rotations.1", of one.
#ifndef HEED_ENGINE_MODELS_GOLDEN_DRAWS_H_
#define HEED_ENGINE_MODELS_GOLDEN_DRAWS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/weights/weights.h"

namespace heed {

// The name under which a model asks for it; none if the tensor is no draw.
std::optional<std::string> DrawnName(const std::string& name);

// Of a case by its name, of all cases that have none of their own under "".
using Draws = std::map<std::string, std::map<std::string, Tensor>>;
absl::StatusOr<Draws> ReadDraws(const Weights& file);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_GOLDEN_DRAWS_H_
