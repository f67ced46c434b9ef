// Softmax attention by blocks: the query rows of one sequence that share a key-value head, over any list of
// key sources.
//
//   for each tile of query rows:  for each source:  for each block of keys that a row of the tile sees:
//     scores = Q K'                        the micro-kernel
//     weights = 2^(scores - maximum) ...   SoftmaxStep: mask, bias, running maximum and sum
//     result += weights V                  the micro-kernel
//   out = result / sum
//
// Never more than a tile of scores exists. Blocks of keys begin at multiples of kKeyBlock, whatever arrived
// when, and what a row does not see does not touch it: a row's result is the same bits whichever rows come
// along, wherever chunks of the sequence ended, and whatever keys came after those it sees.
//
// Keys come in parts, cut at multiples of kKeyPart: each part has a maximum, a sum and a result of its own,
// and they are merged in their order. So the parts of few rows that see many keys may be attended by
// different threads (AttendPart, MergeParts), and the result is what one thread would have had (Attend), bit
// for bit.
#ifndef HEED_ENGINE_ATTENTION_SOFTMAX_CORE_H_
#define HEED_ENGINE_ATTENTION_SOFTMAX_CORE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "engine/attention/head_norm.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/position_scale.h"
#include "engine/attention/score_bias.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"
#include "engine/ops/softmax.h"
#include "engine/tensor/tensor.h"

namespace heed {

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

// The keys of a part: some 1 MiB in bf16, which one core reads in the time that it takes to wake a few.
inline constexpr int64_t kKeyPart = 16 * kKeyBlock;

// The row at position i sees [i - left, i + right], where places are positions.
struct Band {
  int64_t left = kUnlimited;
  int64_t right = kUnlimited;  // 0: causal
  Range operator()(int64_t i) const { return {i - left, i + right + 1}; }
};

// In a decoder the newest `window`, the row's own included; in an encoder half of it to either side.
constexpr Band WindowBand(int64_t window, bool causal) {
  return causal ? Band{window - 1, 0} : Band{window / 2, window / 2};
}

// Keys and values, and which of them a row sees. Of pages without keys the scores are the bias alone.
struct KeySource {
  const KeyValuePages* pages = nullptr;
  // The places that the row at a position sees; those that are not held it does not.
  std::function<Range(int64_t position)> sees = Band{};
  // Rotation and bias see a row no farther than here: min(i, last_place).
  int64_t last_place = kUnlimited;
  const ScoreBias* bias = nullptr;
  // Its keys follow those of the source before in one part: runs that are too short to be worth a merge. Only
  // Attend() heeds it.
  bool continues = false;
  // Where the key at a place stands among the weights of a row, if they are asked for; null: at its place.
  std::function<int64_t(int64_t place)> key{};
};

// The rows that attend: of each of `rows` positions, the query heads that share the key-value head.
struct SoftmaxQueries {
  Rows q;    // [positions, heads * head_dim]; of sources without keys only the number of rows matters
  Rows out;  // the same; of the core's type, or f32
  int heads = 1;
  int first_head = 0;                    // of them, among all: what a bias is asked for
  int64_t first = 0;                     // position of the first row
  int64_t step = 1;                      // from a row's position to the next one's
  const Rotary* rotary = nullptr;        // turns q; keys are turned already
  const HeadNorm* norm = nullptr;        // of q, after that; keys are normed already
  const PositionScale* scale = nullptr;  // of a row's scores by its position, before they are capped
  // [heads] of each head a score that counts in its sums, once, and has no value ("sink"); or none.
  const float* sinks = nullptr;
  // [position, heads] log(sum(exp(scores))), if wanted; its rows lie so many apart.
  float* lse = nullptr;
  int64_t lse_step = 1;
  // Results are merged with those of other keys, which `out` and `lse` have.
  bool merges = false;
  // If wanted, where a row's weights of all keys go, 0 for what it does not see: Attend() then computes the
  // scores a second time, when their maxima and sums are known.
  std::function<std::span<float>(int64_t row, int head)> weights{};
};

// Const and thread-safe but for Attend's scratch.
class SoftmaxCore {
 public:
  static constexpr int kTile = 128;  // query rows at most

  // scores = scale * q.k or, with a cap, cap * tanh(scale * q.k / cap)
  SoftmaxCore(DType type, int64_t head_dim, double scale, double cap = 0);

  // Reads each key and value once for each tile of rows. The micro-kernel's calls: at most one for each piece
  // of keys and, for each panel of values, one for each block that a tile reads.
  void Attend(const SoftmaxQueries& queries, std::span<const KeySource> sources, Scratch& scratch) const;

  // The same for one tile of rows, part by part. All parts before the merge; each in any order, on any
  // thread.
  static int64_t Parts(const KeyValuePages& pages);  // of one source; those of several follow one another
  // Bytes of one part's result for so many rows, counted by heads.
  int64_t PartBytes(int64_t rows) const;
  void AttendPart(const SoftmaxQueries& queries, std::span<const KeySource> sources, int64_t part,
                  void* result, Scratch& scratch) const;
  // `results`: of all parts, side by side.
  void MergeParts(const SoftmaxQueries& queries, int64_t parts, const void* results, Scratch& scratch) const;

  int64_t ScratchBytes() const;  // that one call of these takes at most

  DType type() const { return type_; }
  int64_t head_dim() const { return head_dim_; }

 private:
  class Call;
  int64_t part_pitch() const { return pitch_ + 2; }

  // Kernels by rows, as RoundRows gives them, found once.
  using Kernels = std::array<std::atomic<const MicroKernel*>, 8 + kTile / 8>;
  const MicroKernel* ScoreKernel(int rows) const;
  const MicroKernel* ValueKernel(int rows, int64_t panel_width, int pieces) const;

  DType type_;
  int64_t head_dim_;
  int64_t pitch_;         // of query rows and of results
  float cap_, into_cap_;  // 0: none; else what scores are multiplied by for the tanh
  float factor_;          // scale * log2(e), or of scores that are capped log2(e)
  mutable Kernels score_kernels_{};
  mutable std::array<Kernels, kKeyBlock / kSoftmaxPiece> value_kernels_{},
      last_value_kernels_{};  // by pieces of keys
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SOFTMAX_CORE_H_
