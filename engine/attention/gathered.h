// Softmax attention among tokens that are picked one by one, wherever they lie: those of a bucket, an expert,
// a block. Keys and values are gathered, rows attend to them as to any others, and what a row finds in
// several places is merged by the log-sum-exp of its scores.
#ifndef HEED_ENGINE_ATTENTION_GATHERED_H_
#define HEED_ENGINE_ATTENTION_GATHERED_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Results of a head's rows so far, and the log-sum-exp of the scores that they stem from. Different rows may
// be merged by different threads.
struct MergedRows {
  Rows results;          // [rows, head_dim] f32
  float* lse = nullptr;  // [rows]

  void Clear() const;
  // `result`: [1, head_dim] f32
  void Merge(int64_t row, const float* result, float row_lse) const;
};

// One head of one sequence.
struct GatheredHead {
  Rows q;             // of the rows that attend
  int64_t first = 0;  // token of the first of them
  // Of a token, head_dim numbers each; of what outlives the call.
  absl::FunctionRef<const void*(int64_t token)> key, value;
  MergedRows merged;  // of the same rows
};

// Tokens that meet.
struct Gathering {
  std::vector<int32_t> queries;
  std::vector<int32_t> keys;  // one may stand there more than once
};

// Const and thread-safe.
class GatheredCore {
 public:
  struct Options {
    double scale = 1;
    bool causal = false;  // a token sees none after itself; a gathering's keys ascend
    float own = 0;        // added to the score of a token with itself
  };
  GatheredCore(DType type, int64_t head_dim, const Options& options);

  // Each query attends to those of the keys that it may see, and its result is merged with what it had. A
  // row's result is the same bits whichever queries come along, and no key that it may not see touches it, be
  // its value no number at all.
  void Attend(const Gathering& gathering, const GatheredHead& head, Scratch& scratch) const;

  DType type() const { return core_.type(); }
  int64_t head_dim() const { return core_.head_dim(); }
  int64_t ScratchBytes(int64_t queries) const;  // with so many in a gathering at most

 private:
  KeyValuePages Gather(const std::vector<int32_t>& keys, const GatheredHead& head, Scratch& scratch) const;
  bool UnseenIsFinite(const Gathering& gathering, const GatheredHead& head) const;
  void AttendTogether(const Gathering& gathering, const GatheredHead& head, Scratch& scratch) const;

  Options options_;
  SoftmaxCore core_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_GATHERED_H_
