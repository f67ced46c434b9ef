// "transient_global": LongT5's attention (Guo et al. 2022), for encoders. A row sees those at most `radius`
// away, and a summary of each whole block of rows:
//   softmax(scale Q [K of the near ; Wk S]' + bias) [V of the near ; Wv S]
//   S_b = rms_norm(sum of the block's rows) * global_norm,  rows being what the products read
// Rows after the last whole block belong to it; where there is none, there are no summaries. The bias is a
// learned one for each bucket of distances (Raffel et al. 2020): between rows, and, of another table, between
// a row's block and the summary's.
// Options: radius; global_block; relative_bias {buckets, max_distance}; head_dim (hidden_size / num_heads);
//   scale (1 / sqrt(head_dim)).
// Tensors: q, k, v; relative_bias and global_relative_bias [buckets, heads]; global_norm.weight
//   [hidden_size].
// State: keys and values of all rows and summaries, and what the layer's products make of the summaries.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/few_keys.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/t5_buckets.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/scan.h"

namespace heed {
namespace {

constexpr int64_t kMostBuckets = 512;
constexpr int64_t kMostDistance = 1 << 16;
constexpr int64_t kMostHeadDim = 1024;
constexpr int64_t kTogether = 32;  // summaries of a task, and rows that are normed at once

class NearAndSummaries : public BandPattern {
 public:
  NearAndSummaries(int64_t radius, int64_t block)
      : BandPattern({.left = radius, .right = radius}), block_(block) {
    TrackSet& summaries = sets_.emplace_back();
    summaries.period = summaries.end = block;
    summaries.begin = block - 1;
    summaries.made = true;
  }
  Range Sees(int set, int64_t position) const override {
    return set == 0 ? BandPattern::Sees(0, position) : Range{0, kUnlimited};
  }
  int64_t KeptFrom(int, int64_t) const override { return 0; }
  int64_t MostKept(int, int64_t places) const override { return places; }
  double Pairs(int64_t rows, int64_t tokens) const override {
    return BandPattern::Pairs(rows, tokens) +
           static_cast<double>(rows) * static_cast<double>(tokens / block_);
  }

 private:
  int64_t block_;
};

// Distances are counted from a row's block.
class BlockBias : public ScoreBias {
 public:
  BlockBias(const DistanceBias& bias, int64_t block, int64_t blocks, Scratch& scratch)
      : bias_(bias), block_(block), blocks_(blocks), own_(scratch.Take<int64_t>(SoftmaxCore::kTile)) {}
  static int64_t ScratchBytes() { return Scratch::Piece(SoftmaxCore::kTile * sizeof(int64_t)); }
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    for (size_t r = 0; r < rows.size(); ++r) own_[r] = std::min(block.positions[r] / block_, blocks_ - 1);
    BiasBlock of_blocks = block;
    of_blocks.positions = {own_, rows.size()};
    bias_.Mark(of_blocks, rows);
  }

 private:
  const DistanceBias& bias_;
  int64_t block_, blocks_;
  int64_t* own_;
};

class TransientGlobalAttention : public PatternAttention {
 public:
  struct Summaries {
    int64_t block = 2;
    float eps = 1e-6f;
    std::vector<float> norm;
    DistanceBias bias;
  };
  TransientGlobalAttention(const AttentionSetting& setting, PatternOptions options,
                           std::vector<Product> products, Summaries summaries);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override {
    return PatternAttention::StateBytes(tokens) + ProductBytes(tokens / block());
  }
  double Cost(int64_t rows, int64_t tokens) const override {
    return PatternAttention::Cost(rows, tokens) +
           static_cast<double>(rows) / static_cast<double>(block()) * ProductCost();
  }
  int64_t ScratchBytes() const override;
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

  int64_t block() const { return summaries_.block; }
  int64_t columns() const { return columns_; }  // of all products
  int64_t ProductBytes(int64_t blocks) const { return blocks * columns_ * SizeOf(core().type()); }
  double ProductCost() const { return static_cast<double>(width_) * static_cast<double>(columns_); }
  double SumCost() const { return kMoved * static_cast<double>(block() * width_); }
  // What the products make of the summaries of some blocks.
  void Make(const AttentionRows& rows, Range blocks, const Rows& products, Scratch& scratch) const;

 private:
  int64_t Pitch() const { return width_ + static_cast<int64_t>(kAlignment) / SizeOf(core().type()); }
  void SumRows(const AttentionRows& rows, Range of, float* sums, Scratch& scratch) const;

  Summaries summaries_;
  int64_t width_, columns_ = 0;
  Precision precision_;
};

// Summaries are made before any row is taken in.
class TransientGlobalRun : public PatternRun {
 public:
  explicit TransientGlobalRun(const TransientGlobalAttention& attention)
      : PatternRun(attention), attention_(&attention) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<TransientGlobalRun>(*this); }
  void Archive(StateArchive& archive) override {
    PatternRun::Archive(archive);
    if (archive.measuring()) archive.Bytes(products_, static_cast<int64_t>(products_.size()));
  }

 protected:
  void TakeCut(const AttentionRows& rows, int head, int64_t cut, int stage, Scratch& scratch) override;

 private:
  int64_t blocks() const { return tokens() / attention_->block(); }
  Rows Products() {
    const int64_t columns = attention_->columns();
    return {attention_->core().type(), products_.as<char>(), blocks(), columns, columns};
  }

  const TransientGlobalAttention* attention_;
  Buffer products_;
};

// ---------------------------------------------------------------------------------- what is shared

TransientGlobalAttention::TransientGlobalAttention(const AttentionSetting& setting, PatternOptions options,
                                                   std::vector<Product> products, Summaries summaries)
    : PatternAttention(setting, std::move(options), std::move(products)),
      summaries_(std::move(summaries)),
      width_(setting.width),
      precision_(setting.precision) {
  weighing_heads_ = 0;  // of summaries, which are no rows
  reads_input_ = true;
  for (const Product& product : products_) columns_ += RoundUp(product.weight.dim(0), 64);
  constant_bytes_ += width_ * SizeOf(DType::kF32);
}

std::unique_ptr<AttentionRun> TransientGlobalAttention::Start() const {
  return std::make_unique<TransientGlobalRun>(*this);
}

int64_t TransientGlobalAttention::ScratchBytes() const {
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const int64_t made = 2 * floats(kTogether * width_) +
                       Scratch::Piece((kTogether + 8) * Pitch() * SizeOf(core().type())) +
                       GemmOfActivationsScratchBytes(precision_, kTogether, width_);
  return std::max(made, PatternAttention::ScratchBytes() + BlockBias::ScratchBytes());
}

void TransientGlobalAttention::Prepare(const AttentionRows& rows, const Tile&, SoftmaxQueries&,
                                       std::vector<KeySource>& sources,
                                       std::vector<std::unique_ptr<ScoreBias>>& biases,
                                       Scratch& scratch) const {
  const int64_t blocks = std::max<int64_t>((rows.first + rows.count) / block(), 1);
  biases.push_back(std::make_unique<BlockBias>(summaries_.bias, block(), blocks, scratch));
  sources[1].bias = biases.back().get();
}

void TransientGlobalAttention::SumRows(const AttentionRows& rows, Range of, float* sums,
                                       Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Rows normed{DType::kF32, scratch.Take<float>(kTogether * width_), kTogether, width_, width_};
  std::fill_n(sums, width_, 0.0f);
  for (int64_t row = of.begin; row < of.end; row += kTogether) {
    const int64_t count = std::min(kTogether, of.end - row);
    rows.layer->Normalize(rows.input.Rows(row, count), normed.Slice(0, count));
    AddColumnSums(normed.Slice(0, count), sums);
  }
}

void TransientGlobalAttention::Make(const AttentionRows& rows, Range blocks, const Rows& products,
                                    Scratch& scratch) const {
  const DType type = core().type();
  const int64_t count = blocks.size(), all = rows.count / block();
  const Matrix<float> sums{scratch.Take<float>(kTogether * width_), count, width_, width_};
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    const int64_t end = b + 1 == all ? rows.count : (b + 1) * block();
    SumRows(rows, {b * block(), end}, sums.row(b - blocks.begin), scratch);
  }
  const Rows normed{type, scratch.Take<char>((kTogether + 8) * Pitch() * SizeOf(type)), count, width_,
                    Pitch()};
  RmsNorm(sums, summaries_.norm.data(), summaries_.eps, normed);
  Team alone;
  const PackedWeights& weights = rows.layer->products();
  GemmOfActivations(alone, normed, weights, {.out = products.Cols(0, weights.out())}, scratch);
}

// ------------------------------------------------------------------------------------ one sequence

std::vector<AttentionStage> TransientGlobalRun::Begin(const AttentionRows& rows) {
  std::vector<AttentionStage> stages = PatternRun::Begin(rows);
  products_ = Buffer::Lasting(attention_->ProductBytes(blocks()));
  const double cost = attention_->ProductCost() + attention_->SumCost();
  stages.insert(stages.begin(),
                AttentionStage{.tasks = std::max<int64_t>(Quotient(blocks(), kTogether), 1),
                               .cost = cost * static_cast<double>(std::min(blocks(), kTogether))});
  return stages;
}

void TransientGlobalRun::Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) {
  if (stage > 0) return PatternRun::Do(rows, stage - 1, task, scratch);
  const Range made{task * kTogether, std::min(blocks(), (task + 1) * kTogether)};
  if (made.begin < made.end) attention_->Make(rows, made, Products().Slice(made.begin, made.size()), scratch);
}

void TransientGlobalRun::TakeCut(const AttentionRows& rows, int head, int64_t cut, int stage,
                                 Scratch& scratch) {
  PatternRun::TakeCut(rows, head, cut, stage, scratch);
  if (cut > 0 || blocks() == 0) return;
  const int64_t dim = attention_->core().head_dim();
  const auto product = [&](int p) {
    return Products().Cols(rows.layer->products().offset(p) + head * dim, dim);
  };
  Track(head, 1, 0).Write(0, product(attention_->options().k), product(attention_->options().v));
}

// ----------------------------------------------------------------------------------------- the options

absl::StatusOr<DistanceBias> LoadBias(const WeightScope& scope, std::string_view name, int64_t buckets,
                                      int64_t max_distance, int heads) {
  ASSIGN_OR_RETURN(const std::vector<float> values, scope.Floats(name, {buckets, heads}));
  const T5Buckets of(static_cast<int>(buckets), max_distance, /*bidirectional=*/true);
  const auto value = [&](int head, int64_t distance) {
    return static_cast<double>(values[of.Bucket(-distance) * heads + head]);
  };
  return DistanceBias(heads, max_distance, value, [](int) { return 0.0; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewTransientGlobalAttention(const AttentionSetting& setting,
                                                                       JsonFields& fields,
                                                                       const WeightScope& scope) {
  RefuseAllButEncoders(setting, "transient_global", "rows see those behind them and summaries of all",
                       fields);
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim =
      fields.Has("head_dim") ? fields.Int("head_dim", 1, 1, kMostHeadDim) : HeadDim(setting, fields);
  fields.Ignore("head_dim");
  options.scale = fields.Number("scale", 1 / std::sqrt(static_cast<double>(options.head_dim)), 1e-6, 1e6);
  const int64_t radius = fields.RequiredInt("radius", 1, kMostSpan),
                block = fields.RequiredInt("global_block", 2, kMostDistance);
  if (!fields.Raw("relative_bias").is_object()) fields.Fail("relative_bias is missing, or no object");
  RETURN_IF_ERROR(fields.Finish());
  JsonFields relative(fields.Raw("relative_bias"), Cat(fields.where(), ".relative_bias"));
  const int64_t buckets = relative.RequiredInt("buckets", 2, kMostBuckets),
                max_distance = relative.RequiredInt("max_distance", buckets / 4 + 1, kMostDistance);
  RETURN_IF_ERROR(relative.Finish());
  options.patterns = {std::make_shared<NearAndSummaries>(radius, block)};
  const auto load = [&](std::string_view name) {
    return LoadBias(scope, name, buckets, max_distance, options.heads);
  };
  ASSIGN_OR_RETURN(options.bias, load("relative_bias"));
  ASSIGN_OR_RETURN(DistanceBias bias, load("global_relative_bias"));
  ASSIGN_OR_RETURN(std::vector<float> norm, scope.Floats("global_norm.weight", {setting.width}));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  return std::make_unique<TransientGlobalAttention>(
      setting, std::move(options), std::move(products),
      TransientGlobalAttention::Summaries{block, setting.norm_eps, std::move(norm), std::move(bias)});
}

}  // namespace heed
