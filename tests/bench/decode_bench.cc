// Decoding with a 135M-parameter Llama shape.
#include "engine/base/status.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/bench/streams_at_once.h"
#include "tests/testing/random_model.h"

namespace heed {

void DecodeSection(Threads& threads) {
  Table table({"context", "batch", "dtype", "ms a step", "tokens/s", "x batch 1", "memory then",
               "share of the least time"});
  ColdMemory memory(threads);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    RandomModel model = MakeRandomModel(Llama135M(), precision);
    LimitsNow limits(threads, model->info().precision);
    for (int64_t context : {128, 2048}) {
      const std::string state = StateAfter(*model, context, threads);
      double one = 0;
      for (int count : {1, 8, 32}) {
        const StepCost step = MeasureStep(*model, state, context, count, memory, limits, threads);
        if (count == 1) one = step.seconds;
        table.Row({Cat(context), Cat(count), std::string(Name(model->info().precision)),
                   Milliseconds(step.seconds), Cat(static_cast<int64_t>(count / step.seconds)),
                   Times(one * count / step.seconds), Rate(step.read_bytes, "B/s"), Percent(step.share)});
      }
    }
  }
}

}  // namespace heed
