// The variants side by side: attention alone and whole models (4 layers, width 512, 8 heads), causal, over
// lengths, and a token more at far positions. What is saved is shown next to the ceiling 1 + n / (6 width),
// which removing attention altogether would give. tests/bench/plot.py draws docs/variants-*.svg from the
// output.
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
  return once.count() > 0.5 ? once.count() : LeastSeconds({f}, 0.3)[0];
}

// One layer's attention without its products.
class Module {
 public:
  Module(const Variant& variant, Precision precision, int64_t most)
      : weights_(MakeRandomWeights(Config(variant))) {
    const auto weights = Weights::Of(weights_.tensors);
    const AttentionSetting setting{
        .width = kWidth, .num_heads = kHeads, .causal = true, .precision = precision};
    JsonFields fields(variant.options, "bench");
    auto attention = NewAttention(setting, fields, WeightScope(*weights) / "layers.0" / "attention");
    CHECK(attention.ok()) << attention.status();
    attention_ = *std::move(attention);
    const DType type = ActivationType(precision);
    memory_ = Buffer(most * kStride * SizeOf(type));
    rows_ = {type, memory_.as<char>(), most, kStride, kStride};
    std::vector<float> row(kStride);
    for (int64_t r = 0; r < most; ++r) {
      for (int64_t c = 0; c < kStride; ++c) row[c] = static_cast<float>(std::sin(0.37 * r + 1.7 * c));
      Convert({DType::kF32, row.data(), 1, kStride, kStride}, rows_.Slice(r, 1));
    }
  }

  double Whole(int64_t n, Threads& threads) {
    return Seconds([&] {
      const auto run = attention_->Start();
      std::vector<Rows> products;
      for (const Product& product : attention_->products()) {
        const int64_t first = static_cast<int64_t>(products.size()) % 3 * kWidth;
        products.push_back(rows_.Slice(0, n).Cols(first, product.weight.dim(0)));
      }
      AttentionRows rows{.count = n, .source_count = n, .complete = true, .products = products.data()};
      rows.out = rows_.Slice(0, n).Cols(3 * kWidth, kWidth);
      threads.RunTasks(attention_->tasks(), [&](int64_t task, int) {
        thread_local Scratch scratch;
        run->Extend(rows, static_cast<int>(task), scratch);
        scratch.Reset();
      });
    });
  }

 private:
  static constexpr int64_t kStride = 4 * kWidth + 32;
  RandomWeights weights_;
  std::unique_ptr<Attention> attention_;
  Buffer memory_;
  Rows rows_;
};

// time = c n^exponent, fitted from 4,096 rows up.
class Growth {
 public:
  void Add(int64_t n, double seconds) {
    if (n < 4096) return;
    const double x = std::log(static_cast<double>(n)), y = std::log(seconds);
    ++count_, x_ += x, y_ += y, xx_ += x * x, xy_ += x * y;
  }
  std::string Exponent() const {
    return Cat(std::round(100 * (count_ * xy_ - x_ * y_) / (count_ * xx_ - x_ * x_)) / 100);
  }

 private:
  double count_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

std::string Ratio(double full, double seconds) { return full == 0 ? "-" : Times(full / seconds); }

void Lengths(Threads& threads, Precision precision) {
  Table table(
      {"variant", "rows", "attention", "model", "peak MiB", "attention x full", "model x full", "ceiling"});
  std::map<int64_t, std::pair<double, double>> full;
  std::vector<std::string> growths;
  for (const Variant& variant : Variants()) {
    Module module(variant, precision, kLongest);
    RandomModel model = MakeRandomModel(Config(variant), precision);
    Growth module_growth, model_growth;
    for (int64_t n = 512; n <= kLongest; n *= 2) {
      const double alone = module.Whole(n, threads);
      ResetPeakMemory();
      const double before = MemoryMib("VmRSS");
      const double whole = Seconds([&] { AfterPrompt(*model, n, threads); });
      const double peak = MemoryMib("VmHWM") - before;
      if (variant.name == "full") full[n] = {alone, whole};
      module_growth.Add(n, alone);
      model_growth.Add(n, whole);
      table.Row({variant.name, Cat(n), Milliseconds(alone), Milliseconds(whole),
                 Cat(static_cast<int64_t>(peak)), Ratio(full[n].first, alone), Ratio(full[n].second, whole),
                 Times(1 + n / (6.0 * kWidth))});
    }
    growths.push_back(
        Cat(variant.name, ": attention n^", module_growth.Exponent(), ", model n^", model_growth.Exponent()));
  }
  std::printf("growth from 4,096 rows on\n");
  for (const std::string& growth : growths) std::printf("  %s\n", growth.c_str());
}

// Takes in rows up to a position, in chunks where the model takes a prompt in chunks.
void ReadTo(const Model& model, Sequence& sequence, int64_t position, Threads& threads) {
  const int64_t chunk = model.info().decode == DecodeClass::kExact ? 16 * kGrid : position;
  while (sequence.tokens() < position) {
    const int64_t to = std::min(position, sequence.tokens() / kGrid * kGrid + chunk);
    std::vector<Work> works{{.sequence = &sequence, .tokens = Tokens(to - sequence.tokens(), 256)}};
    works[0].more = to < position;
    RunPass(model, works, threads);
  }
}

void Positions(Threads& threads, Precision precision) {
  Table table({"variant", "position", "a token", "x at 1,000", "state KiB", "resident MiB"});
  for (const Variant& variant : Variants()) {
    RandomModel model = MakeRandomModel(Config(variant), precision);
    if (model->info().decode == DecodeClass::kNone) continue;
    const bool constant = model->StateBytes(kLongest) == model->StateBytes(kFar);
    const std::unique_ptr<Sequence> sequence = model->Start();
    double first = 0;
    for (int64_t position : kPositions) {
      if (position == kFar && !constant) continue;
      ReadTo(*model, *sequence, position, threads);
      int32_t next = 1;
      const double seconds = LeastSeconds({[&] {
                                            std::vector<Work> works;
                                            works.push_back(LastRow(sequence.get(), {next}, &next));
                                            RunPass(*model, works, threads);
                                          }},
                                          0.5)[0];
      if (first == 0) first = seconds;
      table.Row({variant.name, Cat(position), Milliseconds(seconds), Times(seconds / first),
                 Cat(model->StateBytes(position) >> 10), Cat(static_cast<int64_t>(MemoryMib("VmRSS")))});
    }
  }
}

}  // namespace

void VariantsSection(Threads& threads, const Limits&) {
  const Precision precision = Supported(Precision::kBf16);
  std::printf("4 layers, width %d, %d heads, %s\n", static_cast<int>(kWidth), static_cast<int>(kHeads),
              std::string(Name(precision)).c_str());
  Lengths(threads, precision);
  Positions(threads, precision);
}

}  // namespace heed
