#include "engine/attention/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/pack.h"

namespace heed {
namespace {

constexpr int64_t kMostTableBytes = 1 << 30;
constexpr int64_t kPanel = kSoftmaxPiece;
// Rows of the micro-kernel's results beyond a tile: what it rounds up to.
constexpr int64_t kRounding = 8;

int64_t Held(const RelativeOptions& options) {
  return std::min(RoundUp(options.reach, kPanel), RoundUp(options.clamp, kPanel) + kPanel);
}

int64_t PanelBytes(const PatternOptions& heads, DType type) {
  return kPanel * RoundUp(heads.head_dim * SizeOf(type), 4);
}

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

// (q + v) . (Wr R_t) of a tile of rows with a block of keys. Of rows that stand side by side it is one
// product for all distances between them; a row's part of it begins a column further left than that of the
// row before.
class RelativeBias : public ScoreBias {
 public:
  RelativeBias(const RelativeTable& table, int head, const Rows& q, std::function<int64_t(int64_t)> place,
               Scratch& scratch)
      : table_(table),
        head_(head),
        q_(q),
        place_(std::move(place)),
        products_(scratch.Take<float>(kRows * kPitch) + kPitch) {}
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;
  static int64_t ScratchBytes() { return Scratch::Piece(kRows * kPitch * SizeOf(DType::kF32)); }

 private:
  // One before and after: vectors reach over.
  static constexpr int64_t kRows = 1 + SoftmaxCore::kTile + kRounding + 1;
  static constexpr int64_t kPitch = SoftmaxCore::kTile + kKeyBlock + 2 * kPanel + 16;

  int64_t Place(int64_t position) const { return place_ ? place_(position) : position; }
  void MarkRun(const BiasBlock& block, std::span<SoftmaxRow> rows, int64_t first, int64_t place) const;

  const RelativeTable& table_;
  int head_;
  Rows q_;
  std::function<int64_t(int64_t)> place_;
  float* products_;
};

void RelativeBias::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  for (size_t row = 0, end; row < rows.size(); row = end) {
    const int64_t place = Place(block.positions[row]);
    for (end = row + 1; end < rows.size(); ++end) {
      if (Place(block.positions[end]) != place + static_cast<int64_t>(end - row)) break;
    }
    MarkRun(block, rows.subspan(row, end - row), static_cast<int64_t>(row), place);
  }
}

// Rows from the tile's row `first` on, which stand at `place`, `place` + 1, ...
void RelativeBias::MarkRun(const BiasBlock& block, std::span<SoftmaxRow> rows, int64_t first,
                           int64_t place) const {
  const int64_t last = table_.places() - 1, count = std::ssize(rows);
  // The column of the key in the block's column 0, for the run's first row.
  const int64_t column = last - place + block.base;
  const int64_t begin = RoundDown(std::clamp<int64_t>(column - (count - 1) + block.begin, 0, last), kPanel);
  const int64_t end = std::clamp<int64_t>(column + block.end - 1, 0, last);
  float* products = products_ + first * kPitch;
  const MicroKernel* kernel = MicroKernel::Get({.a = q_.dtype,
                                                .m = RoundRows(static_cast<int>(count)),
                                                .n = kPanel,
                                                .k = static_cast<int>(q_.cols),
                                                .lda = q_.stride,
                                                .ldb = kPanel,
                                                .ldc = kPitch});
  for (int64_t c = begin; c <= end; c += kPanel)
    kernel->Run(q_.at(block.first_row + first), table_.Panel(head_, c), products + c - begin);
  for (int64_t r = 0; r < count; ++r) {
    rows[r].bias = products + r * kPitch + column - r - begin;
    rows[r].bias_offset = 0;
  }
}

}  // namespace

RelativeTable::RelativeTable(const PatternOptions& heads, const RelativeOptions& options, const Product& r,
                             DType type)
    : places_(RoundUp(options.reach, kPanel)),
      held_(Held(options)),
      panel_bytes_(PanelBytes(heads, type)),
      panels_(Buffer::Zeros(Bytes(heads, options, type))) {
  const int64_t width = r.weight.dim(0), dim = heads.head_dim;
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
    Scale(static_cast<float>(heads.scale * std::numbers::log2e), rows.As<float>());
    Convert(rows, typed);
    for (int head = 0; head < heads.heads; ++head) {
      PackColumns(typed.Cols(head * dim, dim), 0, kPanel, const_cast<void*>(Panel(head, column)));
    }
  }
}

int64_t RelativeTable::Bytes(const PatternOptions& heads, const RelativeOptions& options, DType type) {
  return heads.heads * Held(options) / kPanel * PanelBytes(heads, type);
}

RelativeOptions ReadRelativeOptions(const AttentionSetting& setting, const PatternOptions& heads,
                                    const std::string& what, int64_t reach, JsonFields& fields) {
  const int64_t clamp = fields.Int("clamp_length", 0, 0, kMostSpan);
  const RelativeOptions options{.reach = reach, .clamp = clamp == 0 ? reach : clamp};
  if (!setting.causal || setting.cross)
    fields.Fail("a memory looks back: this attention is for decoders only");
  if (setting.width % 2 != 0) {
    fields.Fail(Cat("hidden_size ", setting.width, " is odd, and relative positions are sines and cosines"));
  }
  const int64_t bytes = RelativeTable::Bytes(heads, options, ActivationType(setting.precision));
  if (bytes > kMostTableBytes) {
    fields.Fail(Cat(what, " makes a table of ", bytes, " bytes, and ", kMostTableBytes,
                    " are the most; a clamp_length makes it smaller"));
  }
  return options;
}

absl::StatusOr<RelativePositions> RelativePositions::Load(const AttentionSetting& setting,
                                                          const PatternOptions& heads,
                                                          const RelativeOptions& options,
                                                          const WeightScope& scope) {
  const DType type = ActivationType(setting.precision);
  const std::vector<int64_t> shape = {heads.heads, heads.head_dim};
  ASSIGN_OR_RETURN(Product r, LoadProduct(scope, "r", setting.width, setting.width));
  ASSIGN_OR_RETURN(std::vector<float> u, scope.Floats("pos_bias_u", shape));
  ASSIGN_OR_RETURN(std::vector<float> v, scope.Floats("pos_bias_v", shape));
  return RelativePositions(std::move(u), std::move(v), RelativeTable(heads, options, r, type), heads.head_dim,
                           type);
}

Rows WithBias(const Rows& q, const float* bias, Scratch& scratch) {
  const int64_t pitch = RoundUp(q.cols, 16), bytes = (q.rows + kRounding) * pitch * SizeOf(q.dtype);
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

int64_t WithBiasScratchBytes(DType type, int64_t head_dim) {
  return Scratch::Piece((SoftmaxCore::kTile + kRounding) * RoundUp(head_dim, 16) * SizeOf(type)) +
         Scratch::Piece(SoftmaxCore::kTile * head_dim * SizeOf(DType::kF32));
}

std::unique_ptr<ScoreBias> RelativePositions::Bias(int head, const Rows& for_positions,
                                                   std::function<int64_t(int64_t)> place,
                                                   Scratch& scratch) const {
  return std::make_unique<RelativeBias>(table_, head, for_positions, std::move(place), scratch);
}

int64_t RelativePositions::ScratchBytes(int sources, int64_t attending) const {
  constexpr int64_t kRows = SoftmaxCore::kTile;
  const int64_t biased = (kRows + kRounding) * RoundUp(head_dim_, 16) * SizeOf(type_),
                wide = Scratch::Piece(kRows * head_dim_ * SizeOf(DType::kF32));
  return 2 * Scratch::Piece(biased) + std::max(wide, sources * RelativeBias::ScratchBytes() + attending);
}

RelativeAttention::RelativeAttention(const AttentionSetting& setting, PatternOptions options,
                                     std::vector<Product> products, RelativePositions relative)
    : PatternAttention(setting, std::move(options), std::move(products)), relative_(std::move(relative)) {
  constant_bytes_ += relative_.bytes();
}

int64_t RelativeAttention::ScratchBytes() const {
  const size_t sources = pattern(0).sets().size() + (options().constant.empty() ? 0 : 1);
  return relative_.ScratchBytes(static_cast<int>(sources), PatternAttention::ScratchBytes());
}

void RelativeAttention::Prepare(const AttentionRows&, const Tile& tile, SoftmaxQueries& queries,
                                std::vector<KeySource>& sources,
                                std::vector<std::unique_ptr<ScoreBias>>& biases, Scratch& scratch) const {
  const Rows q = queries.q;
  queries.q = relative_.ForKeys(tile.head, q, scratch);
  const Rows for_positions = relative_.ForPositions(tile.head, q, scratch);
  for (int set = 0; set < std::ssize(sources); ++set) {
    biases.push_back(relative_.Bias(tile.head, for_positions, Places(set), scratch));
    sources[set].bias = biases.back().get();
  }
}

}  // namespace heed
