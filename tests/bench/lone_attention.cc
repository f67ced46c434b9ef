#include "tests/bench/lone_attention.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "absl/log/check.h"
#include "tests/testing/random_weights.h"

namespace heed {
namespace {

// With random weights.
AttentionSublayer Load(const StackShape& shape, const Json& attention, Precision precision) {
  const auto weights = NewRandomWeights([](const std::string& name) { return name.ends_with(".bias"); });
  const AttentionSetting setting{.width = shape.width,
                                 .num_heads = shape.heads,
                                 .causal = shape.causal,
                                 .precision = precision,
                                 .where = "bench"};
  const WeightScope layer = WeightScope(*weights) / "layers.0";
  JsonFields fields(attention, "bench");
  auto made = NewAttention(setting, fields, layer / "attention");
  CHECK(made.ok()) << made.status();
  auto sublayer = AttentionSublayer::Load(*std::move(made), layer / "attention", layer / "norm1",
                                          {.width = shape.width}, precision);
  CHECK(sublayer.ok()) << sublayer.status();
  return *std::move(sublayer);
}

}  // namespace

LoneAttention::LoneAttention(const StackShape& shape, const Json& attention, Precision precision, int64_t n,
                             Threads& threads)
    : n_(n),
      sublayer_(Load(shape, attention, precision)),
      input_(n, shape.width, DType::kF32),
      products_(n, sublayer_.products_width(), ActivationType(precision)),
      out_(n, sublayer_.attention().out_width(), ActivationType(precision)),
      scratch_(threads.count()) {
  std::minstd_rand random(7);
  for (int64_t r = 0; r < n; ++r) {
    float* row = input_.rows().As<float>().row(r);
    for (int64_t c = 0; c < shape.width; ++c)
      row[c] = static_cast<float>(random()) / static_cast<float>(std::minstd_rand::max()) - 0.5f;
  }
  MakeProducts(precision, threads);
}

// Block by block, as a model does.
void LoneAttention::MakeProducts(Precision precision, Threads& threads) {
  const int64_t width = input_.rows().cols;
  std::vector<std::unique_ptr<BlockBuffers>> buffers;
  for (int i = 0; i < threads.count(); ++i)
    buffers.push_back(std::make_unique<BlockBuffers>(BlockWidths{.width = width, .reads = width}, precision));
  threads.RunTasks((n_ + kMaxBlockRows - 1) / kMaxBlockRows, [&](int64_t task, int thread) {
    const int64_t first = task * kMaxBlockRows, count = std::min(kMaxBlockRows, n_ - first);
    std::vector<int64_t> positions(count);
    std::iota(positions.begin(), positions.end(), first);
    Team alone;
    RowBlock block{alone, scratch_[thread], *buffers[thread], input_.rows().As<float>().Rows(first, count)};
    sublayer_.Open(block, {.positions = positions, .labels = {}}, products_.rows().Slice(first, count));
    scratch_[thread].Reset();
  });
}

void LoneAttention::Run(int count, Threads& threads) {
  const std::vector<Rows> products = sublayer_.Split(products_.rows(), {});
  AttentionRows rows{.count = n_, .source_count = n_, .products = products.data()};
  rows.input = input_.rows().As<const float>();
  rows.layer = &sublayer_;
  rows.out = out_.rows();
  for (int i = 0; i < count; ++i) {
    const auto run = sublayer_.attention().Start();
    const std::vector<AttentionStage> stages = run->Begin(rows);
    for (int stage = 0; stage < std::ssize(stages); ++stage) {
      threads.RunTasks(stages[stage].tasks, [&](int64_t task, int thread) {
        run->Do(rows, stage, task, scratch_[thread]);
        scratch_[thread].Reset();
      });
    }
  }
}

double LoneAttention::Bytes() const {
  return static_cast<double>(n_ * (products_.rows().cols + out_.rows().cols) * SizeOf(out_.rows().dtype));
}

}  // namespace heed
