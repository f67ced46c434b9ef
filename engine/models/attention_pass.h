// One attention's work for all sequences of a batch: their runs' stages side by side, the tasks of a stage of
// all of them together, so that threads have something to do whichever sequence is long.
#ifndef HEED_ENGINE_MODELS_ATTENTION_PASS_H_
#define HEED_ENGINE_MODELS_ATTENTION_PASS_H_

#include <span>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/models/turn.h"

namespace heed {

// Not thread-safe. Clear(), all Add(), then Advance() until it is true.
class AttentionPass {
 public:
  // Multiply-adds of a stage below which one thread does it alone: sharing costs more than it saves.
  void Clear(double alone);
  // `sequence`: whose rows they are, as Drop() names it. Begins the run, which must last till the next
  // Clear(); `products` are copied.
  void Add(int sequence, AttentionRun& run, AttentionRows rows, std::vector<Rows> products);
  // Goes on as far as the turn has room. True when all is done.
  bool Advance(Threads& threads, Turn& turn, std::span<Scratch> scratch);
  // No more is done for a sequence.
  void Drop(int sequence);

 private:
  struct Part {
    int sequence;
    AttentionRun* run;
    AttentionRows rows;
    std::vector<Rows> products;
    std::vector<AttentionStage> stages;
    int64_t first_task = 0;  // of the stage at hand, among all parts'
    bool dropped = false;
  };
  bool BeginStage();  // false: none has such a stage
  bool RunStage(Threads& threads, Turn& turn, std::span<Scratch> scratch);
  Part& Owner(int64_t task);

  double alone_ = 0;
  std::vector<Part> parts_;
  size_t stage_ = 0;
  bool begun_ = false;
  // Of the stage at hand.
  std::vector<Part*> order_;  // those that have it, the costliest tasks first
  int64_t tasks_ = 0;
  double cost_ = 0;  // of all
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_ATTENTION_PASS_H_
