// "linformer": Linformer (Wang et al. 2020): the n keys and values of a head are mixed into k, of which every
// row sees all, so that work grows as n k.
//   softmax(Q (E K)' / sqrt(head_dim)) (F V),  E, F the first n columns of [k, n_max]
// Options: k; n_max, the longest sequence; k n_max at most 2^28, so that E is 1 GiB; sharing: "headwise", one
//   E and one F for all heads; "key-value", E is F too; "none", each head has its own.
// Tensors: q, k, v; e, f [k, n_max], of each head [heads, k, n_max] with "none"; no f with "key-value".
// Encoder only: E and F mix later tokens into every projected row, so that a decoder would see the future.
// State: k keys and values a head.
//
// Sums over the sequence are f32, in blocks of kGrid rows, and are rounded once.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/attention/few_keys.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostPositions = 1 << 20;
constexpr int64_t kMostWeights = 1 << 28;  // k n_max, of one E or F
// Columns of keys or values that one task projects, and rows of E at most: so few that, whatever n_max and
// the width are, eight rows of E are no long task.
constexpr int64_t kPanel = 64, kProjected = 128;
// Rows of a sequence that the micro-kernel sums come in multiples of this, zeros included, so that few shapes
// occur.
constexpr int64_t kPiece = 32;
constexpr int64_t kKept = 8 * FewKeysRun::kWritten;  // projected rows that one task makes keys and values

enum Side : int { kKeys, kValues };

struct LinformerOptions {
  int64_t head_dim = 0;
  int64_t k = 0, n_max = 0;
  bool per_head = false;   // an E and F for each head
  bool key_value = false;  // E is F too
};

// E or F, in the type of its products: a matrix [k, n_max] for all heads' columns, or one for each head's.
// Zeros follow each row up to whole pieces; no row's length is a power of two.
class Projection {
 public:
  Projection() = default;
  Projection(const Tensor& tensor, const LinformerOptions& options, DType type);
  Rows of(int64_t group) const { return rows_.Slice(group * k_, k_); }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  int64_t k_ = 0;
  Buffer memory_;
  Rows rows_;
};

Projection::Projection(const Tensor& tensor, const LinformerOptions& options, DType type) : k_(options.k) {
  const int64_t n_max = options.n_max, rows = tensor.size() / n_max, stride = RoundUp(n_max, kPiece) + kPiece;
  memory_ = Buffer::Zeros(rows * stride * SizeOf(type));
  rows_ = {type, memory_.as<char>(), rows, n_max, stride};
  std::vector<float> row(n_max);
  for (int64_t r = 0; r < rows; ++r) {
    ToFloats(tensor, r * n_max, n_max, row.data());
    Convert({DType::kF32, row.data(), 1, n_max, n_max}, rows_.Slice(r, 1));
  }
}

// ------------------------------------------------------------------------------------------- the attention

class LinformerAttention : public FewKeysAttention {
 public:
  LinformerAttention(const AttentionSetting& setting, const LinformerOptions& options, Projection e,
                     Projection f, std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t Keys(int64_t tokens) const override { return tokens > 0 ? k() : 0; }
  int64_t StateBytes(int64_t tokens) const override { return KeyBytes(tokens) + SumsBytes(); }
  // A row's key and value go into k sums each, and it attends to as many.
  double Cost(int64_t rows, int64_t tokens) const override {
    return 2 * RowCost(tokens) * static_cast<double>(rows * heads());
  }
  int64_t ScratchBytes() const override {
    return std::max(
        {Scratch::Piece(kGrid * kPanel * SizeOf(core().type())), WriteScratchBytes(), core().ScratchBytes()});
  }

  int64_t k() const { return options_.k; }
  // Columns of keys and of values that one E and F projects.
  int64_t groups() const { return options_.per_head ? heads() : 1; }
  int64_t group_columns() const { return out_width_ / groups(); }
  Rows projection(int side, int64_t group) const {
    return side == kValues && !options_.key_value ? f_.of(group) : e_.of(group);
  }
  // Projected rows, a matrix for each side of each group; with room for what the micro-kernel rounds up to,
  // and no power of two.
  int64_t sums_stride() const { return RoundUp(group_columns(), 16) + 16; }
  int64_t SumsBytes() const { return 2 * groups() * k() * sums_stride() * SizeOf(DType::kF32); }

 private:
  LinformerOptions options_;
  Projection e_, f_;
};

LinformerAttention::LinformerAttention(const AttentionSetting& setting, const LinformerOptions& options,
                                       Projection e, Projection f, std::vector<Product> products)
    : FewKeysAttention(setting, options.head_dim, std::move(products)),
      options_(options),
      e_(std::move(e)),
      f_(std::move(f)) {
  max_tokens_ = options.n_max;
  constant_bytes_ = e_.bytes() + f_.bytes();
}

// -------------------------------------------------------------------------------------------- one sequence

class Run : public FewKeysRun {
 public:
  explicit Run(const LinformerAttention& attention) : FewKeysRun(attention), attention_(&attention) {}
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override {
    if (archive.measuring()) archive.Bytes(sums_, static_cast<int64_t>(sums_.size()));
    FewKeysRun::Archive(archive);
  }

 private:
  std::vector<AttentionStage> Plan() override;
  // Projects, then keeps.
  void Make(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override {
    return stage == 0 ? Project(rows, task, scratch) : Keep(task, scratch);
  }
  Matrix<float> Sums(int side, int64_t group);
  Rows HeadSums(int side, int64_t head);
  void Project(const AttentionRows& rows, int64_t task, Scratch& scratch);
  void Keep(int64_t task, Scratch& scratch);

  const LinformerAttention* attention_;
  Buffer sums_;             // of both sides and all groups
  int64_t projecting_ = 1;  // rows of E of a task
};

std::vector<AttentionStage> Run::Plan() {
  const LinformerAttention& a = *attention_;
  sums_ = Buffer::Lasting(a.SumsBytes());
  const int64_t dim = a.core().head_dim(), panels = Quotient(a.group_columns(), kPanel);
  const double sum_cost = static_cast<double>(tokens() * std::min(kPanel, RoundUp(a.group_columns(), 16)));
  projecting_ = std::min({static_cast<int64_t>(kTaskCost / sum_cost) / 8 * 8, kProjected, a.k()});
  return {
      {2 * a.groups() * panels * Quotient(a.k(), projecting_), sum_cost * static_cast<double>(projecting_)},
      {a.heads() * Quotient(a.k(), kKept), kMoved * static_cast<double>(2 * std::min(a.k(), kKept) * dim)}};
}

Matrix<float> Run::Sums(int side, int64_t group) {
  const int64_t k = attention_->k(), stride = attention_->sums_stride();
  return {sums_.as<float>() + (side * attention_->groups() + group) * k * stride, k,
          attention_->group_columns(), stride};
}

Rows Run::HeadSums(int side, int64_t head) {
  const int64_t dim = attention_->core().head_dim(), column = head * dim;
  const int64_t group = column / attention_->group_columns();
  const Matrix<float> sums = Sums(side, group).Cols(column % attention_->group_columns(), dim);
  return {DType::kF32, sums.data, sums.rows, sums.cols, sums.stride};
}

// B of a product that sums over so many rows: with zeros behind them, up to whole pieces.
void Pack(const Rows& rows, int64_t width, char* packed) {
  PackRows(rows, 0, width, packed);
  const int64_t packed_rows = rows.dtype == DType::kBf16 ? RoundUp(rows.rows, 2) : rows.rows;
  const int64_t bytes = width * SizeOf(rows.dtype);
  std::memset(packed + packed_rows * bytes, 0, (RoundUp(rows.rows, kPiece) - packed_rows) * bytes);
}

// Some rows of E times a panel of keys, or of F times one of values.
void Run::Project(const AttentionRows& rows, int64_t task, Scratch& scratch) {
  const LinformerAttention& a = *attention_;
  const int64_t tiles = Quotient(a.k(), projecting_), panels = Quotient(a.group_columns(), kPanel);
  const int64_t first = task % tiles * projecting_, column = task / tiles % panels * kPanel;
  const int64_t group = task / tiles / panels % a.groups();
  const int side = static_cast<int>(task / tiles / panels / a.groups());
  const int64_t count = std::min(projecting_, a.k() - first),
                columns = std::min(kPanel, a.group_columns() - column);

  const Rows given = rows.products[1 + side].Cols(group * a.group_columns() + column, columns);
  const Rows projection = a.projection(side, group).Slice(first, count);
  const Matrix<float> sums = Sums(side, group).Rows(first, count).Cols(column, RoundUp(columns, 16));
  char* packed = scratch.Take<char>(kGrid * kPanel * SizeOf(given.dtype));
  for (int64_t row = 0; row < rows.count; row += kGrid) {
    const int64_t block = std::min(kGrid, rows.count - row);
    Pack(given.Slice(row, block), sums.cols, packed);
    MicroKernel::Multiply(projection.Cols(row, RoundUp(block, kPiece)), packed, sums.cols, sums, row > 0);
  }
}

void Run::Keep(int64_t task, Scratch& scratch) {
  const int64_t cuts = Quotient(attention_->k(), kKept), head = task / cuts, first = task % cuts * kKept;
  const int64_t count = std::min(kKept, attention_->k() - first);
  Write(static_cast<int>(head), first, HeadSums(kKeys, head).Slice(first, count),
        HeadSums(kValues, head).Slice(first, count), scratch);
}

std::unique_ptr<AttentionRun> LinformerAttention::Start() const { return std::make_unique<Run>(*this); }

// --------------------------------------------------------------------------------- its options and tensors

absl::StatusOr<LinformerOptions> ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  RefuseAllButEncoders(setting, "linformer", "E and F mix later tokens into every projected row", fields);
  LinformerOptions options;
  options.head_dim = HeadDim(setting, fields);
  options.n_max = fields.RequiredInt("n_max", 1, kMostPositions);
  options.k = fields.RequiredInt("k", 1, kMostPositions);
  if (options.k * options.n_max > kMostWeights) {
    fields.Fail(Cat("k: ", options.k, " of n_max ", options.n_max, " makes ", options.k * options.n_max,
                    " weights, above ", kMostWeights));
  }
  if (!fields.Has("sharing")) fields.Fail("sharing is missing");
  const std::string sharing = fields.Choice("sharing", {"headwise", "key-value", "none"});
  options.per_head = sharing == "none";
  options.key_value = sharing == "key-value";
  RETURN_IF_ERROR(fields.Finish());
  return options;
}

absl::StatusOr<Projection> LoadProjection(const WeightScope& scope, const char* name,
                                          const LinformerOptions& options, const AttentionSetting& setting) {
  std::vector<int64_t> shape = {options.k, options.n_max};
  if (options.per_head) shape.insert(shape.begin(), setting.num_heads);
  ASSIGN_OR_RETURN(const Tensor tensor, scope.Get(name, shape));
  return Projection(tensor, options, ActivationType(setting.precision));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewLinformerAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  ASSIGN_OR_RETURN(const LinformerOptions options, ReadOptions(setting, fields));
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  ASSIGN_OR_RETURN(Projection e, LoadProjection(scope, "e", options, setting));
  Projection f;
  if (!options.key_value) {
    ASSIGN_OR_RETURN(f, LoadProjection(scope, "f", options, setting));
  }
  return std::make_unique<LinformerAttention>(setting, options, std::move(e), std::move(f),
                                              std::move(products));
}

}  // namespace heed
