#include "engine/blocks/embedding.h"

#include "engine/base/status.h"

namespace heed {
absl::StatusOr<Embedding> Embedding::Load(const WeightScope& scope, const EmbeddingOptions& options) {
  Embedding embedding;
  embedding.options_ = options;
  ASSIGN_OR_RETURN(embedding.tokens_, scope.Get("embed.tokens.weight", {options.vocab_size, options.width}));
  ASSIGN_OR_RETURN(embedding.positions_,
                   PositionTable::Load(scope / "embed.positions",
                                       {options.positions, options.width, options.max_positions}));
  return embedding;
}

int64_t Embedding::bytes() const { return tokens_.size() * SizeOf(tokens_.dtype) + positions_.bytes(); }

void Embedding::Apply(std::span<const int32_t> ids, std::span<const int64_t> positions,
                      Matrix<float> x) const {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* to = x.row(r);
    ToFloats(tokens_, ids[r] * x.cols, x.cols, to);
    for (int64_t c = 0; c < x.cols && options_.scale != 1; ++c) to[c] *= options_.scale;
  }
  positions_.Add(positions, x);
}

}  // namespace heed
