// Steps that every head of a run goes through by itself, as stages of tasks. Some heads at a time, so that
// what their steps hand on to one another is less than what the run keeps of all of them; where rows are few,
// all steps of a head are one task.
#ifndef HEED_ENGINE_ATTENTION_HEAD_STEPS_H_
#define HEED_ENGINE_ATTENTION_HEAD_STEPS_H_

#include <cstdint>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"

namespace heed {

// One run's own, of the rows at hand. Not copied with the run.
class HeadSteps {
 public:
  struct Step {
    int kind = 0;      // the variant's own
    Range part{};      // of what the kind goes over
    int64_t cuts = 1;  // tasks of a head
    double cost = 0;   // multiply-adds of one
  };
  struct Plan {
    int heads = 1, at_once = 1;
    bool few = false;
    int64_t bytes = 0;  // that steps of a head hand on
    std::vector<Step> steps{};
  };

  // What there is to do; with memory for what is handed on.
  std::vector<AttentionStage> Begin(Plan plan);
  // What a task does: f(step, head, cut), in order. Its last stage, if few rows are not all, lets the memory
  // go.
  template <typename F>
  void Do(int stage, int64_t task, F f) {
    if (plan_.few) return DoAll(static_cast<int>(task), f);
    const int64_t steps = std::ssize(plan_.steps), first = stage / steps * plan_.at_once;
    if (first >= plan_.heads) return Release();
    const Step& step = plan_.steps[stage % steps];
    f(step, static_cast<int>(first + task / step.cuts), task % step.cuts);
  }
  // A head's memory.
  char* memory(int head) const {
    return const_cast<Buffer&>(memory_).as<char>() + head % plan_.at_once * plan_.bytes;
  }
  void Measure(StateArchive& archive);

 private:
  template <typename F>
  void DoAll(int head, F f) const {
    for (const Step& step : plan_.steps) {
      for (int64_t cut = 0; cut < step.cuts; ++cut) f(step, head, cut);
    }
  }
  void Release() { memory_ = Buffer(); }

  Plan plan_;
  Buffer memory_;  // of `at_once` heads
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_HEAD_STEPS_H_
