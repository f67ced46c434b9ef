// Scores that grow with a row's position ("position_scale"; Llama 4, 2025), so that softmaxes over many keys
// stay as sharp as those over few: times 1 + beta log(1 + floor(position / length)).
#ifndef HEED_ENGINE_ATTENTION_POSITION_SCALE_H_
#define HEED_ENGINE_ATTENTION_POSITION_SCALE_H_

#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/base/json.h"

namespace heed {

struct PositionScale {
  double beta = 0;
  int64_t length = 1;

  float At(int64_t position) const {
    return static_cast<float>(1 + beta * std::log1p(static_cast<double>(position / length)));
  }
};

// The option "position_scale" {beta, length}; none if it is not given.
absl::StatusOr<std::optional<PositionScale>> ReadPositionScale(JsonFields& fields);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_POSITION_SCALE_H_
