// Relative position vectors (Shaw et al. 2018), an option of "softmax": learned vectors for the distance from
// a row to a key, beyond `clip` the same ones, are added to keys and to values:
//   r = min(max(j - i, -clip), clip)
//   score(i, j) = scale * q_i . (k_j + a_k[r])     out_i = sum of weight(i, j) (v_j + a_v[r])
//
// Nowhere are there vectors for each row and key. q . a_k is a product of the rows with the table, made for
// the distances that come up and spread over the keys. The weights of a block of keys, moved so that columns
// are distances, those beyond the clip as one sum, are a product with the other table: what it gives is a
// part of the rows' results like the values' own, raised and merged with them.
#ifndef HEED_ENGINE_ATTENTION_SHAW_H_
#define HEED_ENGINE_ATTENTION_SHAW_H_

#include <memory>
#include <vector>

#include "engine/attention/pattern_attention.h"

namespace heed {

// The tables, packed for the micro-kernel. Column c is the distance c - clip. Const and thread-safe.
class ShawVectors {
 public:
  struct Tables {
    int64_t clip = 1;
    int heads = 1;      // 1: all share a table
    bool ahead = true;  // whether there are keys after the row; else distances above 0 are not kept
    std::vector<float> keys,
        values;  // [heads, 2 clip + 1, head_dim]; without values nothing is added to them
  };
  ShawVectors(const PatternOptions& options, DType type, const Tables& tables);

  int64_t clip() const { return clip_; }
  int64_t columns() const { return heads_.front().end(); }
  bool ahead() const { return columns() > clip_ + 1; }
  bool shared() const { return heads_.size() == 1; }
  bool with_values() const { return with_values_; }
  const KeyValuePages& OfHead(int head) const { return heads_[shared() ? 0 : head]; }
  int64_t bytes() const;

 private:
  int64_t clip_;
  bool with_values_;
  std::vector<KeyValuePages> heads_;  // "positions" are columns; keys times scale * log2(e), as biases are
};

// Patterns of one set of all positions.
class ShawAttention : public PatternAttention {
 public:
  ShawAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                ShawVectors vectors);
  double Cost(int64_t rows, int64_t tokens) const override;
  // As if no distance were clipped.
  double PairCost() const override {
    return (vectors_.with_values() ? 2 : 1.5) * PatternAttention::PairCost();
  }
  int64_t ScratchBytes() const override;
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

 private:
  ShawVectors vectors_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SHAW_H_
