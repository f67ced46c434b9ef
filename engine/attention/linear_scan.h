// The linear scan: attention whose weights are products of features, phi(q) . phi(k), so that all the past of
// a head fits into one matrix and one vector (Katharopoulos et al. 2020):
//   memory += phi(k)' v,  norm += phi(k),  out = phi(q) memory / (phi(q) . norm + eps)
//
// Causal, a block of rows attends to what came before it through the memory, and to itself by masked weights:
//   out = (phi(Q) memory + cut(phi(Q) phi(K)') V) / (phi(Q) norm + sums of the cut + eps)
// Three parts, so that blocks may be worked on at the same time: each adds up its own keys, phi(K)' V; the
// memory takes these sums in, one block after another, and leaves each what was before it; each block
// attends. Products are the micro-kernel's. Blocks end at multiples of kGrid, whatever arrived when, so a
// row's result is the same bits however its chunks came. A single row within a block (a decode step) is a
// rank-1 update, the same within rounding.
//
// Features and values are f32 or bf16, memory and norm f32.
//
// Features that are exponentials (Performer) would leave the numbers' range: those of a row come divided by
// exp(its exponent). A query's exponent cancels; a key's weighs it against the largest so far, the peak, by
// which all that is remembered is divided. A row is compared with keys up to itself only, so none depends on
// later ones.
#ifndef HEED_ENGINE_ATTENTION_LINEAR_SCAN_H_
#define HEED_ENGINE_ATTENTION_LINEAR_SCAN_H_

#include <cstdint>
#include <functional>

#include "engine/attention/scan_memory.h"
#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

// What a block of at most kGrid rows hands on, a view.
struct ScanBlock {
  ScanSums sums;               // of its keys; from Take() on, the memory before the block
  void* keys = nullptr;        // their features, as a product with queries reads them
  float* exponents = nullptr;  // [kGrid], scaled only
};

// Const and thread-safe but for the memory and scratch given.
class LinearScan {
 public:
  struct Options {
    int64_t head_dim = 0;
    int64_t features = 0;
    // Rows of queries or keys, [n, head_dim], to their features, [n, features], of the same type, and, if
    // they are scaled, to the exponents of what each row's are divided by. At most kGrid rows.
    std::function<void(const Rows& x, const Rows& features, float* exponents, Scratch& scratch)> feature_map;
    bool scaled = false;
    bool data_dependent = false;  // as Attention says: a rounding may switch features off
    int64_t map_scratch = 0;      // bytes that feature_map takes at most
    double map_row_cost = 0;      // multiply-adds of a row
    double eps = 0;               // added to the normaliser
  };
  LinearScan(DType type, Options options);

  // One head's rows. Takes them in, and each attends to those up to itself.
  void Extend(const Rows& q, const Rows& k, const Rows& v, ScanMemory& memory, const Rows& out,
              Scratch& scratch) const;
  // Takes them in; nobody attends.
  void Remember(const Rows& k, const Rows& v, ScanMemory& memory, Scratch& scratch) const;
  // Attends to all that is remembered. Rows may be cut at multiples of kGrid.
  void Attend(const Rows& q, const ScanMemory& memory, const Rows& out, Scratch& scratch) const;

  // Extend() of more than one row is, block after block: Sum, the memory's Take, AttendBlock.
  void Sum(const Rows& k, const Rows& v, const ScanBlock& block, Scratch& scratch) const;
  void AttendBlock(const Rows& q, const Rows& v, const ScanBlock& block, const Rows& out,
                   Scratch& scratch) const;
  ScanBlock BlockAt(void* memory) const;  // aligned, BlockBytes()
  int64_t BlockBytes() const;

  ScanShape shape() const { return {options_.features, options_.head_dim, options_.scaled}; }
  ScanMemory NewMemory() const { return ScanMemory(shape()); }
  const Options& options() const { return options_; }
  // Multiply-adds for one row of one head: that is taken in, or attends to all that is remembered; or
  // Extend().
  double RowCost(bool causal) const;
  int64_t ScratchBytes() const;  // that any of these takes at most

 private:
  class Queries;
  int64_t KeyBytes() const;  // of a block
  int64_t FeaturePitch() const;
  void Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const;
  const void* PackValues(const Rows& v, Scratch& scratch) const;
  Rows TurnKeys(void* keys, Scratch& scratch) const;
  void Step(const Rows& q, const Rows& k, const Rows& v, ScanMemory& memory, const Rows& out,
            Scratch& scratch) const;

  DType type_;
  Options options_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_LINEAR_SCAN_H_
