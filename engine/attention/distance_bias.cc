#include "engine/attention/distance_bias.h"

#include <algorithm>
#include <cstdlib>
#include <numbers>

#include "engine/attention/key_value_pages.h"

namespace heed {

// Distances to tabulate: a block whose first key is `reach` to the left or, with its last key, to the right
// of the query must be on the straight part as a whole, so a block more to each side.
DistanceBias::DistanceBias(int heads, int64_t reach, const std::function<double(int, int64_t)>& value,
                           const std::function<double(int)>& slope)
    : reach_(reach + kKeyBlock) {
  for (int head = 0; head < heads; ++head) {
    slopes_.push_back(slope(head) * std::numbers::log2e);
    for (int64_t d = -reach_; d <= reach_; ++d) {
      const int64_t near = std::clamp(d, -reach, reach);
      table_.push_back(
          static_cast<float>(value(head, near) * std::numbers::log2e + slopes_[head] * std::abs(d - near)));
    }
  }
}

DistanceBias::Slice DistanceBias::Row(int head, int64_t position, int64_t first_key) const {
  const int64_t distance = first_key - position;
  const int64_t near = std::clamp(distance, -reach_, reach_ + 1 - kKeyBlock);
  const float* table = table_.data() + head * (2 * reach_ + 1);
  return {table + near + reach_, static_cast<float>(slopes_[head] * std::abs(distance - near))};
}

}  // namespace heed
