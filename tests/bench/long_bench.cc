// One sequence of 64k tokens (4 layers, width 256): reading it, and a token more there. Keys and values grow
// with it, nothing grows with its square.
#include <string>

#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {

void LongSection(Threads& threads) {
  constexpr int64_t kTokens = 65536;
  Table table({"tokens", "dtype", "seconds", "share of hot", "state MiB", "peak above weights MiB",
               "ms a token there"});
  for (Precision precision : {Precision::kF32, Precision::kBf16}) {
    RandomModel model = MakeRandomModel(LongDecoder(), precision);
    LimitsNow limits(threads, model->info().precision);
    ResetPeakMemory();
    const double before = MemoryMib("VmRSS");
    std::unique_ptr<Sequence> sequence;
    const auto read = [&] { sequence = AfterPrompt(*model, kTokens, threads); };
    const auto measure = [&] { limits.Measure(); };
    double seconds = LeastSeconds({measure, read, measure}, /*seconds=*/0, /*rounds=*/1)[1];
    double step = LeastSeconds({[&] { Step(*model, *sequence, threads); }})[0];
    table.Row({Cat(kTokens), std::string(Name(model->info().precision)),
               Cat(static_cast<int64_t>(seconds * 100) / 100.0),
               Percent(2 * model->Cost(kTokens) / seconds / limits.operations()),
               Cat(model->StateBytes(kTokens) >> 20), Cat(static_cast<int64_t>(MemoryMib("VmHWM") - before)),
               Milliseconds(step)});
  }
}

}  // namespace heed
