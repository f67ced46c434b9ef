// Softmax attention of all rows of an encoder's sequence over a few keys and values that were made from the
// whole of it: what Linformer projects, what Nyström's landmarks find. Every row sees all of them, so that
// work and memory grow as the rows alone.
#ifndef HEED_ENGINE_ATTENTION_FEW_KEYS_H_
#define HEED_ENGINE_ATTENTION_FEW_KEYS_H_

#include <cstdint>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"

namespace heed {

// Of all heads of one sequence. A copy shares what is written.
class FewKeys {
 public:
  // Keys and values that one Write() takes, when threads share them.
  static constexpr int64_t kWritten = KeyValuePages::kPage;

  FewKeys(const SoftmaxCore& core, int heads);  // the core outlives it

  // Room for the next keys of each head; rows attend after they are written.
  void Grow(int64_t keys);
  int64_t keys() const { return heads_.front().end(); }
  // From the key `first` of a head on, in ascending order within a page; rounded if they are f32 and the core
  // is not. Threads may write different pages.
  void Write(int head, int64_t first, const Rows& keys, const Rows& values, Scratch& scratch);

  // A task: the rows [row, row + count) of one head.
  struct Task {
    int head = 0;
    int64_t row = 0, count = 0;
  };
  // Cuts so many rows; `more`: multiply-adds of a row beside its attention.
  AttentionStage Cut(int64_t rows, double more = 0);
  Task At(int64_t task) const;  // of the last cut
  // q, out: of the head, [rows, head_dim]; out may be f32.
  void Attend(int head, const Rows& q, const Rows& out, Scratch& scratch) const;

  // Restores into one without keys.
  void Archive(StateArchive& archive, int64_t keys);

  static int64_t Bytes(const SoftmaxCore& core, int heads, int64_t keys);
  static int64_t WriteScratchBytes(const SoftmaxCore& core);
  // Multiply-adds of one head's row.
  static double RowCost(const SoftmaxCore& core, int64_t keys) {
    return 2 * static_cast<double>(keys) * static_cast<double>(core.head_dim());
  }

 private:
  const SoftmaxCore* core_;
  std::vector<KeyValuePages> heads_;
  int64_t rows_ = 0, rows_of_task_ = 1;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_FEW_KEYS_H_
