// The variants side by side, family by family in turns with full attention: attention alone and whole models
// (4 layers, width 512, 8 heads) over lengths, and a token more at far positions. What is saved is shown next
// to the ceiling 1 + n / (6 width), which removing attention altogether would give, and next to the machine's
// limits in the same seconds. The exponents of n are fitted from 4,096 rows on; "claimed" are those of the
// multiply-adds that variant and model declare. tests/bench/plot.py draws docs/variants-*.svg from the
// output. HEED_VARIANTS=linear,lsh measures these alone, HEED_LONGEST=4096 no longer texts.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/bench/growth.h"
#include "tests/bench/lone_attention.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/bench/turns.h"
#include "tests/bench/variants.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr char kVariants[] = "HEED_VARIANTS";
constexpr int64_t kFar = 1000000;
constexpr int64_t kPositions[] = {1000, 10000, kLongestText, kFar};

using Cells = std::vector<std::string>;  // of a table's row

// No farther than texts are read; but where a model's memory stays as it is, far beyond.
bool Reaches(const Model& model, int64_t position) {
  if (position < kFar) return position <= LongestText();
  const bool constant = model.StateBytes(kLongestText) == model.StateBytes(kFar);
  return constant && model.info().max_tokens == 0 && LongestText() == kLongestText;
}

class Bench {
 public:
  Bench(Threads& threads, Precision precision)
      : threads_(threads), precision_(precision), limits_(threads, precision) {}

  void Run() {
    Table lengths({"variant          ", "family                ", "rows", "attention", "model",
                   "peak above weights MiB", "attention x full", "model x full", "ceiling",
                   "attention of limit", "model of limit", "hot then", "memory then"});
    for (const VariantFamily& family : VariantFamilies()) {
      const std::vector<Variant> variants = Served(family);
      if (variants.size() > 1) Family(family, variants, lengths);
    }
    Print({"exponent of n    ", "family                ", "attention", "claimed", "model", "claimed"},
          exponents_);
    Print({"variant          ", "family                ", "position", "a token", "x at 1,000", "of limit",
           "state KiB", "resident MiB"},
          positions_);
    Causality();
    for (const std::string& line : left_out_) std::printf("left out: %s\n", line.c_str());
  }

 private:
  // One variant at one length, and what was measured of it.
  struct Contender {
    RandomModel model;
    std::unique_ptr<LoneAttention> attention;
    std::unique_ptr<Sequence> sequence{};  // that has read the text
    Turn alone{}, whole{};
    double alone_of_limit = 0, whole_of_limit = 0;
  };

  // Of measured seconds, and of the multiply-adds that are declared.
  struct Growths {
    void Add(int64_t n, const Contender& contender) {
      attention.Add(n, contender.alone.seconds);
      attention_claimed.Add(n, contender.attention->Cost());
      model.Add(n, contender.whole.seconds);
      model_claimed.Add(n, contender.model->Cost(n));
    }
    Growth attention, attention_claimed, model, model_claimed;
  };

  std::vector<Variant> Served(const VariantFamily& family);
  Contender Make(const StackShape& shape, const Json& options, int64_t n);
  void MeasureAttentions(std::vector<Contender>& contenders);
  void MeasureModels(std::vector<Contender>& contenders, int64_t n);
  void Family(const VariantFamily& family, const std::vector<Variant>& variants, Table& table);
  Cells Length(const Contender& contender, const Contender& full, int64_t n) const;
  void Positions(const VariantFamily& family, const Variant& variant, const Model& model, Sequence& longest);
  double LeastStep(const Model& model, int64_t position);
  void ReadTo(const Model& model, Sequence& sequence, int64_t position);
  void Causality();

  static void Print(const Cells& columns, const std::vector<Cells>& rows) {
    Table table(columns);
    for (const Cells& row : rows) table.Row(row);
  }

  Threads& threads_;
  const Precision precision_;
  LimitsNow limits_;
  std::vector<Cells> exponents_, positions_;
  std::vector<std::string> left_out_;
};

// "full", and those of the family that are wanted and that this build has.
std::vector<Variant> Bench::Served(const VariantFamily& family) {
  std::vector<Variant> served = {{"full", {{"type", "full"}}}};
  for (const Variant& variant : family.variants) {
    if (!Wanted(kVariants, variant.name)) continue;
    const StackShape shape{.causal = family.causal, .layers = 1};
    const auto model = TryRandomModel(Stack(shape, variant.At(kLongestText)), precision_);
    if (model.ok()) {
      served.push_back(variant);
    } else {
      left_out_.push_back(Cat(variant.name, ": ", model.status().message()));
    }
  }
  return served;
}

Bench::Contender Bench::Make(const StackShape& shape, const Json& options, int64_t n) {
  return {MakeRandomModel(Stack(shape, options), precision_),
          std::make_unique<LoneAttention>(shape, options, precision_, n, threads_)};
}

void Bench::MeasureAttentions(std::vector<Contender>& contenders) {
  std::vector<Turn> turns;
  for (Contender& contender : contenders)
    turns.push_back({[this, &contender] { contender.attention->Run(1, threads_); }});
  TakeTurns(turns, limits_);
  for (size_t i = 0; i < turns.size(); ++i) {
    const LoneAttention& attention = *contenders[i].attention;
    const double least = limits_.LeastTime(2 * attention.Cost(), attention.Bytes());
    contenders[i].alone = turns[i];
    contenders[i].alone_of_limit = least / turns[i].seconds;
  }
}

void Bench::MeasureModels(std::vector<Contender>& contenders, int64_t n) {
  std::vector<Turn> turns;
  for (Contender& contender : contenders) {
    turns.push_back({[this, &contender, n] {
      contender.sequence.reset();
      contender.sequence = AfterPrompt(*contender.model, n, threads_);
    }});
  }
  TakeTurns(turns, limits_);
  for (size_t i = 0; i < turns.size(); ++i) {
    const Model& model = *contenders[i].model;
    const double least = limits_.LeastTime(2 * model.Cost(n), static_cast<double>(model.info().weight_bytes));
    contenders[i].whole = turns[i];
    contenders[i].whole_of_limit = least / turns[i].seconds;
  }
}

void Bench::Family(const VariantFamily& family, const std::vector<Variant>& variants, Table& table) {
  std::vector<Growths> growths(variants.size());
  std::vector<Contender> contenders;
  for (int64_t n = 512; n <= LongestText(); n *= 2) {
    contenders.clear();
    for (const Variant& variant : variants)
      contenders.push_back(Make({.causal = family.causal}, variant.At(n), n));
    MeasureAttentions(contenders);
    MeasureModels(contenders, n);
    for (size_t i = 0; i < variants.size(); ++i) {
      growths[i].Add(n, contenders[i]);
      Cells row = {variants[i].name, family.name};
      for (const std::string& cell : Length(contenders[i], contenders[0], n)) row.push_back(cell);
      table.Row(row);
    }
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    exponents_.push_back({variants[i].name, family.name, growths[i].attention.Exponent(),
                          growths[i].attention_claimed.Exponent(), growths[i].model.Exponent(),
                          growths[i].model_claimed.Exponent()});
    contenders[i].attention.reset();  // no more than a model and its sequence is resident
  }
  for (size_t i = 0; family.causal && i < variants.size(); ++i) {
    Positions(family, variants[i], *contenders[i].model, *contenders[i].sequence);
    contenders[i].sequence.reset();
  }
}

Cells Bench::Length(const Contender& contender, const Contender& full, int64_t n) const {
  const Turn &alone = contender.alone, &whole = contender.whole;
  return {Cat(n),
          Milliseconds(alone.seconds),
          Milliseconds(whole.seconds),
          Cat(static_cast<int64_t>(whole.peak_mib)),
          Times(full.alone.seconds / alone.seconds),
          Times(full.whole.seconds / whole.seconds),
          Times(1 + static_cast<double>(n) / static_cast<double>(6 * StackShape().width)),
          Percent(contender.alone_of_limit),
          Percent(contender.whole_of_limit),
          Rate(limits_.operations(), "OP/s"),
          Rate(limits_.bytes(), "B/s")};
}

// A token at a position and one at 1,000, in turns.
void Bench::Positions(const VariantFamily& family, const Variant& variant, const Model& model,
                      Sequence& longest) {
  const std::unique_ptr<Sequence> first = AfterPrompt(model, kPositions[0], threads_);
  for (int64_t position : kPositions) {
    if (!Reaches(model, position)) continue;
    if (position == kFar) ReadTo(model, longest, kFar);
    const std::unique_ptr<Sequence> near = first->Clone();
    const std::unique_ptr<Sequence> far =
        position < kLongestText ? AfterPrompt(model, position, threads_) : longest.Clone();
    ResetPeakMemory();  // what is free goes back
    const std::vector<double> seconds =
        LeastSeconds({[&] { Step(model, *near, threads_); }, [&] { Step(model, *far, threads_); }}, 1);
    positions_.push_back({variant.name, family.name, Cat(position), Milliseconds(seconds[1]),
                          Times(seconds[1] / seconds[0]), Percent(LeastStep(model, position) / seconds[1]),
                          Cat(model.StateBytes(position) >> 10),
                          Cat(static_cast<int64_t>(MemoryMib("VmRSS")))});
  }
}

// What a token at the position needs at least: a number that is read is multiplied once, so that reading as
// many numbers again and again is the limit, or the arithmetic. Of those measured the least counts, so here
// too: a token that begins a block has more to do than the next.
double Bench::LeastStep(const Model& model, int64_t position) {
  const auto step = [&](int64_t at) { return model.Cost(at + 1) - model.Cost(at); };
  const double cost = std::min(step(position), step(position + 1));
  const auto bytes = static_cast<int64_t>(cost) * SizeOf(ActivationType(precision_));
  ColdMemory memory(threads_, std::min(bytes, ColdMemory::kBytes));
  limits_.Reset();
  limits_.Measure();
  return std::max(LeastSeconds({[&] { memory.Read(bytes); }})[0], 2 * cost / limits_.operations());
}

void Bench::ReadTo(const Model& model, Sequence& sequence, int64_t position) {
  while (sequence.tokens() < position) {
    const int64_t count = std::min(16 * kGrid, position - sequence.tokens());
    std::vector<Work> works{{.sequence = &sequence, .tokens = Tokens(count, 256)}};
    works[0].more = sequence.tokens() + count < position;
    RunPass(model, works, threads_);
  }
}

// What the order of time costs where attention is a product: performer in a decoder and in an encoder.
void Bench::Causality() {
  if (!Wanted(kVariants, "performer")) return;
  const Json options = {{"type", "performer"}, {"kernel", "softmax"}, {"num_features", 256}};
  Table table(
      {"rows of performer", "attention, causal", "not causal", "x", "model, causal", "not causal", "x"});
  for (int64_t n = 512; n <= LongestText(); n *= 4) {
    std::vector<Contender> contenders;
    for (bool causal : {true, false}) contenders.push_back(Make({.causal = causal}, options, n));
    MeasureAttentions(contenders);
    MeasureModels(contenders, n);
    const Contender &decoder = contenders[0], &encoder = contenders[1];
    table.Row({Cat(n), Milliseconds(decoder.alone.seconds), Milliseconds(encoder.alone.seconds),
               Times(decoder.alone.seconds / encoder.alone.seconds), Milliseconds(decoder.whole.seconds),
               Milliseconds(encoder.whole.seconds), Times(decoder.whole.seconds / encoder.whole.seconds)});
  }
}

}  // namespace

void VariantsSection(Threads& threads) {
  const Precision precision = Supported(Precision::kBf16);
  std::printf("4 layers, width 512, 8 heads, %s\n", std::string(Name(precision)).c_str());
  Bench(threads, precision).Run();
}

}  // namespace heed
