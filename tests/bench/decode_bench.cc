// Decoding with a 135M-parameter Llama shape: what a step of a batch costs, beside the least that reading its
// weights and keys once, or its arithmetic, would take.
#include "absl/log/check.h"
#include "engine/base/archive.h"
#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// Sequences that have read the same prompt, each with memory of its own: clones would share it.
struct Batch {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<int32_t> next;

  Batch(const Model& model, std::string_view state, int size) : next(size, 1) {
    for (int i = 0; i < size; ++i) {
      sequences.push_back(model.Start());
      StateArchive archive = StateArchive::Restoring(state);
      sequences.back()->Archive(archive);
      CHECK(archive.Finish().ok()) << archive.status();
    }
  }
  void Step(const Model& model, Threads& threads) {
    std::vector<Work> works;
    for (size_t i = 0; i < sequences.size(); ++i)
      works.push_back(LastRow(sequences[i].get(), {next[i]}, &next[i]));
    RunPass(model, works, threads);
  }
};

std::string StateAfter(const Model& model, int64_t context, Threads& threads) {
  std::string state;
  StateArchive archive = StateArchive::Saving(&state);
  AfterPrompt(model, context, threads)->Archive(archive);
  CHECK(archive.Finish().ok()) << archive.status();
  return state;
}

}  // namespace

void DecodeSection(Threads& threads) {
  Table table({"context", "batch", "dtype", "ms a step", "tokens/s", "x batch 1", "memory then",
               "share of the least time"});
  ColdMemory memory(threads);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    RandomModel model = MakeRandomModel(Llama135M(), precision);
    LimitsNow limits(threads, model->info().precision);
    for (int64_t context : {128, 2048}) {
      const std::string prompt = StateAfter(*model, context, threads);
      double one = 0;
      for (int size : {1, 8, 32}) {
        Batch batch(*model, prompt, size);
        double bytes = static_cast<double>(model->info().weight_bytes) +
                       static_cast<double>(size) * model->StateBytes(context);
        limits.Reset();
        limits.Measure();
        std::vector<double> seconds = LeastSeconds(
            {[&] { batch.Step(*model, threads); }, [&] { memory.Read(static_cast<int64_t>(bytes)); }}, 0.7);
        double step = seconds[0], read = seconds[1];
        if (size == 1) one = step;
        double operations = 2.0 * size * (model->Cost(context + 1) - model->Cost(context));
        double compute = operations / limits.operations();
        table.Row({Cat(context), Cat(size), std::string(Name(model->info().precision)), Milliseconds(step),
                   Cat(static_cast<int64_t>(size / step)), Times(one * size / step),
                   Rate(bytes / read, "B/s"), Percent(std::max(compute, read) / step)});
      }
    }
  }
}

}  // namespace heed
