#include "engine/blocks/embedding.h"

#include <vector>

#include "engine/base/status.h"

namespace heed {
absl::StatusOr<Embedding> Embedding::Load(const WeightScope& scope, const EmbeddingOptions& options) {
  Embedding embedding;
  embedding.options_ = options;
  ASSIGN_OR_RETURN(embedding.tokens_, scope.Get("embed.tokens.weight", {options.vocab_size, options.width}));
  if (options.positions == Positions::kLearned) {
    ASSIGN_OR_RETURN(embedding.positions_,
                     scope.Get("embed.positions.weight", {options.max_positions, options.width}));
  }
  if (options.positions == Positions::kSinusoidal) embedding.sinusoids_ = Sinusoids(options.width);
  return embedding;
}

int64_t Embedding::bytes() const {
  return tokens_.size() * SizeOf(tokens_.dtype) + positions_.size() * SizeOf(positions_.dtype) +
         sinusoids_.bytes();
}

void Embedding::Apply(std::span<const int32_t> ids, std::span<const int64_t> positions,
                      Matrix<float> x) const {
  std::vector<float> learned(options_.positions == Positions::kLearned ? x.cols : 0);
  for (int64_t r = 0; r < x.rows; ++r) {
    float* to = x.row(r);
    ToFloats(tokens_, ids[r] * x.cols, x.cols, to);
    for (int64_t c = 0; c < x.cols && options_.scale != 1; ++c) to[c] *= options_.scale;
    if (options_.positions == Positions::kSinusoidal) sinusoids_.Add(positions[r], to);
    if (learned.empty()) continue;
    ToFloats(positions_, positions[r] * x.cols, x.cols, learned.data());
    for (int64_t c = 0; c < x.cols; ++c) to[c] += learned[c];
  }
}

}  // namespace heed
