#include "engine/attention/shaw.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numbers>
#include <utility>

#include "engine/base/round.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kPanel = kSoftmaxPiece;
constexpr int64_t kRoom = 8;  // rows that the micro-kernel may compute beyond a tile's
// Distances between rows, no power of two: they do not meet in one cache set.
constexpr int64_t kSpreadPitch = kKeyBlock + 16;

// [columns, head_dim] of a head, in the type of activations.
void ConvertTable(const std::vector<float>& from, int64_t first, const Rows& to) {
  Convert({DType::kF32, const_cast<float*>(from.data()) + first * to.cols, to.rows, to.cols, to.cols}, to);
}

// What the vectors bring to one tile of rows. Rows that read one table are a group: all, or those of a head.
class ShawTile : public ScoreBias {
 public:
  // `other`: a bias by distance beside it, or null.
  ShawTile(const ShawVectors& vectors, const SoftmaxQueries& queries, const ScoreBias* other,
           Scratch& scratch);
  static int64_t ScratchBytes(const ShawVectors& vectors, int group, int64_t head_dim, DType type);
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override;
  void AddResults(const BiasBlock& block, const Rows& weights, Matrix<float> results) const override;

 private:
  // How a row's distances to the keys of a block lie in the table: the key in the block's column c has the
  // table's column c + shift; those up to `near` share the first, those from `far` on the last.
  struct Place {
    int64_t shift;
    int near, far;  // columns of the block
  };
  Place PlaceOf(const BiasBlock& block, size_t row) const;
  // The table's columns that the rows' distances to a block fall on.
  Range Columns(const BiasBlock& block) const;
  int groups() const { return vectors_.shared() ? 1 : heads_; }
  const KeyValuePages& Table(int group) const { return vectors_.OfHead(first_head_ + group); }
  // Of the tile's row, q_'s: those of a group lie together.
  int64_t Grouped(int64_t row) const { return row % groups() * (q_.rows / groups()) + row / groups(); }
  void MultiplyKeys(int64_t panel) const;
  void Spread(const BiasBlock& block, const Place& place, const float* products, float* values) const;
  void Fold(const Rows& weights, int64_t row, const BiasBlock& block, int64_t base, Range columns,
            int64_t to) const;
  void MultiplyValues(const KeyValuePages& table, int64_t base, Range columns, Matrix<float> results) const;

  const ShawVectors& vectors_;
  const ScoreBias* other_;
  int heads_, first_head_;
  Rows q_;                  // [rows, head_dim], group by group
  Matrix<float> products_;  // [rows, columns], of q_'s rows
  bool* ready_;             // of each panel of products_, whether it was computed
  float* spread_;           // a block's biases; later its weights by distance
};

// ---------------------------------------------------------------------------------------- on the keys

ShawTile::ShawTile(const ShawVectors& vectors, const SoftmaxQueries& queries, const ScoreBias* other,
                   Scratch& scratch)
    : vectors_(vectors), other_(other), heads_(queries.heads), first_head_(queries.first_head) {
  const int64_t rows = queries.q.rows * heads_, dim = queries.q.cols / heads_, pitch = RoundUp(dim, 16);
  const DType type = queries.q.dtype;
  const int64_t bytes = (rows + kRoom) * pitch * SizeOf(type);
  q_ = {type, scratch.Take<char>(bytes), rows, dim, pitch};
  std::memset(q_.data, 0, bytes);  // also behind an odd head_dim
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(q_.at(Grouped(r)), queries.q.at(r / heads_, r % heads_ * dim), dim * SizeOf(type));
  const int64_t columns = RoundUp(vectors.columns(), kPanel) + 16;
  products_ = {scratch.Take<float>((rows + kRoom) * columns), rows, columns, columns};
  const int64_t panels = RoundUp(vectors.columns(), kPanel) / kPanel;
  ready_ = scratch.Take<bool>(panels);
  std::fill_n(ready_, panels, false);
  spread_ = scratch.Take<float>((rows + kRoom) * kSpreadPitch);
}

int64_t ShawTile::ScratchBytes(const ShawVectors& vectors, int group, int64_t head_dim, DType type) {
  const int64_t rows = std::max(SoftmaxCore::kTile, group) + kRoom;
  const int64_t columns = RoundUp(vectors.columns(), kPanel);
  const auto floats = [&](int64_t pitch) { return Scratch::Piece(rows * pitch * SizeOf(DType::kF32)); };
  return Scratch::Piece(rows * RoundUp(head_dim, 16) * SizeOf(type)) + floats(columns + 16) +
         Scratch::Piece(columns / kPanel) + floats(kSpreadPitch);
}

ShawTile::Place ShawTile::PlaceOf(const BiasBlock& block, size_t row) const {
  const int64_t shift = block.base - block.positions[row] + vectors_.clip();
  const auto column = [&](int64_t c) {
    return static_cast<int>(std::clamp<int64_t>(c - shift, block.begin, block.end));
  };
  return {shift, column(1), column(vectors_.columns() - 1)};
}

// Positions ascend.
Range ShawTile::Columns(const BiasBlock& block) const {
  const int64_t last = vectors_.columns() - 1;
  const auto column = [&](int64_t c, int64_t position) {
    return std::clamp<int64_t>(block.base + c - position + vectors_.clip(), 0, last);
  };
  return {column(block.begin, block.positions.back()), column(block.end - 1, block.positions.front()) + 1};
}

// A group's last rows, which the kernel makes up, are written over by the next group's first.
void ShawTile::MultiplyKeys(int64_t panel) const {
  const int64_t rows = q_.rows / groups();
  const MicroKernel* kernel = MicroKernel::Get({.a = q_.dtype,
                                                .m = RoundRows(static_cast<int>(rows)),
                                                .n = kPanel,
                                                .k = static_cast<int>(q_.cols),
                                                .lda = q_.stride,
                                                .ldb = kPanel,
                                                .ldc = products_.stride});
  for (int group = 0; group < groups(); ++group) {
    kernel->Run(q_.at(group * rows), Table(group).Keys(panel * kPanel),
                products_.row(group * rows) + panel * kPanel);
  }
}

void ShawTile::Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const {
  static constexpr std::array<float, kKeyBlock> kZeros{};
  if (other_ != nullptr) other_->Mark(block, rows);
  const Range columns = Columns(block);
  for (int64_t panel = columns.begin / kPanel; panel * kPanel < columns.end; ++panel) {
    if (!ready_[panel]) MultiplyKeys(panel);
    ready_[panel] = true;
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const Place place = PlaceOf(block, r);
    const float* products = products_.row(Grouped(block.first_row + static_cast<int64_t>(r)));
    const bool alike = rows[r].end <= place.near || rows[r].begin >= place.far;
    if (alike && other_ == nullptr) {
      rows[r].bias = kZeros.data();
      rows[r].bias_offset = products[rows[r].end <= place.near ? 0 : vectors_.columns() - 1];
      continue;
    }
    float* values = spread_ + static_cast<int64_t>(r) * kSpreadPitch;
    Spread(block, place, products, values);
    const int64_t width = block.end - block.begin;
    if (other_ != nullptr)
      Add({rows[r].bias + block.begin, 1, width, width}, {values + block.begin, 1, width, width});
    if (other_ == nullptr) rows[r].bias_offset = 0;
    rows[r].bias = values;
  }
}

void ShawTile::Spread(const BiasBlock& block, const Place& place, const float* products,
                      float* values) const {
  std::fill(values + block.begin, values + place.near, products[0]);
  if (place.near < place.far)
    std::copy_n(products + place.near + place.shift, place.far - place.near, values + place.near);
  std::fill(values + place.far, values + block.end, products[vectors_.columns() - 1]);
}

// -------------------------------------------------------------------------------------- on the values

void ShawTile::AddResults(const BiasBlock& block, const Rows& weights, Matrix<float> results) const {
  if (!vectors_.with_values()) return;
  const Range columns = Columns(block);
  for (int64_t base = RoundDown(columns.begin, kKeyBlock); base < columns.end; base += kKeyBlock) {
    const Range part{RoundDown(std::max<int64_t>(columns.begin - base, 0), kPanel),
                     RoundUp(std::min(columns.end - base, kKeyBlock), kPanel)};
    for (int group = 0; group < groups(); ++group) {
      const int64_t first = (group + groups() - block.first_row % groups()) % groups();
      const int64_t count = Quotient(weights.rows - first, groups());
      for (int64_t i = 0; i < count; ++i) Fold(weights, first + i * groups(), block, base, part, i);
      if (count <= 0) continue;
      MultiplyValues(Table(group), base, part,
                     {results.row(first), count, results.cols, results.stride * groups()});
    }
  }
}

// A row's weights by the table's columns [base + columns.begin, base + columns.end), as spread_'s row `to`.
void ShawTile::Fold(const Rows& weights, int64_t row, const BiasBlock& block, int64_t base, Range columns,
                    int64_t to) const {
  const Place place = PlaceOf(block, row);
  char* folded = reinterpret_cast<char*>(spread_) + to * kSpreadPitch * SizeOf(weights.dtype);
  const int64_t size = SizeOf(weights.dtype), last = vectors_.columns() - 1 - base;
  const auto own = [&](int64_t c) { return std::clamp(c + place.shift - base, columns.begin, columns.end); };
  const int64_t begin = own(place.near), end = own(place.far);
  std::memset(folded + columns.begin * size, 0, (begin - columns.begin) * size);
  if (begin < end)
    std::memcpy(folded + begin * size, weights.at(row, begin + base - place.shift), (end - begin) * size);
  std::memset(folded + end * size, 0, (columns.end - end) * size);
  const auto put = [&](int64_t column, int first_key, int end_key) {
    const float sum = SumWeights(weights, row, first_key, end_key);
    const Bf16 rounded = ToBf16(sum);
    std::memcpy(folded + column * size,
                weights.dtype == DType::kF32 ? static_cast<const void*>(&sum) : &rounded, size);
  };
  if (base == 0 && columns.begin == 0) put(0, block.begin, place.near);
  if (last >= columns.begin && last < columns.end) put(last, place.far, block.end);
}

// Rows of one head among others are computed exactly, not rounded: what lies between them is others'.
void ShawTile::MultiplyValues(const KeyValuePages& table, int64_t base, Range columns,
                              Matrix<float> results) const {
  const auto rows = static_cast<int>(results.rows);
  const char* folded = reinterpret_cast<const char*>(spread_) + columns.begin * SizeOf(q_.dtype);
  for (int64_t c = 0; c < table.value_columns(); c += KeyValuePages::kValuePanel) {
    std::array<MicroKernel::Offsets, kKeyBlock / kPanel> offsets;
    const auto* values = static_cast<const char*>(table.Values(base + columns.begin, c));
    int pieces = 0;
    for (int64_t column = columns.begin; column < columns.end; column += kPanel) {
      const auto* piece = static_cast<const char*>(table.Values(base + column, c));
      offsets[pieces++] = {(column - columns.begin) * SizeOf(q_.dtype), piece - values};
    }
    const MicroKernel* kernel = MicroKernel::Get({.a = q_.dtype,
                                                  .m = groups() == 1 ? RoundRows(rows) : rows,
                                                  .n = static_cast<int>(table.PanelWidth(c)),
                                                  .k = static_cast<int>(kPanel),
                                                  .batch = pieces,
                                                  .lda = kSpreadPitch,
                                                  .ldb = table.PanelWidth(c),
                                                  .ldc = results.stride,
                                                  .add = true});
    kernel->Run(folded, values, offsets.data(), results.data + c);
  }
}

}  // namespace

// ------------------------------------------------------------------------------------ what is shared

ShawVectors::ShawVectors(const PatternOptions& options, DType type, const Tables& tables)
    : clip_(tables.clip), with_values_(!tables.values.empty()) {
  const int64_t dim = options.head_dim, all = 2 * clip_ + 1, kept = tables.ahead ? all : clip_ + 1;
  std::vector<float> scaled = tables.keys;
  for (float& x : scaled) x *= static_cast<float>(options.scale * std::numbers::log2e);
  Buffer memory(2 * kept * dim * SizeOf(type));
  const Rows keys{type, memory.as<char>(), kept, dim, dim}, values{type, keys.at(kept), kept, dim, dim};
  for (int head = 0; head < tables.heads; ++head) {
    ConvertTable(scaled, head * all, keys);
    if (with_values_) ConvertTable(tables.values, head * all, values);
    heads_.emplace_back(type, dim).Append(keys, with_values_ ? values : keys);
  }
}

int64_t ShawVectors::bytes() const {
  const KeyValuePages& one = heads_.front();
  return std::ssize(heads_) * KeyValuePages::Bytes(one.type(), one.head_dim(), 0, one.end());
}

ShawAttention::ShawAttention(const AttentionSetting& setting, PatternOptions options,
                             std::vector<Product> products, ShawVectors vectors)
    : PatternAttention(setting, std::move(options), std::move(products)), vectors_(std::move(vectors)) {
  constant_bytes_ = vectors_.bytes();
}

// Of each row, beside its pairs, the distances that it meets, each once: with one table or with both.
double ShawAttention::Cost(int64_t rows, int64_t tokens) const {
  const BandPattern near({.left = vectors_.clip(), .right = vectors_.ahead() ? vectors_.clip() : 0});
  const double pairs = pattern(0).Pairs(rows, tokens),
               distances = std::min(pairs, near.Pairs(rows, tokens)) * (vectors_.with_values() ? 1 : 0.5);
  return (pairs + distances) * options().heads * PatternAttention::PairCost();
}

int64_t ShawAttention::ScratchBytes() const {
  return ShawTile::ScratchBytes(vectors_, group(), core().head_dim(), core().type()) +
         PatternAttention::ScratchBytes();
}

void ShawAttention::Prepare(const AttentionRows&, const Tile&, SoftmaxQueries& queries,
                            std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
                            Scratch& scratch) const {
  KeySource& all = sources.front();
  biases.push_back(std::make_unique<ShawTile>(vectors_, queries, all.bias, scratch));
  all.bias = biases.back().get();
}

}  // namespace heed
