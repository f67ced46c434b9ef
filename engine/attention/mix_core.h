// Mixing by weights that do not come from queries and keys: scores that the rows themselves, constants or
// both give. The softmax core streams over them as over any other (they reach it as a bias, on top of q.k or
// of nothing), a tile of rows and a block of keys at a time: they never exist as a whole.
//
// The scores of one head are the sum of what is there of
//   scores[i, j] = columns_j . [relu(given_i), 1, constant_i]
//                + table[i, j]
//                + a_i[j mod |a|] c_i[j div |a|],  [a_i, c_i] = factors [relu(given_i), 1]
// with given_i what the row at position i brings.
#ifndef HEED_ENGINE_ATTENTION_MIX_CORE_H_
#define HEED_ENGINE_ATTENTION_MIX_CORE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/attention/score_bias.h"
#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

// One head's constants, packed for the micro-kernel. Const and thread-safe after construction.
class MixScores {
 public:
  struct Parts {
    int64_t n_max = 0;            // positions
    int64_t given = 0;            // numbers that a row brings
    int64_t constants = 0;        // numbers that its position adds
    std::vector<float> constant;  // [n_max, constants]
    std::vector<float> columns;   // [n_max, given + 1 + constants], or empty
    std::vector<float> table;     // [n_max, n_max], or empty
    int64_t a = 0, c = 0;         // a c = n_max
    std::vector<float> factors;   // [a + c, given + 1], or empty
  };
  MixScores(DType type, const Parts& parts);

  // Multiply-adds of one score, and of one row before its scores.
  double score_cost() const;
  double row_cost() const;
  int64_t bytes() const;

 private:
  friend class MixTile;
  int64_t features() const { return given_ + 1 + constants_; }

  DType type_;
  int64_t n_max_, given_, constants_, a_, c_;
  Buffer constant_memory_, table_memory_;
  Rows constant_, table_;     // a row of the table has room for whole pieces of columns
  Buffer columns_, factors_;  // B by blocks of columns
};

// The scores of a tile: of the rows at positions from `first` on, SoftmaxCore::kTile at most.
class MixTile : public ScoreBias {
 public:
  // given: [rows, given]. All must outlive this.
  MixTile(const MixScores& scores, const Rows& given, int64_t first, Scratch& scratch);
  static int64_t ScratchBytes(const MixScores& scores);  // that one takes at most
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;

 private:
  void LoadFeatures(const Rows& given);
  void ComputeColumns(const BiasBlock& block) const;
  void AddTable(const BiasBlock& block) const;
  void AddFactors(const BiasBlock& block) const;

  const MixScores& scores_;
  int64_t first_, rows_;
  Rows features_;          // [rows, features]
  Matrix<float> factors_;  // [rows, a + c]
  Matrix<float> result_;   // [rows, kKeyBlock], times log2(e)
  Matrix<float> table_;    // of a block, as floats
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_MIX_CORE_H_
