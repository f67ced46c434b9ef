// "relative_segments": relative positions and relative segments (Funnel-Transformer, Dai et al. 2020; XLNet,
// Yang et al. 2019), for encoders. What counts is how far a key is from the row, to either side, and whether
// both are of one segment, which is what the request's token types say:
//   score(i, j) = ((q_i + u) . k_j + (q_i + v) . (Wr R_t) + (q_i + s) . E_ij) * scale
//   t = the row's place - the key's;  R_t = [sin(t f_0), ..., cos(t f_0), ...],  f_c = 10000^(-2c / width)
//   E_ij = segments[1] where both have one type, or either has `any_segment`; else segments[0]
// Rows that were pooled (a funnel's) stand where the first of theirs stood; the first row, where it is kept
// apart, stands nowhere: of it, be it row or key, the score is (q_i + u) . k_j alone.
// Options: max_distance: the farthest that two rows may be from each other, in places; segments (true):
//   whether the third term is there; any_segment (none); head_dim (hidden_size / heads).
// Tensors: q, k, v, r [heads head_dim, hidden_size]; pos_bias_u, pos_bias_v, segment_bias (s) [heads,
//   head_dim]; segments [2, heads, head_dim].
//
// Wr R is the same for all texts, a table made at load. Its products with a tile's rows are made block by
// block of keys, for the distances that come up.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attention/distance_table.h"
#include "engine/attention/pattern_attention.h"
#include "engine/attention/relative_positions.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kPanel = DistanceTable::kPanel;
constexpr int64_t kMostDistance = 1 << 16;
constexpr int64_t kMostTableBytes = 1 << 30;
constexpr int64_t kMostType = 1 << 16;
// Distances between rows, no power of two: they do not meet in one cache set.
constexpr int64_t kSpreadPitch = kKeyBlock + 16;

// How rows and keys stand to each other, in steps of keys.
struct Spacing {
  int64_t apart = 0;  // rows in front that stand nowhere
  int64_t step = 1;   // from a row to the next
  int64_t reach = 0;  // the farthest that a key is from a row

  // Columns ascend with the keys.
  int64_t columns() const { return 2 * reach + 1; }
  int64_t Column(int64_t row, int64_t key) const { return reach - (row - apart) * step + (key - apart); }
  // Of a tile's rows and a block's keys, in whole panels.
  int64_t most_columns() const {
    return RoundUp((SoftmaxCore::kTile - 1) * step + kKeyBlock, kPanel) + kPanel;
  }
};

struct Segments {
  std::vector<float> bias;     // [heads, head_dim]
  std::vector<float> vectors;  // [2, heads, head_dim]: of another segment, of the same
  int32_t any = -1;

  bool Same(int32_t a, int32_t b) const { return a == b || a == any || b == any; }
};

// What all sequences share.
struct Relative {
  Spacing spacing;
  DistanceTable table;
  std::vector<float> u, v;  // [heads, head_dim]
  std::optional<Segments> segments;
  double factor = 1;  // of scores, as biases have it

  int64_t bytes() const {
    size_t numbers = u.size() + v.size();
    if (segments) numbers += segments->bias.size() + segments->vectors.size();
    return table.bytes() + static_cast<int64_t>(numbers * sizeof(float));
  }
};

// What a tile reads.
struct TileOfRows {
  int head = 0;
  Rows q;                          // of the tile, the head's
  int64_t keys = 0;                // of the sequence
  const int32_t* types = nullptr;  // of the tile's rows; null: all are 0
  const int32_t* types_of_keys = nullptr;
};

// What positions and segments bring to a tile of rows.
class SegmentBias : public ScoreBias {
 public:
  SegmentBias(const Relative& relative, const TileOfRows& tile, Scratch& scratch)
      : relative_(relative),
        tile_(tile),
        products_(tile.q.dtype, tile.q.cols, relative.spacing.most_columns(), scratch),
        spread_(scratch.Take<float>(SoftmaxCore::kTile * kSpreadPitch)),
        terms_(scratch.Take<float>(2 * SoftmaxCore::kTile)) {
    const ScratchFrame frame(scratch);
    products_.Set(WithBias(tile.q, &relative.v[tile.head * tile.q.cols], scratch));
    if (relative.segments) SetTerms(scratch);
  }
  static int64_t ScratchBytes(const Relative& relative, DType type, int64_t dim) {
    constexpr int64_t kFloat = SizeOf(DType::kF32);
    return DistanceProducts::ScratchBytes(type, dim, relative.spacing.most_columns()) +
           Scratch::Piece(SoftmaxCore::kTile * kSpreadPitch * kFloat) +
           Scratch::Piece(2 * SoftmaxCore::kTile * kFloat) + WithBiasScratchBytes(type, dim) +
           Scratch::Piece(SoftmaxCore::kTile * dim * kFloat);
  }
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;

 private:
  void SetTerms(Scratch& scratch);
  // The table's columns that the rows and keys need; returns the first that is there.
  int64_t MultiplyBy(const BiasBlock& block, int64_t begin, int64_t end) const;
  // Of the tile's row `r` with the keys [begin, end), which are not apart.
  void AddSegments(int64_t r, int64_t begin, int64_t end, float* values) const;

  const Relative& relative_;
  TileOfRows tile_;
  DistanceProducts products_;  // of the block at hand
  float* spread_;
  float* terms_;  // [2, rows]: with keys of another segment, of the same
};

// (q + s) . E, as biases are.
void SegmentBias::SetTerms(Scratch& scratch) {
  const Segments& segments = *relative_.segments;
  const int64_t dim = tile_.q.cols, heads = std::ssize(segments.bias) / dim;
  const Rows wide{DType::kF32, scratch.Take<float>(tile_.q.rows * dim), tile_.q.rows, dim, dim};
  Convert(tile_.q, wide);
  for (int kind = 0; kind < 2; ++kind) {
    const float *vector = &segments.vectors[(kind * heads + tile_.head) * dim],
                *bias = &segments.bias[tile_.head * dim];
    for (int64_t r = 0; r < tile_.q.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < dim; ++c)
        sum += static_cast<double>(wide.As<float>().row(r)[c] + bias[c]) * vector[c];
      terms_[kind * SoftmaxCore::kTile + r] = static_cast<float>(sum * relative_.factor);
    }
  }
}

int64_t SegmentBias::MultiplyBy(const BiasBlock& block, int64_t begin, int64_t end) const {
  const Spacing& spacing = relative_.spacing;
  const int64_t first_row = std::max(block.positions.front(), spacing.apart),
                last_row = block.positions.back();
  if (last_row < first_row || begin >= end) return 0;
  const int64_t first = spacing.Column(last_row, begin) / kPanel,
                last = spacing.Column(first_row, end - 1) / kPanel;
  for (int64_t panel = first; panel <= last; ++panel)
    products_.Multiply(relative_.table, tile_.head, panel, (panel - first) * kPanel);
  return first * kPanel;
}

void SegmentBias::AddSegments(int64_t r, int64_t begin, int64_t end, float* values) const {
  const Segments& segments = *relative_.segments;
  const float other = terms_[r], same = terms_[SoftmaxCore::kTile + r];
  const int32_t type = tile_.types != nullptr ? tile_.types[r] : 0;
  for (int64_t j = begin; j < end; ++j) {
    const int32_t of_key = tile_.types_of_keys != nullptr ? tile_.types_of_keys[j] : 0;
    values[j - begin] += segments.Same(type, of_key) ? same : other;
  }
}

// A task's own: nobody else marks with it.
void SegmentBias::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  const Spacing& spacing = relative_.spacing;
  const int64_t begin = std::max(block.base + block.begin, spacing.apart),
                end = std::min(block.base + block.end, tile_.keys);
  const int64_t first_column = MultiplyBy(block, begin, end);
  for (int64_t r = 0; r < std::ssize(rows); ++r) {
    float* values = spread_ + r * kSpreadPitch;
    const int64_t row = block.positions[r];
    std::fill(values + block.begin, values + block.end, 0.0f);
    if (row >= spacing.apart && begin < end) {
      const float* of_row = products_.row(block.first_row + r) + spacing.Column(row, begin) - first_column;
      std::copy_n(of_row, end - begin, values + (begin - block.base));
      if (relative_.segments) AddSegments(block.first_row + r, begin, end, values + (begin - block.base));
    }
    rows[r].bias = values;
    rows[r].bias_offset = 0;
  }
}

class RelativeSegmentsAttention : public PatternAttention {
 public:
  RelativeSegmentsAttention(const AttentionSetting& setting, PatternOptions options,
                            std::vector<Product> products, Relative relative)
      : PatternAttention(setting, std::move(options), std::move(products),
                         relative.spacing.apart + relative.spacing.reach + 1),
        relative_(std::move(relative)) {
    constant_bytes_ += relative_.bytes();
  }
  // Three products: with the key, with the position, with the value.
  double PairCost() const override { return 3 * static_cast<double>(core().head_dim()); }
  int64_t ScratchBytes() const override {
    return WithBiasScratchBytes(core().type(), core().head_dim()) +
           SegmentBias::ScratchBytes(relative_, core().type(), core().head_dim()) +
           PatternAttention::ScratchBytes();
  }
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override {
    const Rows q = queries.q;
    queries.q = WithBias(q, &relative_.u[tile.head * core().head_dim()], scratch);
    const TileOfRows of_rows{.head = tile.head,
                             .q = q,
                             .keys = sources.front().pages->end(),
                             .types = rows.types != nullptr ? rows.types + tile.row : nullptr,
                             .types_of_keys = rows.source_types};
    biases.push_back(std::make_unique<SegmentBias>(relative_, of_rows, scratch));
    sources.front().bias = biases.back().get();
  }

 private:
  Relative relative_;
};

// R_t of all columns, each of so many places.
std::vector<float> RelativeRows(const Spacing& spacing, int64_t places, int64_t width) {
  const int64_t half = width / 2;
  std::vector<float> rows((spacing.columns() + DistanceTable::kRoom) * width);
  for (int64_t column = 0; column < spacing.columns(); ++column) {
    const double distance = static_cast<double>(spacing.reach - column) * static_cast<double>(places);
    for (int64_t c = 0; c < half; ++c) {
      const double angle =
          distance * std::pow(10000.0, -2.0 * static_cast<double>(c) / static_cast<double>(width));
      rows[column * width + c] = static_cast<float>(std::sin(angle));
      rows[column * width + half + c] = static_cast<float>(std::cos(angle));
    }
  }
  return rows;
}

absl::StatusOr<std::optional<Segments>> LoadSegments(bool wanted, int32_t any, const PatternOptions& options,
                                                     const WeightScope& scope) {
  if (!wanted) return std::nullopt;
  Segments segments{.any = any};
  ASSIGN_OR_RETURN(segments.bias, scope.Floats("segment_bias", {options.heads, options.head_dim}));
  ASSIGN_OR_RETURN(segments.vectors, scope.Floats("segments", {2, options.heads, options.head_dim}));
  return segments;
}

// How the setting's rows stand. `max_distance`: in places.
Spacing SpacingOf(const AttentionSetting& setting, int64_t max_distance, JsonFields& fields) {
  const RowSpacing rows = setting.spacing.value_or(RowSpacing());
  if (setting.causal || (setting.cross && !setting.spacing))
    fields.Fail("rows stand on both sides of a key: this attention is for encoders only");
  if (setting.width % 2 != 0)
    fields.Fail(Cat("hidden_size ", setting.width, " is odd, and relative positions are sines and cosines"));
  const int64_t of_keys = setting.cross ? rows.source_step : rows.step;
  return {.apart = rows.apart, .step = rows.step / of_keys, .reach = max_distance / of_keys};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRelativeSegmentsAttention(const AttentionSetting& setting,
                                                                        JsonFields& fields,
                                                                        const WeightScope& scope) {
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = ReadHeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  const int64_t max_distance = fields.RequiredInt("max_distance", 1, kMostDistance);
  const Spacing spacing = SpacingOf(setting, max_distance, fields);
  const bool wanted = fields.Bool("segments", true);
  const auto any = static_cast<int32_t>(fields.Int("any_segment", -1, 0, kMostType));
  const int64_t widest = std::max(options.heads * options.head_dim, setting.width),
                bytes = spacing.columns() * widest * SizeOf(DType::kF32);
  if (bytes > kMostTableBytes)
    fields.Fail(Cat("max_distance: ", max_distance, " makes a table of ", bytes, " bytes, and ",
                    kMostTableBytes, " are the most"));
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = {std::make_shared<BandPattern>(Band{})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  const std::vector<int64_t> shape = {options.heads, options.head_dim};
  ASSIGN_OR_RETURN(const Product r, LoadProduct(scope, "r", options.heads * options.head_dim, setting.width));
  ASSIGN_OR_RETURN(std::vector<float> u, scope.Floats("pos_bias_u", shape));
  ASSIGN_OR_RETURN(std::vector<float> v, scope.Floats("pos_bias_v", shape));
  ASSIGN_OR_RETURN(std::optional<Segments> segments, LoadSegments(wanted, any, options, scope));
  const int64_t places = !setting.spacing ? 1
                         : setting.cross  ? setting.spacing->source_step
                                          : setting.spacing->step;
  std::vector<float> rows = RelativeRows(spacing, places, setting.width);
  Relative relative{
      .spacing = spacing,
      .table = DistanceTable(options, {rows.data(), spacing.columns(), setting.width, setting.width}, r,
                             ActivationType(setting.precision)),
      .u = std::move(u),
      .v = std::move(v),
      .segments = std::move(segments),
      .factor = options.scale * std::numbers::log2e};
  return std::make_unique<RelativeSegmentsAttention>(setting, std::move(options), std::move(products),
                                                     std::move(relative));
}

}  // namespace heed
