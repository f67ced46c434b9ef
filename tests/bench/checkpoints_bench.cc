// Published checkpoints' shapes beside what this machine allows: reading texts against the hot micro-kernel,
// writing against the memory's speed.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/bench/checkpoints.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/bench/streams_at_once.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr Precision kAll[] = {Precision::kF32, Precision::kBf16, Precision::kInt8};
constexpr Precision kSmall[] = {Precision::kBf16, Precision::kInt8};

class Figures {
 public:
  explicit Figures(Threads& threads) : threads_(threads), memory_(threads) {}

  // `count` texts of so many tokens, in one pass.
  void Reading(const std::string& what, const Model& model, int64_t tokens, int count) {
    LimitsNow limits(threads_, model.info().precision);
    const double seconds = LeastSeconds(
        {[&] { limits.Measure(); }, [&] { Read(model, tokens, count, threads_); }}, 0.2, /*rounds=*/2)[1];
    const double operations = 2.0 * count * model.Cost(tokens);
    Row(what, model, count, seconds, count * tokens / seconds,
        Percent(operations / seconds / limits.operations()) + " of hot");
  }

  // A token more for each of `count` texts of that state. `weights`: what part of them a step reads.
  double Writing(const std::string& what, const Model& model, const std::string& state, int64_t context,
                 int count, double weights = 1) {
    LimitsNow limits(threads_, model.info().precision);
    const StepCost step = MeasureStep(model, state, context, count, memory_, limits, threads_, weights);
    Row(what, model, count, step.seconds, count / step.seconds, Percent(step.share) + " of the least time");
    return step.seconds;
  }

  void Row(const std::string& what, const Model& model, int count, double seconds, double rate,
           const std::string& limit) {
    table_.Row({what, std::string(Name(model.info().precision)), Cat(count), Milliseconds(seconds),
                Cat(static_cast<int64_t>(rate)), limit});
  }

 private:
  Threads& threads_;
  ColdMemory memory_;
  Table table_{{"what                                        ", "dtype", "batch", "time       ", "tokens/s",
                "share of the limit"}};
};

// Sources of 64 tokens and 64 tokens of each target, one after the other.
double Translate(const Model& model, int count, Threads& threads) {
  constexpr int kTokens = 64;
  const std::vector<int32_t> source = Tokens(kTokens, model.info().vocab_size);
  return LeastSeconds({[&] {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<int32_t> next(count, 1);
    for (int i = 0; i < count; ++i) sequences.push_back(model.Start());
    for (int step = 0; step < kTokens; ++step) {
      std::vector<Work> batch;
      for (int i = 0; i < count; ++i) {
        batch.push_back(LastRow(sequences[i].get(), {next[i]}, &next[i]));
        if (step == 0) batch.back().source = source;
      }
      RunPass(model, batch, threads);
    }
  }})[0];
}

// What part of a mixture's weights a step of `count` rows reads, which choose evenly.
double PartRead(const Json& config, const Model& model, int count) {
  const Json& ffn = config["layers"][0]["ffn"];
  const double experts = ffn["experts"], chosen = ffn["top_k"];
  const double numbers = 3.0 * static_cast<double>(config["layers"].size()) * experts *
                         ffn["intermediate_size"].get<double>() * config["hidden_size"].get<double>();
  const double part = numbers / static_cast<double>(model.info().parameters);
  return 1 - part * std::pow(1 - chosen / experts, count);
}

void Mixture(Figures& figures, Threads& threads) {
  const Json config = GraniteMixture1B();
  for (const Precision precision : kSmall) {
    const RandomModel model = MakeRandomModel(config, precision);
    const std::string state = StateAfter(*model, 128, threads);
    for (const int count : {1, 8}) {
      figures.Writing("Granite 3.0 1B-A400M, a token at 128", *model, state, 128, count,
                      PartRead(config, *model, count));
    }
  }
}

void Hybrids(Figures& figures, Threads& threads) {
  const Precision precision = Supported(Precision::kBf16);
  for (const int64_t window : {0, 4096}) {
    const RandomModel model = MakeRandomModel(GatedDelta(window), precision);
    const std::string name =
        window > 0 ? Cat("gated delta and a window of ", window) : "gated delta and attention";
    double first = 0, last = 0;
    for (const int64_t context : {1000, 100000}) {
      last = figures.Writing(Cat(name, ", a token at ", context), *model,
                             StateAfter(*model, context, threads), context, 1);
      if (first == 0) first = last;
    }
    std::printf("%s: at 100,000 %s the time of a token at 1,000\n", name.c_str(),
                Times(last / first).c_str());
  }
}

}  // namespace

void CheckpointsSection(Threads& threads) {
  Figures figures(threads);
  for (const Precision precision : kAll) {
    const RandomModel model = MakeRandomModel(ModernBertBase(), precision);
    figures.Reading("ModernBERT-base, 512 tokens", *model, 512, 8);
    figures.Reading("ModernBERT-base, 8,192 tokens", *model, 8192, 1);
  }
  for (const Precision precision : kAll) {
    const RandomModel model = MakeRandomModel(T5Small(), precision);
    for (const int count : {1, 8}) {
      const double seconds = Translate(*model, count, threads);
      figures.Row("T5-small, 64 tokens into 64", *model, count, seconds, 64 * count / seconds, "");
    }
  }
  for (const Precision precision : kSmall) {
    const RandomModel model = MakeRandomModel(Llama1B(), precision);
    figures.Reading("Llama 3.2 1B, 1,024 tokens", *model, 1024, 1);
    for (const int64_t context : {128, 4096}) {
      const std::string state = StateAfter(*model, context, threads);
      for (const int count : {1, 8})
        figures.Writing(Cat("Llama 3.2 1B, a token at ", context), *model, state, context, count);
    }
  }
  Mixture(figures, threads);
  Hybrids(figures, threads);
}

}  // namespace heed
