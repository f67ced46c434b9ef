// Token ids and positions to the first rows of the residual stream.
#ifndef HEED_ENGINE_BLOCKS_EMBEDDING_H_
#define HEED_ENGINE_BLOCKS_EMBEDDING_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/blocks/positions.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

struct EmbeddingOptions {
  int64_t vocab_size = 0;
  int64_t width = 0;
  float scale = 1;  // of the token's row, before the position is added
  Positions positions = Positions::kNone;
  int64_t max_positions = 0;  // rows of the learned table
};

// x = scale * tokens[id] + positions[p]. Const and thread-safe.
class Embedding {
 public:
  // scope/embed.tokens.weight [vocab_size, width], scope/embed.positions.weight [max_positions, width] if
  // learned.
  static absl::StatusOr<Embedding> Load(const WeightScope& scope, const EmbeddingOptions& options);

  // Ids below vocab_size, positions below max_positions.
  void Apply(std::span<const int32_t> ids, std::span<const int64_t> positions, Matrix<float> x) const;

  int64_t width() const { return options_.width; }
  const Tensor& tokens() const { return tokens_; }  // for a tied head
  int64_t bytes() const;                            // of the tables

 private:
  EmbeddingOptions options_;
  Tensor tokens_;
  PositionTable positions_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_EMBEDDING_H_
