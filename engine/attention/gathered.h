// Softmax attention among tokens that are picked one by one, wherever they lie: those of a bucket, a cluster,
// a block. Keys and values are gathered, rows attend to them as to any others, and what a row finds in
// several places may be merged by the log-sum-exp of its scores.
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
  int64_t first = 0;     // token of the first of them

  void Clear(int64_t row, int64_t count) const;
  // `result`: [1, head_dim] f32
  void Merge(int64_t token, const float* result, float token_lse) const;
};

// One head of one sequence: of a token, head_dim numbers each, which outlive the call.
struct GatheredHead {
  absl::FunctionRef<const void*(int64_t token)> query, key, value;
};

// Tokens that meet.
struct Gathering {
  std::vector<int32_t> queries;
  std::vector<int32_t> keys;  // one may stand there more than once
};

// What the queries of a gathering find, in their order.
struct GatheredResults {
  Rows rows;             // [queries, head_dim], the core's type; zeros where a query sees no key
  float* lse = nullptr;  // [queries] of the scores, if wanted
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

  // Each query attends to those of the keys that it may see. A row's result is the same bits whichever
  // queries come along, and no key that it may not see touches it, be its value no number at all.
  void Attend(const Gathering& gathering, const GatheredHead& head, const GatheredResults& results,
              Scratch& scratch) const;
  // The same; each query's result is merged with what it had.
  void AttendAndMerge(const Gathering& gathering, const GatheredHead& head, const MergedRows& merged,
                      Scratch& scratch) const;

  DType type() const { return core_.type(); }
  int64_t head_dim() const { return core_.head_dim(); }
  int64_t ScratchBytes(int64_t queries) const;  // with so many in a gathering at most

 private:
  KeyValuePages Gather(const std::vector<int32_t>& keys, const GatheredHead& head, Scratch& scratch) const;
  bool UnseenIsFinite(const Gathering& gathering, const GatheredHead& head) const;
  void AttendTogether(const Gathering& gathering, const GatheredHead& head, const GatheredResults& results,
                      Scratch& scratch) const;

  Options options_;
  SoftmaxCore core_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_GATHERED_H_
