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

void DistanceBias::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  for (size_t r = 0; r < rows.size(); ++r) {
    const int head = block.HeadOf(r);
    const int64_t distance = block.base - block.positions[r];
    const int64_t near = std::clamp(distance, -reach_, reach_ + 1 - kKeyBlock);
    rows[r].bias = table_.data() + head * (2 * reach_ + 1) + near + reach_;
    rows[r].bias_offset = static_cast<float>(slopes_[head] * std::abs(distance - near));
  }
}

}  // namespace heed
