// "relative_memory": Transformer-XL (Dai et al. 2019). Segments of a text remember the ones before, so what
// counts is how far back a key is, not where it stands. Token i sees the `memory` newest, itself included:
//   score(i, j) = ((q_i + u) . k_j + (q_i + v) . (Wr R_t)) / sqrt(head_dim),  t = min(i - j, clamp_length)
//   R_t = [sin(t f_0), ..., cos(t f_0), ...],  f_c = 10000^(-2c / width)
// Options: memory; clamp_length (none); same_length (true, the only form: with it a token's result does not
//   depend on where segments end).
// Tensors: q, k, v, r; pos_bias_u, pos_bias_v [heads, head_dim].
//
// The paper keeps the layer's inputs of the last segments; their keys and values give the same numbers for
// less work. Wr R is the same for all texts, a table made at load, of 1 GiB at most: distances that
// clamp_length makes alike take one panel of it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/pack.h"

namespace heed {
namespace {

constexpr int64_t kMostMemory = 1 << 16;
constexpr int64_t kMostTableBytes = 1 << 30;
constexpr int64_t kPanel = kSoftmaxPiece;

struct Options : PatternOptions {
  int64_t memory = 0;
  int64_t clamp = 0;        // the farthest distance that is told from others
  std::vector<float> u, v;  // [heads, head_dim]
};

// Wr R_t, times scale * log2(e) as biases are, packed for the micro-kernel. Column c is the distance
// places() - 1 - c, so that keys and columns ascend together; the farthest may share a panel.
class RelativeTable {
 public:
  RelativeTable(const Options& options, const Product& r, DType type);
  static int64_t Bytes(const Options& options, DType type) {
    return options.heads * Held(options) / kPanel * PanelBytes(options, type);
  }

  int64_t places() const { return places_; }
  int64_t bytes() const { return static_cast<int64_t>(panels_.size()); }
  const void* Panel(int head, int64_t column) const {
    const int64_t held = std::max<int64_t>(0, column - (places_ - held_));
    return panels_.as<char>() + (head * held_ + held) / kPanel * panel_bytes_;
  }

 private:
  // Of the places, those with a panel of their own, and a panel of clamped ones alone.
  static int64_t Held(const Options& options) {
    return std::min(RoundUp(options.memory, kPanel), RoundUp(options.clamp, kPanel) + kPanel);
  }
  static int64_t PanelBytes(const Options& options, DType type) {
    return kPanel * RoundUp(options.head_dim * SizeOf(type), 4);
  }

  int64_t places_, held_;
  int64_t panel_bytes_;
  Buffer panels_;  // [heads][held / kPanel]
};

// R_t for t = 0, 1, ..., clamp, clamp, ...: each turns the one before by its frequencies. In double, what
// rounding adds to 65,536 turns is some 1e-11.
class Sinusoids {
 public:
  Sinusoids(int64_t width, int64_t clamp) : clamp_(clamp), waves_(width / 2) {
    for (size_t c = 0; c < waves_.size(); ++c) {
      const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(c) / static_cast<double>(width));
      waves_[c].turn_sin = std::sin(frequency);
      waves_[c].turn_cos = std::cos(frequency);
    }
  }
  void Next(float* row) {
    const size_t half = waves_.size();
    for (size_t c = 0; c < half; ++c) {
      row[c] = static_cast<float>(waves_[c].sin);
      row[half + c] = static_cast<float>(waves_[c].cos);
      if (distance_ < clamp_) waves_[c].Turn();
    }
    ++distance_;
  }

 private:
  struct Wave {
    double turn_sin = 0, turn_cos = 1, sin = 0, cos = 1;
    void Turn() {
      const double turned = sin * turn_cos + cos * turn_sin;
      cos = cos * turn_cos - sin * turn_sin;
      sin = turned;
    }
  };

  int64_t clamp_, distance_ = 0;
  std::vector<Wave> waves_;
};

RelativeTable::RelativeTable(const Options& options, const Product& r, DType type)
    : places_(RoundUp(options.memory, kPanel)),
      held_(Held(options)),
      panel_bytes_(PanelBytes(options, type)),
      panels_(Buffer::Zeros(Bytes(options, type))) {
  const int64_t width = r.weight.dim(0), dim = options.head_dim;
  const PackedWeights weights = PackedWeights::Pack({{r.weight, r.bias}}, Precision::kF32);
  Sinusoids sinusoids(width, options.clamp);
  Buffer of_panel(kPanel * width * sizeof(float)), projected(kPanel * width * sizeof(float)),
      rounded(kPanel * width * SizeOf(type));
  const Rows input{DType::kF32, of_panel.as<float>(), kPanel, width, width};
  const Rows rows{DType::kF32, projected.as<float>(), kPanel, width, width};
  const Rows typed{type, rounded.as<void>(), kPanel, width, width};
  Scratch scratch;
  Team alone;
  for (int64_t column = places_ - kPanel; column >= places_ - held_; column -= kPanel) {
    for (int64_t row = kPanel - 1; row >= 0; --row) sinusoids.Next(input.As<float>().row(row));
    Gemm(alone, {input}, weights, {.out = rows}, scratch);
    scratch.Reset();
    Scale(static_cast<float>(options.scale * std::numbers::log2e), rows.As<float>());
    Convert(rows, typed);
    for (int head = 0; head < options.heads; ++head) {
      PackColumns(typed.Cols(head * dim, dim), 0, kPanel, const_cast<void*>(Panel(head, column)));
    }
  }
}

// (q + v) . (Wr R_t) of a tile of rows with a block of keys: one product for all distances between them; a
// row's part of it begins a column further left than that of the row before.
class RelativePositions : public ScoreBias {
 public:
  RelativePositions(const RelativeTable& table, int head, const Rows& q, Scratch& scratch)
      : table_(table), head_(head), q_(q), products_(scratch.Take<float>(kRows * kPitch)) {}
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;
  static int64_t ScratchBytes() { return Scratch::Piece(kRows * kPitch * SizeOf(DType::kF32)); }

 private:
  static constexpr int64_t kRows = SoftmaxCore::kTile + 2;  // one before and after: vectors reach over
  static constexpr int64_t kPitch = SoftmaxCore::kTile + kKeyBlock + 2 * kPanel + 16;

  const RelativeTable& table_;
  int head_;
  Rows q_;
  float* products_;
};

void RelativePositions::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  // The column of the key in the block's column 0, for a row at `position`.
  const auto column = [&](int64_t position) { return table_.places() - 1 - position + block.base; };
  const int64_t last = table_.places() - 1;
  const int64_t first_column =
      std::clamp<int64_t>(column(block.positions.back()) + block.begin, 0, last) / kPanel * kPanel;
  const int64_t last_column = std::clamp<int64_t>(column(block.positions.front()) + block.end - 1, 0, last);
  float* products = products_ + kPitch;
  const MicroKernel* kernel = MicroKernel::Get({.a = q_.dtype,
                                                .m = RoundRows(static_cast<int>(rows.size())),
                                                .n = kPanel,
                                                .k = static_cast<int>(q_.cols),
                                                .lda = q_.stride,
                                                .ldb = kPanel,
                                                .ldc = kPitch});
  for (int64_t c = first_column; c <= last_column; c += kPanel) {
    kernel->Run(q_.at(block.first_row), table_.Panel(head_, c), products + c - first_column);
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].bias = products + static_cast<int64_t>(r) * kPitch + column(block.positions[r]) - first_column;
    rows[r].bias_offset = 0;
  }
}

// q + bias, with room for the micro-kernel's rounding. SoftmaxCore::kTile rows at most.
Rows Biased(const Rows& q, const float* bias, Scratch& scratch) {
  const int64_t pitch = RoundUp(q.cols, 16), bytes = (q.rows + 8) * pitch * SizeOf(q.dtype);
  const Rows sum{q.dtype, scratch.Take<char>(bytes), q.rows, q.cols, pitch};
  std::memset(sum.data, 0, bytes);
  const ScratchFrame frame(scratch);
  const Rows wide{DType::kF32, scratch.Take<float>(q.rows * q.cols), q.rows, q.cols, q.cols};
  Convert(q, wide);
  for (int64_t r = 0; r < q.rows; ++r) {
    float* row = wide.As<float>().row(r);
    for (int64_t c = 0; c < q.cols; ++c) row[c] += bias[c];
  }
  Convert(wide, sum);
  return sum;
}

class RelativeMemoryAttention : public PatternAttention {
 public:
  RelativeMemoryAttention(const AttentionSetting& setting, const Options& options,
                          std::vector<Product> products, const Product& r)
      : PatternAttention(setting, options, std::move(products)),
        u_(options.u),
        v_(options.v),
        table_(options, r, core().type()) {
    constant_bytes_ = table_.bytes();
  }
  // Three products: with the key, with the position, with the value.
  double PairCost() const override { return 3 * static_cast<double>(core().head_dim()); }
  int64_t ScratchBytes() const override;
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

 private:
  std::vector<float> u_, v_;
  RelativeTable table_;
};

void RelativeMemoryAttention::Prepare(const AttentionRows&, const Tile& tile, SoftmaxQueries& queries,
                                      std::vector<KeySource>& sources,
                                      std::vector<std::unique_ptr<ScoreBias>>& biases,
                                      Scratch& scratch) const {
  const int64_t first = tile.head * core().head_dim();
  const Rows q = queries.q;
  queries.q = Biased(q, u_.data() + first, scratch);
  const Rows positional = Biased(q, v_.data() + first, scratch);
  biases.push_back(std::make_unique<RelativePositions>(table_, tile.head, positional, scratch));
  sources.front().bias = biases.back().get();
}

// The rows with either bias, and then what the biases are added in, or what attending takes.
int64_t RelativeMemoryAttention::ScratchBytes() const {
  constexpr int64_t kRows = SoftmaxCore::kTile;
  const int64_t dim = core().head_dim(), biased = (kRows + 8) * RoundUp(dim, 16) * SizeOf(core().type());
  return 2 * Scratch::Piece(biased) +
         std::max(Scratch::Piece(kRows * dim * SizeOf(DType::kF32)),
                  RelativePositions::ScratchBytes() + PatternAttention::ScratchBytes());
}

// Before anything is loaded.
void CheckTable(const AttentionSetting& setting, const Options& options, JsonFields& fields) {
  const int64_t bytes = RelativeTable::Bytes(options, ActivationType(setting.precision));
  if (bytes <= kMostTableBytes) return;
  fields.Fail(Cat("memory: ", options.memory, " makes a table of ", bytes, " bytes, and ", kMostTableBytes,
                  " are the most; a clamp_length makes it smaller"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRelativeMemoryAttention(const AttentionSetting& setting,
                                                                      JsonFields& fields,
                                                                      const WeightScope& scope) {
  Options options{PlainHeads(setting, fields)};
  options.memory = fields.RequiredInt("memory", 1, kMostMemory);
  options.clamp = fields.Int("clamp_length", kMostMemory, 1, kMostMemory);
  if (!fields.Bool("same_length", true)) {
    fields.Fail("same_length: false makes results depend on where segments end, which a service cannot know");
  }
  if (!setting.causal || setting.cross)
    fields.Fail("a memory looks back: this attention is for decoders only");
  if (setting.width % 2 != 0) {
    fields.Fail(Cat("hidden_size ", setting.width, " is odd, and relative positions are sines and cosines"));
  }
  CheckTable(setting, options, fields);
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = {std::make_shared<BandPattern>(Band{.left = options.memory - 1, .right = 0})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  ASSIGN_OR_RETURN(Product r, LoadProduct(scope, "r", setting.width, setting.width));
  ASSIGN_OR_RETURN(options.u, scope.Floats("pos_bias_u", {options.heads, options.head_dim}));
  ASSIGN_OR_RETURN(options.v, scope.Floats("pos_bias_v", {options.heads, options.head_dim}));
  return std::make_unique<RelativeMemoryAttention>(setting, options, std::move(products), r);
}

}  // namespace heed
