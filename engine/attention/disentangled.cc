// "disentangled": DeBERTa's attention (He et al. 2021), for encoders. A row's content meets the key's
// content, its position, and the row's position the key's content:
//   score(i, j) = scale * (q_i . k_j + q_i . kr[t] + k_j . qr[t]),  scale = 1 / sqrt(head_dim * (1 + kinds))
//   t = min(max(bucket(i - j) + span, 0), 2 span - 1),  kr = Wkr R,  qr = Wqr R
//   bucket(d) = d or, with buckets, d where |d| <= mid = buckets / 2, else farther distances share ever more:
//     sign(d) (ceil(ln(|d| / mid) / ln((max_distance - 1) / mid) (mid - 1)) + mid)
// Options: max_distance; buckets (none, or 0: span is max_distance, else buckets); c2p (true), p2c (true):
//   which of the two others are added; relative_eps (none): R is layer-normed, with this eps.
// Tensors: q, k, v; relative.weight [2 span, hidden_size], which is R, relative_norm.{weight, bias};
//   relative_k (with c2p) and relative_q (with p2c), as k and q.
//
// Both tables are made when the model is loaded. Their products with a tile's rows are made once, for the
// distances that come up, those with a block's keys for each tile that reads it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attention/distance_table.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kPanel = DistanceTable::kPanel;
constexpr int64_t kMostDistance = 1 << 16;
constexpr int64_t kMostRelative =
    1 << 12;  // of span: a task holds two products of this many columns for each of its rows
// Distances between rows, no power of two: they do not meet in one cache set.
constexpr int64_t kSpreadPitch = kKeyBlock + 16;

// Which row of R a distance has.
class DistanceColumns {
 public:
  DistanceColumns(int64_t max_distance, int64_t buckets)
      : far_(max_distance), span_(buckets > 0 ? buckets : max_distance) {
    for (int64_t e = -far_; e <= far_; ++e)
      columns_.push_back(
          static_cast<int32_t>(std::clamp<int64_t>(Bucket(-e, buckets) + span_, 0, 2 * span_ - 1)));
  }
  int64_t count() const { return 2 * span_; }
  // Of a key `ahead` places after the row.
  int32_t operator()(int64_t ahead) const { return columns_[std::clamp(ahead, -far_, far_) + far_]; }
  int64_t bytes() const { return std::ssize(columns_) * static_cast<int64_t>(sizeof(int32_t)); }

 private:
  // In float, as transformers has it: what lies at a border falls to the same side.
  int64_t Bucket(int64_t distance, int64_t buckets) const {
    const int64_t mid = buckets / 2, size = std::abs(distance);
    if (buckets == 0 || size <= mid) return distance;
    const float share = std::log(static_cast<float>(size) / static_cast<float>(mid)) /
                        std::log(static_cast<float>(far_ - 1) / static_cast<float>(mid));
    const auto bucket = static_cast<int64_t>(std::ceil(share * static_cast<float>(mid - 1))) + mid;
    return distance < 0 ? -bucket : bucket;
  }

  int64_t far_, span_;
  std::vector<int32_t> columns_;  // by places ahead, from -far_ on; they descend
};

struct Positions {
  DistanceColumns columns;
  std::optional<DistanceTable> keys, queries;  // kr, qr
};

// What the two tables bring to a tile of rows.
class DisentangledBias : public ScoreBias {
 public:
  // k: of all rows of the sequence, the head's.
  DisentangledBias(const Positions& positions, int head, const Rows& q, const Rows& k, Scratch& scratch)
      : positions_(positions),
        head_(head),
        k_(k),
        of_rows_(q.dtype, q.cols, Columns(positions), scratch),
        of_keys_(q.dtype, q.cols, Columns(positions), scratch),
        ready_(scratch.Take<bool>(Columns(positions) / kPanel)),
        spread_(scratch.Take<float>(SoftmaxCore::kTile * kSpreadPitch)) {
    of_rows_.Set(q);
    std::fill_n(ready_, Columns(positions) / kPanel, false);
  }
  static int64_t ScratchBytes(const Positions& positions, DType type, int64_t dim) {
    return 2 * DistanceProducts::ScratchBytes(type, dim, Columns(positions)) +
           Scratch::Piece(Columns(positions) / kPanel) +
           Scratch::Piece(SoftmaxCore::kTile * kSpreadPitch * SizeOf(DType::kF32));
  }
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;

 private:
  static int64_t Columns(const Positions& positions) { return RoundUp(positions.columns.count(), kPanel); }

  const Positions& positions_;
  int head_;
  Rows k_;
  DistanceProducts of_rows_;
  mutable DistanceProducts of_keys_;  // of the block at hand
  bool* ready_;                       // of each panel of of_rows_, whether it was computed
  float* spread_;
};

// A task's own: nobody else marks with it.
void DisentangledBias::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  const DistanceColumns& columns = positions_.columns;
  const int64_t begin = block.base + block.begin, end = std::min<int64_t>(block.base + block.end, k_.rows);
  const int64_t first = columns(end - 1 - block.positions.front()) / kPanel,
                last = columns(begin - block.positions.back()) / kPanel;
  of_keys_.Set(k_.Slice(begin, end - begin));
  for (int64_t panel = first; panel <= last; ++panel) {
    if (positions_.keys && !std::exchange(ready_[panel], true))
      of_rows_.Multiply(*positions_.keys, head_, panel, panel * kPanel);
    if (positions_.queries) of_keys_.Multiply(*positions_.queries, head_, panel, panel * kPanel);
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    float* values = spread_ + static_cast<int64_t>(r) * kSpreadPitch;
    const float* of_row = of_rows_.row(block.first_row + static_cast<int64_t>(r));
    for (int64_t j = begin; j < end; ++j) {
      const int32_t t = columns(j - block.positions[r]);
      values[j - block.base] =
          (positions_.keys ? of_row[t] : 0) + (positions_.queries ? of_keys_.row(j - begin)[t] : 0);
    }
    std::fill(values + (end - block.base), values + block.end, 0.0f);
    rows[r].bias = values;
    rows[r].bias_offset = 0;
  }
}

class DisentangledAttention : public PatternAttention {
 public:
  DisentangledAttention(const AttentionSetting& setting, PatternOptions options,
                        std::vector<Product> products, Positions positions)
      : PatternAttention(setting, std::move(options), std::move(products)), positions_(std::move(positions)) {
    constant_bytes_ = positions_.columns.bytes() + (positions_.keys ? positions_.keys->bytes() : 0) +
                      (positions_.queries ? positions_.queries->bytes() : 0);
  }
  double Cost(int64_t rows, int64_t tokens) const override {
    return pattern(0).Pairs(rows, tokens) * options().heads * PairCost();
  }
  double PairCost() const override {
    return (1 + (positions_.keys ? 1 : 0) + (positions_.queries ? 1 : 0)) * PatternAttention::PairCost();
  }
  int64_t ScratchBytes() const override {
    return DisentangledBias::ScratchBytes(positions_, core().type(), core().head_dim()) +
           PatternAttention::ScratchBytes();
  }
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override {
    const Rows k = rows.products[options().k].Cols(tile.head * options().head_dim, options().head_dim);
    biases.push_back(std::make_unique<DisentangledBias>(positions_, tile.head, queries.q, k, scratch));
    sources.front().bias = biases.back().get();
  }

 private:
  Positions positions_;
};

// R, with its norm if it has one.
absl::StatusOr<std::vector<float>> LoadRelative(const WeightScope& scope, int64_t rows, int64_t width,
                                                std::optional<double> eps) {
  ASSIGN_OR_RETURN(std::vector<float> relative, scope.Floats("relative.weight", {rows, width}));
  if (!eps) return relative;
  ASSIGN_OR_RETURN(const std::vector<float> weight, scope.Floats("relative_norm.weight", {width}));
  ASSIGN_OR_RETURN(const std::vector<float> bias, scope.Floats("relative_norm.bias", {width}));
  const Matrix<float> all{relative.data(), rows, width, width};
  LayerNorm(all, weight.data(), bias.data(), static_cast<float>(*eps),
            {DType::kF32, all.data, rows, width, width});
  return relative;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewDisentangledAttention(const AttentionSetting& setting,
                                                                    JsonFields& fields,
                                                                    const WeightScope& scope) {
  PatternOptions options = PlainHeads(setting, fields);
  const int64_t max_distance = fields.RequiredInt("max_distance", 2, kMostDistance);
  const int64_t buckets = fields.Int("buckets", 0, 0, kMostRelative);
  const bool c2p = fields.Bool("c2p", true), p2c = fields.Bool("p2c", true);
  std::optional<double> eps;
  if (fields.Has("relative_eps")) eps = fields.Number("relative_eps", 0, 0, 1);
  if (setting.causal || setting.cross)
    fields.Fail("rows meet keys on both sides: this attention is for encoders only");
  if (buckets == 0 && max_distance > kMostRelative)
    fields.Fail(Cat("max_distance: ", max_distance, " is above ", kMostRelative, " without buckets"));
  if (buckets == 1 || (buckets > 0 && max_distance <= buckets / 2 + 1))
    fields.Fail(Cat("buckets: ", buckets, "; at least 2, and half of them below max_distance - 1"));
  RETURN_IF_ERROR(fields.Finish());
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim) * (1 + c2p + p2c));
  options.patterns = {std::make_shared<BandPattern>(Band{})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  Positions positions{.columns = DistanceColumns(max_distance, buckets), .keys = {}, .queries = {}};
  const int64_t rows = positions.columns.count();
  ASSIGN_OR_RETURN(std::vector<float> relative, LoadRelative(scope, rows, setting.width, eps));
  const auto load = [&](bool wanted, const char* name, std::optional<DistanceTable>& table) -> absl::Status {
    if (!wanted) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Product projection, LoadProduct(scope, name, setting.width, setting.width));
    relative.resize((rows + DistanceTable::kRoom) * setting.width);  // the product reads beyond its rows
    table.emplace(options, Matrix<float>{relative.data(), rows, setting.width, setting.width}, projection,
                  ActivationType(setting.precision));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(load(c2p, "relative_k", positions.keys));
  RETURN_IF_ERROR(load(p2c, "relative_q", positions.queries));
  return std::make_unique<DisentangledAttention>(setting, std::move(options), std::move(products),
                                                 std::move(positions));
}

}  // namespace heed
