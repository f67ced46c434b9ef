// A document of 16k tokens in a model of Longformer's shape (12 layers, 768, window 512, one global token),
// random weights: time, the share of the hot micro-kernel's speed that the work asked for got, and memory.
#include <string>

#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {

void LongformerSection(Threads& threads, const Limits& limits) {
  constexpr int64_t kTokens = 16384;
  const Json config = Longformer(kTokens);
  const double layers = config["layers"].size(), width = config["hidden_size"];
  // The global token's own query is asked for in its row alone; it is computed for all.
  const double not_asked = layers * width * width * (kTokens - 1);
  Table table({"Longformer", "dtype", "seconds", "share of hot", "peak above weights MiB"});
  for (Precision precision : {Precision::kF32, Precision::kBf16}) {
    const RandomModel model = MakeRandomModel(config, precision);
    ResetPeakMemory();
    const double before = MemoryMib("VmRSS");
    const double seconds = LeastSeconds({[&] {
      int32_t label;
      const std::unique_ptr<Sequence> sequence = model->Start();
      std::vector<Work> batch;
      batch.push_back(LastRow(sequence.get(), Tokens(kTokens, config["vocab_size"]), &label));
      batch.back().wanted = {0};
      RunPass(*model, batch, threads);
    }})[0];
    const double operations = 2 * (model->Cost(kTokens) - not_asked);
    table.Row({Cat(kTokens, " tokens"), std::string(Name(model->info().precision)),
               Cat(static_cast<int64_t>(seconds * 100) / 100.0),
               Percent(operations / seconds / limits.Operations(model->info().precision)),
               Cat(static_cast<int64_t>(MemoryMib("VmHWM") - before))});
  }
}

}  // namespace heed
