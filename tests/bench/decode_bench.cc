// Decoding with a 135M-parameter Llama shape: what a step of a batch costs, beside the least that reading its
// weights and keys once, or its arithmetic, would take.
#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

struct Batch {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<int32_t> next;

  Batch(const Sequence& after_prompt, int size) : next(size, 1) {
    for (int i = 0; i < size; ++i) sequences.push_back(after_prompt.Clone());
  }
  void Step(const Model& model, Threads& threads) {
    std::vector<Work> works;
    for (size_t i = 0; i < sequences.size(); ++i)
      works.push_back(LastRow(sequences[i].get(), {next[i]}, &next[i]));
    RunPass(model, works, threads);
  }
};

}  // namespace

void DecodeSection(Threads& threads, const Limits& limits) {
  Table table({"context", "batch", "dtype", "ms a step", "tokens/s", "x batch 1", "share of the least time"});
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    RandomModel model = MakeRandomModel(Llama135M(), precision);
    for (int64_t context : {128, 2048}) {
      std::unique_ptr<Sequence> prompt = AfterPrompt(*model, context, threads);
      double one = 0;
      for (int size : {1, 8, 32}) {
        Batch batch(*prompt, size);
        double seconds = LeastSeconds({[&] { batch.Step(*model, threads); }}, 0.7)[0];
        if (size == 1) one = seconds;
        double bytes = static_cast<double>(model->info().weight_bytes) +
                       static_cast<double>(size) * model->StateBytes(context);
        double operations = 2.0 * size * (model->Cost(context + 1) - model->Cost(context));
        table.Row({Cat(context), Cat(size), std::string(Name(model->info().precision)), Milliseconds(seconds),
                   Cat(static_cast<int64_t>(size / seconds)), Times(one * size / seconds),
                   Percent(limits.LeastSeconds(model->info().precision, operations, bytes) / seconds)});
      }
    }
  }
}

}  // namespace heed
