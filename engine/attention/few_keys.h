// Softmax attention of all rows of an encoder's sequence over a few keys and values that are made of the
// whole of it: what Linformer projects, what Nyström's landmarks find. Every row sees all of them, so that
// work and memory grow as the rows alone. A variant says how they are made, in stages; all else is here.
#ifndef HEED_ENGINE_ATTENTION_FEW_KEYS_H_
#define HEED_ENGINE_ATTENTION_FEW_KEYS_H_

#include <string_view>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"

namespace heed {

class FewKeysAttention : public Attention {
 public:
  // Of each head, in a sequence of so many tokens.
  virtual int64_t Keys(int64_t tokens) const = 0;
  // Multiply-adds of one head's row, when they are made.
  virtual double RowCost(int64_t tokens) const {
    return 2 * static_cast<double>(Keys(tokens)) * static_cast<double>(core_.head_dim());
  }
  const SoftmaxCore& core() const { return core_; }
  int heads() const { return heads_; }
  // Of rows of all heads, so many of one.
  Rows Part(const Rows& all, int64_t head, int64_t row, int64_t count) const {
    return all.Slice(row, count).Cols(head * core_.head_dim(), core_.head_dim());
  }

 protected:
  FewKeysAttention(const AttentionSetting& setting, int64_t head_dim, std::vector<Product> products);
  int64_t KeyBytes(int64_t tokens) const;  // a run's state, what else it holds not counted
  int64_t WriteScratchBytes() const;       // of FewKeysRun::Write

 private:
  SoftmaxCore core_;
  int heads_;
};

// A decoder, or cross-attention, is refused; `why`: what lets a row see later ones.
void RefuseAllButEncoders(const AttentionSetting& setting, std::string_view name, std::string_view why,
                          JsonFields& fields);

// What one sequence remembers. A copy shares what is written.
class FewKeysRun : public AttentionRun {
 public:
  // Keys and values that one Write() takes, when threads share them.
  static constexpr int64_t kWritten = KeyValuePages::kPage;

  std::vector<AttentionStage> Begin(const AttentionRows& rows) final;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) final;
  void Archive(StateArchive& archive) override;
  int64_t tokens() const final { return tokens_; }

 protected:
  explicit FewKeysRun(const FewKeysAttention& attention);  // which outlives it

  // The stages that make the keys of all tokens(), and a task of one of them.
  virtual std::vector<AttentionStage> Plan() = 0;
  virtual void Make(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) = 0;
  // From the key `first` of a head on, in ascending order within a page; rounded if they are f32 and the core
  // is not. Threads may write different pages.
  void Write(int head, int64_t first, const Rows& keys, const Rows& values, Scratch& scratch);

  // Rows of one head attend; so they do to its keys, out may be f32.
  virtual void Attend(const AttentionRows& rows, int head, Range range, Scratch& scratch) const;
  void AttendTo(int head, const Rows& q, const Rows& out, Scratch& scratch) const;

 private:
  const FewKeysAttention* attention_;
  std::vector<KeyValuePages> heads_;
  int64_t tokens_ = 0;
  int making_ = 0;           // stages
  int64_t attend_rows_ = 1;  // of a task
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_FEW_KEYS_H_
