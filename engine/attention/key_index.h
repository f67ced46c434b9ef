// The index of DeepSeek's sparse attention ("lightning indexer", DeepSeek-V3.2, 2025), an option of "latent":
// it says whom a row of a decoder meets.
//   score(i, j) = sum over the index's heads h of w_ih relu(q_ih . k_j)
// The row i meets, of the keys up to itself, the top_k of the highest scores, of equal ones the first; where
// there are no more than top_k, all of them. One key of the index a row is remembered, twice, packed as keys
// and as values are. What a stage of its own finds of a row is the score and the place of the last key that
// it meets; when the row attends, the scores are computed once more, block by block, and what is behind that
// key is masked: nothing of the size of rows times keys is kept.
#ifndef HEED_ENGINE_ATTENTION_KEY_INDEX_H_
#define HEED_ENGINE_ATTENTION_KEY_INDEX_H_

#include <memory>
#include <optional>
#include <vector>

#include "engine/attention/pattern_attention.h"

namespace heed {

struct KeyIndex {
  int heads = 1;
  int64_t dim = 0, top_k = 1;
  std::optional<Rotary> rotary;   // of queries and keys
  HeadNorm norm;                  // of keys, before they are turned
  int q = 0, k = 0, weights = 0;  // products
};

// What queries of an index are made of: a product that is so wide. Of a head's numbers the first so many are
// turned by the option "rope".
struct IndexedLatents {
  int product = 0;
  int64_t width = 0, turned = 0;
};
// The option "index", without tensors and products; none if it is not given.
absl::StatusOr<std::optional<KeyIndex>> ReadKeyIndex(JsonFields& fields, const AttentionSetting& setting,
                                                     const IndexedLatents& latents);
// Appends its products. Tensors: index_q.weight [heads head_dim, width], index_k.weight [head_dim,
// hidden_size], index_k_norm.{weight, bias}, index_weights.weight [heads, hidden_size].
absl::Status LoadKeyIndex(const AttentionSetting& setting, const IndexedLatents& latents,
                          const WeightScope& scope, std::vector<Product>& products, KeyIndex& index);

// One key-value head, a pattern of all keys up to the row.
class IndexedAttention : public PatternAttention {
 public:
  IndexedAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                   Product result, KeyIndex index);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  double PairCost() const override { return PatternAttention::PairCost() + ScoreCost() / group(); }
  int64_t ScratchBytes() const override;

  const KeyIndex& index() const { return index_; }
  // Multiply-adds of a row's score with one key.
  double ScoreCost() const { return static_cast<double>(index_.heads * index_.dim); }

 private:
  KeyIndex index_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_KEY_INDEX_H_
