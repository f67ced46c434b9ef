#include "engine/blocks/positions.h"

#include <vector>

#include "engine/base/status.h"

namespace heed {

absl::StatusOr<PositionTable> PositionTable::Load(const WeightScope& scope, const PositionOptions& options) {
  PositionTable table;
  table.kind_ = options.kind;
  if (options.kind == Positions::kLearned) {
    ASSIGN_OR_RETURN(table.learned_, scope.Get("weight", {options.max_positions, options.width}));
  }
  if (options.kind == Positions::kSinusoidal) table.sinusoids_ = Sinusoids(options.width);
  return table;
}

void PositionTable::Add(std::span<const int64_t> positions, Matrix<float> x) const {
  if (kind_ == Positions::kNone) return;
  std::vector<float> learned(kind_ == Positions::kLearned ? x.cols : 0);
  for (int64_t r = 0; r < x.rows; ++r) {
    float* to = x.row(r);
    if (kind_ == Positions::kSinusoidal) {
      sinusoids_.Add(positions[r], to);
      continue;
    }
    ToFloats(learned_, positions[r] * x.cols, x.cols, learned.data());
    for (int64_t c = 0; c < x.cols; ++c) to[c] += learned[c];
  }
}

}  // namespace heed
