// "relative_memory": Transformer-XL (Dai et al. 2019). Segments of a text remember the ones before, so what
// counts is how far back a key is, not where it stands. Token i sees the `memory` newest, itself included:
//   score(i, j) = ((q_i + u) . k_j + (q_i + v) . (Wr R_t)) / sqrt(head_dim),  t = min(i - j, clamp_length)
//   R_t = [sin(t f_0), ..., cos(t f_0), ...],  f_c = 10000^(-2c / width)
// Options: memory; clamp_length (none); same_length (true, the only form: with it a token's result does not
//   depend on where segments end).
// Tensors: q, k, v, r; pos_bias_u, pos_bias_v [heads, head_dim].
//
// The paper keeps the layer's inputs of the last segments; their keys and values give the same numbers for
// less work. Wr R is the same for all texts, a table made at load.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/key_value_pages.h"
#include "engine/attention/softmax_core.h"
#include "engine/base/status.h"
#include "engine/ops/pack.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kMostMemory = 1 << 16;  // the table holds a row for each
constexpr int64_t kPanel = kSoftmaxPiece;

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

struct Options {
  int heads = 1;
  int64_t head_dim = 0;
  int64_t memory = 0;
  int64_t clamp = 0;  // the farthest distance that is told from others
  double scale = 1;
  std::vector<float> u, v;  // [heads, head_dim]
};

// Wr R_t, times scale * log2(e) as biases are, packed for the micro-kernel. Column c is the distance
// places() - 1 - c, so that keys and columns ascend together.
class RelativeTable {
 public:
  RelativeTable(const Options& options, const Product& r, DType type);
  int64_t places() const { return places_; }
  int64_t bytes() const { return static_cast<int64_t>(panels_.size()); }
  const void* Panel(int head, int64_t column) const {
    return panels_.as<char>() + (head * places_ + column) / kPanel * panel_bytes_;
  }

 private:
  int64_t places_;
  int64_t panel_bytes_;
  Buffer panels_;  // [heads][places / kPanel]
};

// R_t for t = places - 1, ..., 0.
Buffer Sinusoids(int64_t places, int64_t clamp, int64_t width) {
  Buffer rows(places * width * sizeof(float));
  for (int64_t c = 0; c < width / 2; ++c) {
    const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(c) / static_cast<double>(width));
    for (int64_t row = 0; row < places; ++row) {
      const double angle = static_cast<double>(std::min(places - 1 - row, clamp)) * frequency;
      rows.as<float>()[row * width + c] = static_cast<float>(std::sin(angle));
      rows.as<float>()[row * width + width / 2 + c] = static_cast<float>(std::cos(angle));
    }
  }
  return rows;
}

RelativeTable::RelativeTable(const Options& options, const Product& r, DType type)
    : places_(RoundUp(options.memory, kPanel)),
      panel_bytes_(kPanel * RoundUp(options.head_dim * SizeOf(type), 4)),
      panels_(Buffer::Zeros(options.heads * (places_ / kPanel) * panel_bytes_)) {
  const int64_t width = r.weight.dim(0), dim = options.head_dim;
  const PackedWeights weights = PackedWeights::Pack({{r.weight, r.bias}}, Precision::kF32);
  Buffer sinusoids = Sinusoids(places_, options.clamp, width);
  Buffer projected(kPanel * width * sizeof(float)), rounded(kPanel * width * SizeOf(type));
  const Rows rows{DType::kF32, projected.as<float>(), kPanel, width, width};
  const Rows typed{type, rounded.as<void>(), kPanel, width, width};
  Scratch scratch;
  Team alone;
  for (int64_t column = 0; column < places_; column += kPanel) {
    const Rows input{DType::kF32, sinusoids.as<float>() + column * width, kPanel, width, width};
    Gemm(alone, {input}, weights, {.out = rows}, scratch);
    scratch.Reset();
    Scale(static_cast<float>(options.scale * std::numbers::log2e), rows.As<float>());
    Convert(rows, typed);
    for (int head = 0; head < options.heads; ++head) {
      PackColumns(typed.Cols(head * dim, dim), 0, kPanel, const_cast<void*>(Panel(head, column)));
    }
  }
}

class RelativeMemoryAttention : public Attention {
 public:
  RelativeMemoryAttention(const AttentionSetting& setting, Options options, std::vector<Product> products,
                          const Product& r);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  double Cost(int64_t n) const override;
  int64_t ScratchBytes(int64_t rows) const override;

  const Options& options() const { return options_; }
  const SoftmaxCore& core() const { return core_; }
  const RelativeTable& table() const { return table_; }

 private:
  Options options_;
  SoftmaxCore core_;
  RelativeTable table_;
};

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

class Run : public AttentionRun {
 public:
  explicit Run(const RelativeMemoryAttention& attention)
      : attention_(&attention),
        heads_(attention.options().heads, {attention.core().type(), attention.options().head_dim}) {}
  void Extend(const AttentionRows& rows, int task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override;
  int64_t tokens() const override { return heads_.front().end(); }

 private:
  const RelativeMemoryAttention* attention_;
  std::vector<KeyValuePages> heads_;
};

// q + bias, with room for the micro-kernel's rounding.
Rows Biased(const Rows& q, const float* bias, Scratch& scratch) {
  const int64_t pitch = RoundUp(q.cols, 16), bytes = (q.rows + 8) * pitch * SizeOf(q.dtype);
  const Rows sum{q.dtype, scratch.Take<char>(bytes), q.rows, q.cols, pitch};
  std::memset(sum.data, 0, bytes);
  const ScratchFrame frame(scratch);
  const Rows wide{DType::kF32, scratch.Take<float>(kGrid * q.cols), kGrid, q.cols, q.cols};
  for (int64_t first = 0; first < q.rows; first += kGrid) {
    const int64_t count = std::min(kGrid, q.rows - first);
    const Rows part = wide.Slice(0, count);
    Convert(q.Slice(first, count), part);
    for (int64_t r = 0; r < count; ++r) {
      float* row = part.As<float>().row(r);
      for (int64_t c = 0; c < q.cols; ++c) row[c] += bias[c];
    }
    Convert(part, sum.Slice(first, count));
  }
  return sum;
}

void Run::Extend(const AttentionRows& rows, int head, Scratch& scratch) {
  const Options& o = attention_->options();
  const auto of_head = [&](const Rows& all) { return all.Cols(head * o.head_dim, o.head_dim); };
  KeyValuePages& pages = heads_[head];
  pages.Append(of_head(rows.products[1]), of_head(rows.products[2]));
  const Rows q = of_head(rows.products[0]);
  SoftmaxQueries queries;
  queries.q = Biased(q, o.u.data() + head * o.head_dim, scratch);
  queries.out = of_head(rows.out);
  queries.first = rows.first;
  const RelativePositions positions(attention_->table(), head,
                                    Biased(q, o.v.data() + head * o.head_dim, scratch), scratch);
  const KeySource source{.pages = &pages, .left = o.memory - 1, .right = 0, .bias = &positions};
  attention_->core().Attend(queries, {&source, 1}, scratch);
  pages.DropBefore(WindowBegin(o.memory, pages.end()));
}

void Run::Archive(StateArchive& archive) {
  int64_t tokens = this->tokens();
  archive.Number(tokens, 0, kMostTokens);
  for (KeyValuePages& pages : heads_) {
    pages.Archive(archive, WindowBegin(attention_->options().memory, tokens), tokens);
  }
}

RelativeMemoryAttention::RelativeMemoryAttention(const AttentionSetting& setting, Options options,
                                                 std::vector<Product> products, const Product& r)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim, options_.scale),
      table_(options_, r, core_.type()) {
  products_ = std::move(products);
  out_width_ = setting.width;
  tasks_ = options_.heads;
  constant_bytes_ = table_.bytes();
}

std::unique_ptr<AttentionRun> RelativeMemoryAttention::Start() const { return std::make_unique<Run>(*this); }

int64_t RelativeMemoryAttention::StateBytes(int64_t tokens) const {
  const int64_t kept = WindowKeeps(options_.memory, tokens);
  return sizeof(int64_t) + options_.heads * KeyValuePages::Bytes(core_.type(), options_.head_dim, 0, kept);
}

// Three products of head_dim for each pair: with the key, with the position, with the value.
double RelativeMemoryAttention::Cost(int64_t n) const {
  const double length = n, seen = std::min(n, options_.memory);
  return 3 * (seen * (seen + 1) / 2 + (length - seen) * seen) * out_width_;
}

// The rows with either bias, and then what the biases are added in, or what attending takes.
int64_t RelativeMemoryAttention::ScratchBytes(int64_t rows) const {
  const int64_t dim = options_.head_dim, biased = (rows + 8) * RoundUp(dim, 16) * SizeOf(core_.type());
  return 2 * Scratch::Piece(biased) + std::max(Scratch::Piece(kGrid * dim * SizeOf(DType::kF32)),
                                               RelativePositions::ScratchBytes() + core_.ScratchBytes());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRelativeMemoryAttention(const AttentionSetting& setting,
                                                                      JsonFields& fields,
                                                                      const WeightScope& scope) {
  Options options;
  options.heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
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
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  ASSIGN_OR_RETURN(Product r, LoadProduct(scope, "r", setting.width, setting.width));
  ASSIGN_OR_RETURN(options.u, scope.Floats("pos_bias_u", {options.heads, options.head_dim}));
  ASSIGN_OR_RETURN(options.v, scope.Floats("pos_bias_v", {options.heads, options.head_dim}));
  return std::make_unique<RelativeMemoryAttention>(setting, std::move(options), std::move(products), r);
}

}  // namespace heed
