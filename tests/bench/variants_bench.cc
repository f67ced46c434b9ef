// The variants side by side: attention alone and whole models (4 layers, width 512, 8 heads), causal, over
// lengths, and a token more at far positions. What is saved is shown next to the ceiling 1 + n / (6 width),
// which removing attention altogether would give. The exponents of n are fitted from 4,096 rows on; "claimed"
// are those of the multiply-adds that variant and model declare. tests/bench/plot.py draws
// docs/variants-*.svg from the output. HEED_VARIANTS=linear,lsh measures these alone.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 512, kHeads = 8, kLongest = 65536, kFar = 1000000, kRoom = 8192;
constexpr int64_t kPositions[] = {1000, 10000, kLongest, kFar};

struct Variant {
  std::string name;
  Json options;
};

bool Wanted(const std::string& name) {
  const char* wanted = std::getenv("HEED_VARIANTS");
  return wanted == nullptr || Cat(",", wanted, ",").find(Cat(",", name, ",")) != std::string::npos;
}

// Of these, those that this build has.
std::vector<Variant> Variants() {
  const std::vector<Variant> all = {
      {"full", {{"type", "full"}}},
      {"sliding_window", {{"type", "sliding_window"}, {"window", 512}}},
      {"linear", {{"type", "linear"}}},
      {"relative_memory", {{"type", "relative_memory"}, {"memory", 512}}},
      {"synthesizer",
       {{"type", "synthesizer"}, {"form", "factorized_random"}, {"rank", 32}, {"n_max", kLongest + kRoom}}},
      {"lsh", {{"type", "lsh"}, {"num_hashes", 1}, {"num_buckets", 64}, {"chunk_length", 64}}}};
  const std::vector<std::string_view> known = AttentionTypes();
  std::vector<Variant> here;
  for (const Variant& variant : all) {
    if (std::count(known.begin(), known.end(), variant.name) > 0 && Wanted(variant.name))
      here.push_back(variant);
  }
  return here;
}

Json Config(const Variant& variant) {
  Json config = SmallConfig("decoder", "lm", variant.options);
  config["vocab_size"] = 256;
  config["hidden_size"] = kWidth;
  config["num_attention_heads"] = kHeads;
  config["intermediate_size"] = 4 * kWidth;
  config["layers"] = Json::array();
  for (int i = 0; i < 4; ++i)
    config["layers"].push_back({{"attention", variant.options}, {"ffn", {{"type", "dense"}}}});
  return config;
}

// The seconds of one call; short ones are repeated.
double Seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double> once = std::chrono::steady_clock::now() - start;
  return once.count() > 1 ? once.count() : LeastSeconds({f}, 0.3)[0];
}

// What a layer's products could give, for so many rows: up to four products of one width.
class ProductRows {
 public:
  ProductRows(DType type, int64_t rows)
      : memory_(rows * kStride * SizeOf(type)), rows_{type, memory_.as<char>(), rows, kStride, kStride} {
    std::vector<float> row(kStride);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < kStride; ++c) row[c] = static_cast<float>(std::sin(0.37 * r + 1.7 * c));
      Convert({DType::kF32, row.data(), 1, kStride, kStride}, rows_.Slice(r, 1));
    }
  }
  Rows Product(int64_t i, int64_t n) const { return rows_.Slice(0, n).Cols(i * kWidth, kWidth); }

 private:
  static constexpr int64_t kStride = 4 * kWidth + 32;
  Buffer memory_;
  Rows rows_;
};

// One layer's attention without its products.
class Module {
 public:
  Module(const Variant& variant, Precision precision) : weights_(MakeRandomWeights(Config(variant))) {
    const auto weights = Weights::Of(weights_.tensors);
    const AttentionSetting setting{
        .width = kWidth, .num_heads = kHeads, .causal = true, .precision = precision};
    JsonFields fields(variant.options, "bench");
    auto attention = NewAttention(setting, fields, WeightScope(*weights) / "layers.0" / "attention");
    CHECK(attention.ok()) << attention.status();
    attention_ = *std::move(attention);
  }

  double Whole(const ProductRows& given, int64_t n, Threads& threads) const {
    std::vector<Scratch> scratch(threads.count());
    return Seconds([&] {
      const auto run = attention_->Start();
      std::vector<Rows> products;
      for (const Product& product : attention_->products()) {
        CHECK_EQ(product.weight.dim(0), kWidth);
        products.push_back(given.Product(products.size(), n));
      }
      AttentionRows rows{.count = n, .source_count = n, .products = products.data()};
      rows.out = given.Product(3, n);
      const std::vector<AttentionStage> stages = run->Begin(rows);
      for (int stage = 0; stage < std::ssize(stages); ++stage) {
        threads.RunTasks(stages[stage].tasks, [&](int64_t task, int thread) {
          run->Do(rows, stage, task, scratch[thread]);
          scratch[thread].Reset();
        });
      }
    });
  }

  double Cost(int64_t n) const { return attention_->Cost(n, n); }

 private:
  RandomWeights weights_;
  std::unique_ptr<Attention> attention_;
};

// y = c n^exponent, fitted from 4,096 rows on.
class Growth {
 public:
  void Add(int64_t n, double value) {
    if (n < 4096) return;
    const double x = std::log(static_cast<double>(n)), y = std::log(value);
    ++count_, x_ += x, y_ += y, xx_ += x * x, xy_ += x * y;
  }
  std::string Exponent() const {
    return Cat(std::round(100 * (count_ * xy_ - x_ * y_) / (count_ * xx_ - x_ * x_)) / 100);
  }

 private:
  double count_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

// Of measured seconds, and of the multiply-adds that are declared (Attention::Cost, Model::Cost).
struct Growths {
  void Add(int64_t n, double seconds, double declared) {
    measured.Add(n, seconds);
    claimed.Add(n, declared);
  }
  Growth measured, claimed;
};

std::string Ratio(double full, double seconds) { return full == 0 ? "-" : Times(full / seconds); }

using Cells = std::vector<std::string>;  // of a table's row

class Bench {
 public:
  Bench(Threads& threads, Precision precision)
      : threads_(threads), precision_(precision), given_(ActivationType(precision), kLongest) {}

  // A variant at a time, so that memory is its own; tables come one after another all the same.
  void Run() {
    Table lengths({"variant", "rows", "attention", "model", "peak above weights MiB", "attention x full",
                   "model x full", "ceiling"});
    for (const Variant& variant : Variants()) {
      const RandomModel model = MakeRandomModel(Config(variant), precision_);
      std::unique_ptr<Sequence> longest = Lengths(variant, *model, lengths);
      if (model->info().decode != DecodeClass::kNone) Positions(variant, *model, std::move(longest));
    }
    Print({"exponent of n", "attention", "claimed", "model", "claimed"}, exponents_);
    Print({"variant", "position", "a token", "x at 1,000", "state KiB", "resident MiB"}, positions_);
  }

 private:
  std::unique_ptr<Sequence> Lengths(const Variant& variant, const Model& model, Table& table);
  void Positions(const Variant& variant, const Model& model, std::unique_ptr<Sequence> longest);
  void ReadTo(const Model& model, Sequence& sequence, int64_t position);

  static void Print(const Cells& columns, const std::vector<Cells>& rows) {
    Table table(columns);
    for (const Cells& row : rows) table.Row(row);
  }

  Threads& threads_;
  const Precision precision_;
  const ProductRows given_;
  std::map<int64_t, std::pair<double, double>> full_;  // seconds of attention and model, by rows
  std::vector<Cells> exponents_, positions_;
};

// Gives the longest sequence that was read.
std::unique_ptr<Sequence> Bench::Lengths(const Variant& variant, const Model& model, Table& table) {
  const Module module(variant, precision_);
  std::unique_ptr<Sequence> sequence;
  Growths alone_growth, whole_growth;
  ResetPeakMemory();
  const double weights = MemoryMib("VmRSS");
  for (int64_t n = 512; n <= kLongest; n *= 2) {
    const double alone = module.Whole(given_, n, threads_);
    sequence.reset();
    ResetPeakMemory();
    const double whole = Seconds([&] {
      sequence.reset();
      sequence = AfterPrompt(model, n, threads_);
    });
    const double peak = MemoryMib("VmHWM") - weights;
    if (variant.name == "full") full_[n] = {alone, whole};
    alone_growth.Add(n, alone, module.Cost(n));
    whole_growth.Add(n, whole, model.Cost(n));
    table.Row({variant.name, Cat(n), Milliseconds(alone), Milliseconds(whole),
               Cat(static_cast<int64_t>(peak)), Ratio(full_[n].first, alone), Ratio(full_[n].second, whole),
               Times(1 + n / (6.0 * kWidth))});
  }
  exponents_.push_back({variant.name, alone_growth.measured.Exponent(), alone_growth.claimed.Exponent(),
                        whole_growth.measured.Exponent(), whole_growth.claimed.Exponent()});
  return sequence;
}

// A token at a position and one at 1,000, in turns.
void Bench::Positions(const Variant& variant, const Model& model, std::unique_ptr<Sequence> longest) {
  const bool constant = model.StateBytes(kLongest) == model.StateBytes(kFar);
  const std::unique_ptr<Sequence> first = AfterPrompt(model, kPositions[0], threads_);
  for (int64_t position : kPositions) {
    if (position == kFar && !constant) continue;
    if (position == kFar) ReadTo(model, *longest, kFar);
    const std::unique_ptr<Sequence> near = first->Clone();
    const std::unique_ptr<Sequence> far =
        position < kLongest ? AfterPrompt(model, position, threads_) : longest->Clone();
    ResetPeakMemory();  // what is free goes back
    const std::vector<double> seconds =
        LeastSeconds({[&] { Step(model, *near, threads_); }, [&] { Step(model, *far, threads_); }}, 1);
    positions_.push_back({variant.name, Cat(position), Milliseconds(seconds[1]),
                          Times(seconds[1] / seconds[0]), Cat(model.StateBytes(position) >> 10),
                          Cat(static_cast<int64_t>(MemoryMib("VmRSS")))});
  }
}

void Bench::ReadTo(const Model& model, Sequence& sequence, int64_t position) {
  while (sequence.tokens() < position) {
    const int64_t count = std::min(16 * kGrid, position - sequence.tokens());
    std::vector<Work> works{{.sequence = &sequence, .tokens = Tokens(count, 256)}};
    works[0].more = sequence.tokens() + count < position;
    RunPass(model, works, threads_);
  }
}

}  // namespace

void VariantsSection(Threads& threads, const Limits&) {
  const Precision precision = Supported(Precision::kBf16);
  std::printf("4 layers, width %d, %d heads, %s\n", static_cast<int>(kWidth), static_cast<int>(kHeads),
              std::string(Name(precision)).c_str());
  Bench(threads, precision).Run();
}

}  // namespace heed
