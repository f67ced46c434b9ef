#include "engine/attention/position_scale.h"

#include "engine/base/status.h"

namespace heed {

absl::StatusOr<std::optional<PositionScale>> ReadPositionScale(JsonFields& fields) {
  constexpr double kMostBeta = 1e3;
  constexpr int64_t kMostLength = int64_t{1} << 31;
  if (!fields.Has("position_scale")) return std::nullopt;
  JsonFields own(fields.Raw("position_scale"), Cat(fields.where(), ".position_scale"));
  if (!own.Has("beta")) own.Fail("beta is missing");
  PositionScale scale{.beta = own.Number("beta", 0, 0, kMostBeta)};
  scale.length = own.RequiredInt("length", 1, kMostLength);
  RETURN_IF_ERROR(own.Finish());
  return scale;
}

}  // namespace heed
