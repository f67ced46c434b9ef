// Attention alone, one sequence on one thread, through the contract and with its packing. Whole sequences in
// which every row sees every key (4 n^2 head_dim operations), or a band of them, beside the hot micro-kernel;
// single steps of a decoder beside the memory that they read.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "tests/bench/sections.h"

namespace heed {
namespace {

// A layer of attention with no weights that matter: its products are given.
class Layer {
 public:
  Layer(int heads, int64_t head_dim, bool causal, Precision precision,
        const Json& options = {{"type", "full"}})
      : type_(ActivationType(precision)) {
    const int64_t width = heads * head_dim;
    const std::vector<float> zeros(width * width);
    const Tensor square{DType::kF32, {width, width}, zeros.data()};
    const auto weights = Weights::Of({{"q.weight", square}, {"k.weight", square}, {"v.weight", square}});
    const AttentionSetting setting{
        .width = width, .num_heads = heads, .causal = causal, .precision = precision};
    JsonFields fields(options, "bench");
    auto attention = NewAttention(setting, fields, WeightScope(*weights));
    CHECK(attention.ok()) << attention.status();
    attention_ = *std::move(attention);
  }

  std::unique_ptr<AttentionRun> Start() const { return attention_->Start(); }
  int64_t StateBytes(int64_t tokens) const { return attention_->StateBytes(tokens); }
  double Cost(int64_t n) const { return attention_->Cost(n, n); }

  void Extend(AttentionRun& run, int64_t first, int64_t count) {
    const int64_t width = attention_->out_width();
    if (rows_.rows < count) rows_ = NewRows(count, 4 * width);
    const Rows products[] = {rows_.Cols(0, width), rows_.Cols(width, width), rows_.Cols(2 * width, width)};
    AttentionRows rows{.first = first, .count = count, .source_count = count, .products = products};
    rows.out = rows_.Cols(3 * width, width);
    const std::vector<AttentionStage> stages = run.Begin(rows);
    for (int stage = 0; stage < std::ssize(stages); ++stage) {
      for (int64_t task = 0; task < stages[stage].tasks; ++task) {
        run.Do(rows, stage, task, scratch_);
        scratch_.Reset();
      }
    }
  }

 private:
  Rows NewRows(int64_t count, int64_t cols) {
    const int64_t stride = cols + 32;
    memory_ = Buffer(count * stride * SizeOf(type_));
    const Rows rows{type_, memory_.as<char>(), count, cols, stride};
    for (int64_t i = 0; i < count * stride; ++i) {
      const float x = static_cast<float>(std::sin(1.7 * i) * 2);
      if (type_ == DType::kF32) {
        memory_.as<float>()[i] = x;
      } else {
        memory_.as<Bf16>()[i] = ToBf16(x);
      }
    }
    return rows;
  }

  DType type_;
  std::unique_ptr<Attention> attention_;
  Buffer memory_;
  Rows rows_;
  Scratch scratch_;
};

std::vector<Precision> Precisions() {
  std::vector<Precision> all;
  for (Precision precision : {Precision::kF32, Precision::kBf16}) {
    if (Supported(precision) == precision) all.push_back(precision);
  }
  return all;
}

void WholeSequences(Threads& one) {
  Table table({"rows", "head_dim", "precision", "time", "speed", "of hot"});
  for (int64_t head_dim : {64, 32}) {
    for (Precision precision : Precisions()) {
      Layer layer(1, head_dim, false, precision);
      LimitsNow limits(one, precision);
      for (int64_t n : {128, 512, 2048, 4096, 16384}) {
        limits.Reset();
        const double seconds =
            LeastSeconds({[&] { layer.Extend(*layer.Start(), 0, n); }, [&] { limits.Measure(); }})[0];
        const double speed = 4.0 * n * n * head_dim / seconds;
        table.Row({Cat(n), Cat(head_dim), Cat(Name(precision)), Milliseconds(seconds), Rate(speed, "OP/s"),
                   Percent(speed / limits.operations())});
      }
    }
  }
}

void Bands(Threads& one) {
  constexpr int64_t kRows = 16384, kWindow = 512, kHeadDim = 64;
  Table table({"window", "form   ", "precision", "time", "speed", "of hot"});
  for (bool causal : {true, false}) {
    for (Precision precision : Precisions()) {
      Layer layer(1, kHeadDim, causal, precision, {{"type", "sliding_window"}, {"window", kWindow}});
      LimitsNow limits(one, precision);
      const double seconds =
          LeastSeconds({[&] { layer.Extend(*layer.Start(), 0, kRows); }, [&] { limits.Measure(); }})[0];
      const double speed = 2 * layer.Cost(kRows) / seconds;
      table.Row({Cat(kWindow), causal ? "decoder" : "encoder", Cat(Name(precision)), Milliseconds(seconds),
                 Rate(speed, "OP/s"), Percent(speed / limits.operations())});
    }
  }
}

void Steps(Threads& one) {
  constexpr int kHeads = 32;  // together far beyond the caches
  ColdMemory memory(one);
  Table table({"context", "head_dim", "precision", "time", "read", "memory then", "of memory"});
  for (int64_t head_dim : {64}) {
    for (Precision precision : Precisions()) {
      Layer layer(kHeads, head_dim, true, precision);
      for (int64_t n : {4096, 16384}) {
        const auto run = layer.Start();
        layer.Extend(*run, 0, n);
        int64_t tokens = n;
        const int64_t bytes = layer.StateBytes(n);
        const std::vector<double> seconds =
            LeastSeconds({[&] { layer.Extend(*run, tokens++, 1); }, [&] { memory.Read(bytes); }});
        table.Row({Cat(n), Cat(kHeads, " x ", head_dim), Cat(Name(precision)), Milliseconds(seconds[0]),
                   Rate(bytes / seconds[0], "B/s"), Rate(bytes / seconds[1], "B/s"),
                   Percent(seconds[1] / seconds[0])});
      }
    }
  }
}

}  // namespace

void AttentionSection(Threads&) {
  Threads one(1);
  WholeSequences(one);
  Bands(one);
  Steps(one);
}

}  // namespace heed
