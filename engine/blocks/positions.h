// What is added to the first rows for where they stand.
#ifndef HEED_ENGINE_BLOCKS_POSITIONS_H_
#define HEED_ENGINE_BLOCKS_POSITIONS_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/blocks/sinusoids.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

enum class Positions { kNone, kLearned, kSinusoidal };

struct PositionOptions {
  Positions kind = Positions::kNone;
  int64_t width = 0;
  int64_t max_positions = 0;  // rows of the learned table
};

// Const and thread-safe.
class PositionTable {
 public:
  // scope/weight [max_positions, width] if learned.
  static absl::StatusOr<PositionTable> Load(const WeightScope& scope, const PositionOptions& options);
  // x[r] += the table's row of positions[r], which is below max_positions.
  void Add(std::span<const int64_t> positions, Matrix<float> x) const;
  int64_t bytes() const { return learned_.size() * SizeOf(learned_.dtype) + sinusoids_.bytes(); }

 private:
  Positions kind_ = Positions::kNone;
  Tensor learned_;
  Sinusoids sinusoids_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_POSITIONS_H_
