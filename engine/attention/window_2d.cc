// "window_2d": attention in shifted windows of a grid (Swin Transformer, Liu et al. 2021), whose rows come in
// raster order: a row meets those of its window, in the scale 1 / sqrt(head_dim), with a learned bias for
// where they stand to one another.
//   score(i, j) = q_i . k_j / sqrt(head_dim) + relative_bias[(dy + M - 1) (2 M - 1) + dx + M - 1, head]
//   dy, dx: lines and columns from key j to row i
// Options:
//   window M, 256 at most; shift s (0), below 2 M, where M or more shift as s - M does; relative_bias (true)
//   height and width: of the grid, the model's own where the layer has none. In an encoder of images the
//     grid is the image's, of any size.
// Tensors: q, k, v; relative_bias [(2 M - 1)^2, heads], M as the grid has it.
// A grid that is no wider, or no higher, than M has windows of its shorter side, and no shift. Where a window
// reaches beyond the grid, or beyond the last row, rows of zeros fill it: their keys and values are the
// biases.
//
// Encoder only: a window's rows see one another. State: none; work grows as n M^2.
//
// grid_windows.h says where windows lie. Those of one shape have the same biases, which are laid out once for
// several of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/attention/few_keys.h"
#include "engine/attention/grid_windows.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"
#include "engine/ops/softmax.h"

namespace heed {
namespace {

constexpr int64_t kMostWindow = 256;
constexpr int64_t kMostRows = int64_t{1} << 31;
constexpr int64_t kTile = 128;  // cells of a window whose rows attend together
constexpr int64_t kKeys = 512;  // keys that they read at once
// Multiply-adds of the windows that a task attends to, one after another, if none of them alone has more.
constexpr double kTogether = 1 << 22;

// ------------------------------------------------------------------------------------------- the attention

struct WindowOptions {
  DType type = DType::kF32;
  int heads = 1;
  int64_t head_dim = 1;
  int64_t window = 1, shift = 0;
  ImageSize grid;
  bool image = false;     // rows come with their columns
  bool any_size = false;  // and the grid is only that of most of them
};

// Tasks for windows of a shape: in one head, cells of one tile of some windows.
struct WindowTasks {
  AlikeWindows windows;
  int64_t tile = 1, tiles = 1;  // cells, and how many tiles a window has
  int64_t together = 1;         // windows of a task

  int64_t groups() const { return Quotient(windows.count(), together); }
};

class WindowAttention : public Attention {
 public:
  // biases: [(2 M - 1)^2, heads], or none.
  WindowAttention(const WindowOptions& options, const std::vector<float>& biases,
                  std::vector<Product> products);

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t) const override { return sizeof(int64_t); }  // a counter
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const WindowOptions& options() const { return options_; }
  GridWindows WindowsOf(const AttentionRows& rows) const;
  WindowTasks TasksOf(const AlikeWindows& windows) const;
  double TaskCost(const WindowTasks& tasks) const;

  // Sizes of the largest window's tile and block of keys, and distances between rows.
  int64_t tile() const {
    return RoundRows(static_cast<int>(std::min(kTile, options_.window * options_.window)));
  }
  int64_t keys() const { return RoundUp(std::min(kKeys, options_.window * options_.window), kSoftmaxPiece); }
  int64_t pitch() const { return RoundUp(options_.head_dim, 16); }
  int64_t score_pitch() const { return keys() + 16; }

  // Those of a head, times log2(e), from the last to the first; null: none.
  const float* Biases(int head) const { return biases_.empty() ? nullptr : &biases_[head * bias_count_]; }
  int64_t bias_count() const { return bias_count_; }
  // What fills a window, of a head.
  const void* FilledKey(int head) const { return Filled(filled_, head); }
  const void* FilledValue(int head) const { return Filled(filled_, options_.heads + head); }

 private:
  const void* Filled(const Buffer& buffer, int64_t part) const {
    return buffer.as<char>() + part * options_.head_dim * SizeOf(options_.type);
  }
  void KeepBias(const Product& product, int64_t part);
  double RowCost(double cells) const { return 2 * cells * static_cast<double>(options_.head_dim); }

  WindowOptions options_;
  int64_t bias_count_ = 0;  // of a head
  std::vector<float> biases_;
  Buffer filled_;  // keys of all heads, then values
};

WindowAttention::WindowAttention(const WindowOptions& options, const std::vector<float>& biases,
                                 std::vector<Product> products)
    : options_(options),
      bias_count_(std::ssize(biases) / options.heads),
      biases_(biases.size()),
      filled_(Buffer::Zeros(2 * options.heads * options.head_dim * SizeOf(options.type))) {
  for (int64_t i = 0; i < std::ssize(biases); ++i) {
    const int64_t head = i % options.heads, place = i / options.heads;
    biases_[head * bias_count_ + bias_count_ - 1 - place] = biases[i] * kLog2E;
  }
  KeepBias(products[1], 0);
  KeepBias(products[2], options.heads);
  products_ = std::move(products);
  out_width_ = options.heads * options.head_dim;
  decode_ = DecodeClass::kNone;
  max_tokens_ = options.image ? 0 : options.grid.height * options.grid.width;
  constant_bytes_ = std::ssize(biases_) * SizeOf(DType::kF32) + static_cast<int64_t>(filled_.size());
}

void WindowAttention::KeepBias(const Product& product, int64_t part) {
  if (product.bias.data == nullptr) return;
  std::vector<float> bias = ToFloats(product.bias);
  const int64_t n = std::ssize(bias);
  Convert({DType::kF32, bias.data(), 1, n, n},
          {options_.type, const_cast<void*>(Filled(filled_, part)), 1, n, n});
}

GridWindows WindowAttention::WindowsOf(const AttentionRows& rows) const {
  if (!options_.image) return {options_.grid, options_.window, options_.shift};
  CHECK_GT(rows.columns, 0);
  CHECK_EQ(rows.count % rows.columns, 0);
  return {{rows.count / rows.columns, rows.columns}, options_.window, options_.shift};
}

// Few enough cells to a tile that its task is not too long.
WindowTasks WindowAttention::TasksOf(const AlikeWindows& windows) const {
  const int64_t cells = windows.cells();
  const auto rows = static_cast<int64_t>(kTaskCost / RowCost(static_cast<double>(cells)));
  const int64_t most = std::clamp<int64_t>(RoundDown(rows, 8), 8, kTile);
  WindowTasks tasks{.windows = windows};
  tasks.tile = std::min(cells, RoundUp(Quotient(cells, Quotient(cells, most)), 8));
  tasks.tiles = Quotient(cells, tasks.tile);
  tasks.together = std::clamp<int64_t>(static_cast<int64_t>(kTogether / TaskCost(tasks)), 1, windows.count());
  return tasks;
}

double WindowAttention::TaskCost(const WindowTasks& tasks) const {
  const auto cells = static_cast<double>(tasks.windows.cells()), tile = static_cast<double>(tasks.tile);
  const double moved = kMoved * static_cast<double>(options_.head_dim) * (tile + 2 * cells);
  return static_cast<double>(tasks.together) * (tile * RowCost(cells) + moved);
}

double WindowAttention::Cost(int64_t rows, int64_t tokens) const {
  const WindowOptions& o = options_;
  const double head = static_cast<double>(o.heads);
  if (o.any_size) return head * RowCost(static_cast<double>(o.window * o.window)) * static_cast<double>(rows);
  const GridWindows windows(o.grid, o.window, o.shift);
  return head * RowCost(windows.Pairs(tokens) - windows.Pairs(tokens - rows));
}

// ------------------------------------------------------------------------------------------- one task's work

// The rows of one tile of cells, in one head, in windows of one shape. Lives as long as its task.
class WindowTile {
 public:
  struct Place {
    int head = 0;
    Range cells{};  // of each window
  };
  WindowTile(const WindowAttention& attention, const AttentionRows& rows, const GridWindows& windows,
             const Place& place, Scratch& scratch);
  static int64_t ScratchBytes(const WindowAttention& attention);

  void Attend(const GridWindow& window);

 private:
  const WindowOptions& options() const { return attention_.options(); }
  int64_t dim() const { return options().head_dim; }
  Rows OfHead(const Rows& all) const { return all.Cols(place_.head * dim(), dim()); }
  int64_t RowAt(const GridWindow& window, int64_t cell) const;
  void LoadQueries(const GridWindow& window);
  Rows Gather(const GridWindow& window, Range cells, const Rows& all, const void* filled) const;
  void LayOutBiases(const GridWindow& window, Range keys);
  void AttendKeys(const GridWindow& window, Range keys);

  const WindowAttention& attention_;
  const AttentionRows& rows_;
  const GridWindows& windows_;
  Place place_;

  Rows q_;                 // [tile, head_dim], rows that are in the grid first
  Rows gathered_;          // [keys, head_dim]
  void *keys_, *values_;   // packed
  Matrix<float> scores_;   // [tile, keys]
  Rows weights_;           // in f32 the scores' own memory
  Matrix<float> result_;   // [tile, pitch]
  Matrix<float> biases_;   // [cell of the tile, keys]
  Range laid_out_{};       // the keys of the biases
  SoftmaxRow* softmax_;    // [tile]
  int64_t *places_, *at_;  // [tile]: of each query, its cell in the tile and its row
  int64_t queries_ = 0;
};

WindowTile::WindowTile(const WindowAttention& attention, const AttentionRows& rows,
                       const GridWindows& windows, const Place& place, Scratch& scratch)
    : attention_(attention), rows_(rows), windows_(windows), place_(place) {
  const DType type = options().type;
  const int64_t tile = attention.tile(), keys = attention.keys(), pitch = attention.pitch(),
                size = SizeOf(type), wide = attention.score_pitch();
  q_ = {type, scratch.Take<char>(tile * pitch * size), tile, dim(), pitch};
  std::memset(q_.data, 0, tile * pitch * size);  // also behind an odd head_dim, and in rows that are nobody's
  gathered_ = {type, scratch.Take<char>(keys * dim() * size), keys, dim(), dim()};
  keys_ = scratch.Take<char>(RoundUp(dim(), 2) * keys * size);
  values_ = scratch.Take<char>(keys * pitch * size);
  scores_ = {scratch.Take<float>(tile * wide), tile, keys, wide};
  weights_ = {DType::kF32, scores_.data, tile, keys, wide};
  if (type == DType::kBf16) weights_ = {type, scratch.Take<Bf16>(tile * wide), tile, keys, wide};
  result_ = {scratch.Take<float>(tile * pitch), tile, pitch, pitch};
  biases_ = {scratch.Take<float>(tile * wide), tile, keys, wide};
  softmax_ = scratch.Take<SoftmaxRow>(tile);
  places_ = scratch.Take<int64_t>(tile);
  at_ = scratch.Take<int64_t>(tile);
}

int64_t WindowTile::ScratchBytes(const WindowAttention& attention) {
  const int64_t tile = attention.tile(), keys = attention.keys(), pitch = attention.pitch(),
                dim = attention.options().head_dim, size = SizeOf(attention.options().type);
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const auto numbers = [&](int64_t n) { return Scratch::Piece(n * size); };
  return numbers(tile * pitch) + numbers(keys * dim) + numbers(RoundUp(dim, 2) * keys) +
         numbers(keys * pitch) + 2 * floats(tile * attention.score_pitch()) +
         numbers(tile * attention.score_pitch()) + floats(tile * pitch) +
         Scratch::Piece(tile * static_cast<int64_t>(sizeof(SoftmaxRow))) +
         2 * Scratch::Piece(tile * static_cast<int64_t>(sizeof(int64_t)));
}

// -1: the cell is filled.
int64_t WindowTile::RowAt(const GridWindow& window, int64_t cell) const {
  const int64_t column = window.left + cell % window.columns;
  if (column >= windows_.columns()) return -1;
  const int64_t row = (window.top + cell / window.columns) * windows_.columns() + column;
  return row < rows_.count ? row : -1;
}

void WindowTile::LoadQueries(const GridWindow& window) {
  const Rows all = OfHead(rows_.products[0]);
  const size_t bytes = dim() * SizeOf(options().type);
  queries_ = 0;
  for (int64_t cell = place_.cells.begin; cell < place_.cells.end; ++cell) {
    const int64_t row = RowAt(window, cell);
    if (row < 0) continue;
    std::memcpy(q_.at(queries_), all.at(row), bytes);
    places_[queries_] = cell - place_.cells.begin;
    at_[queries_++] = row;
  }
}

Rows WindowTile::Gather(const GridWindow& window, Range cells, const Rows& all, const void* filled) const {
  const size_t bytes = dim() * SizeOf(options().type);
  for (int64_t cell = cells.begin; cell < cells.end; ++cell) {
    const int64_t row = RowAt(window, cell);
    std::memcpy(gathered_.at(cell - cells.begin), row < 0 ? filled : all.at(row), bytes);
  }
  return gathered_.Slice(0, cells.size());
}

// Of a cell the biases of a line of keys lie side by side, since the head's lie from the last to the first. A
// window that is smaller than the options say has the first of them.
void WindowTile::LayOutBiases(const GridWindow& window, Range keys) {
  if (laid_out_.begin == keys.begin && laid_out_.end == keys.end) return;
  laid_out_ = keys;
  const int64_t m = windows_.window(), across = 2 * m - 1, columns = window.columns;
  const float* biases = attention_.Biases(place_.head) + attention_.bias_count() - across * across;
  for (int64_t cell = place_.cells.begin; cell < place_.cells.end; ++cell) {
    float* to = biases_.row(cell - place_.cells.begin);
    for (int64_t key = keys.begin, end; key < keys.end; key = end) {
      end = std::min(RoundDown(key, columns) + columns, keys.end);
      const int64_t line = m - 1 - cell / columns + key / columns,
                    column = m - 1 - cell % columns + key % columns;
      to = std::copy_n(biases + line * across + column, end - key, to);
    }
  }
}

void WindowTile::Attend(const GridWindow& window) {
  LoadQueries(window);
  if (queries_ == 0) return;
  std::fill_n(result_.data, RoundRows(static_cast<int>(queries_)) * result_.stride, 0.0f);
  std::fill_n(softmax_, queries_, SoftmaxRow());
  for (int64_t key = 0; key < window.cells(); key += kKeys)
    AttendKeys(window, {key, std::min(key + kKeys, window.cells())});
  const Rows out = OfHead(rows_.out);
  for (int64_t i = 0; i < queries_; ++i)
    SoftmaxFinish(softmax_[i], result_.row(i), dim(), options().type, out.at(at_[i]));
}

void WindowTile::AttendKeys(const GridWindow& window, Range keys) {
  const int64_t rows = RoundRows(static_cast<int>(queries_)), columns = RoundUp(keys.size(), kSoftmaxPiece);
  PackColumns(Gather(window, keys, OfHead(rows_.products[1]), attention_.FilledKey(place_.head)), 0, columns,
              keys_);
  const Matrix<float> scores = scores_.Rows(0, rows).Cols(0, columns);
  MicroKernel::Multiply(q_.Slice(0, rows), keys_, columns, scores);

  const bool biased = attention_.Biases(place_.head) != nullptr;
  if (biased) LayOutBiases(window, keys);
  for (int64_t i = 0; i < queries_; ++i) {
    softmax_[i].begin = 0;
    softmax_[i].end = static_cast<int>(keys.size());
    softmax_[i].bias = biased ? biases_.row(places_[i]) : nullptr;
  }
  const auto factor = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(dim())));
  SoftmaxStep({scores, factor, 0, static_cast<int>(columns), weights_},
              {softmax_, static_cast<size_t>(queries_)}, result_);

  PackRows(Gather(window, keys, OfHead(rows_.products[2]), attention_.FilledValue(place_.head)), 0,
           result_.cols, values_);
  const int64_t read = options().type == DType::kBf16 ? RoundUp(keys.size(), 2) : keys.size();
  MicroKernel::Multiply(weights_.Slice(0, rows).Cols(0, read), values_, result_.cols, result_.Rows(0, rows),
                        /*add=*/true);
}

int64_t WindowAttention::ScratchBytes() const { return WindowTile::ScratchBytes(*this); }

// ------------------------------------------------------------------------------------------- one sequence

class Run : public AttentionRun {
 public:
  explicit Run(const WindowAttention& attention) : attention_(&attention) {}
  std::vector<AttentionStage> Begin(const AttentionRows& rows) override;
  void Do(const AttentionRows& rows, int stage, int64_t task, Scratch& scratch) override;
  std::unique_ptr<AttentionRun> Clone() const override { return std::make_unique<Run>(*this); }
  void Archive(StateArchive& archive) override { archive.Number(tokens_, 0, kMostRows); }
  int64_t tokens() const override { return tokens_; }

 private:
  int64_t Count(const WindowTasks& tasks) const {
    return attention_->options().heads * tasks.tiles * tasks.groups();
  }

  const WindowAttention* attention_;
  int64_t tokens_ = 0;
  std::vector<WindowTasks> tasks_;  // of the rows at hand
};

std::vector<AttentionStage> Run::Begin(const AttentionRows& rows) {
  CHECK_EQ(tokens_, 0);
  tokens_ = rows.count;
  AttentionStage stage;
  for (const AlikeWindows& windows : attention_->WindowsOf(rows).Cut(rows.count)) {
    tasks_.push_back(attention_->TasksOf(windows));
    stage.tasks += Count(tasks_.back());
    stage.cost = std::max(stage.cost, attention_->TaskCost(tasks_.back()));
  }
  return {stage};
}

void Run::Do(const AttentionRows& rows, int, int64_t task, Scratch& scratch) {
  auto tasks = tasks_.begin();
  for (; task >= Count(*tasks); ++tasks) task -= Count(*tasks);
  const int64_t group = task % tasks->groups(), tile = task / tasks->groups() % tasks->tiles;
  const int head = static_cast<int>(task / tasks->groups() / tasks->tiles);
  const Range cells{tile * tasks->tile, std::min((tile + 1) * tasks->tile, tasks->windows.cells())};
  const GridWindows windows = attention_->WindowsOf(rows);
  WindowTile attending(*attention_, rows, windows, {head, cells}, scratch);
  const int64_t end = std::min((group + 1) * tasks->together, tasks->windows.count());
  for (int64_t i = group * tasks->together; i < end; ++i) attending.Attend(WindowAt(tasks->windows, i));
}

std::unique_ptr<AttentionRun> WindowAttention::Start() const { return std::make_unique<Run>(*this); }

// ---------------------------------------------------------------------------------- its options and tensors

void ReadGrid(const AttentionSetting& setting, JsonFields& fields, WindowOptions& options) {
  if (setting.image) {
    options.image = true;
    options.any_size = !setting.image->fixed;
    options.grid = setting.image->size;
    return;
  }
  options.grid = ReadImageSize(setting, fields);
  if (options.grid.height > kMostRows / options.grid.width)
    fields.Fail(Cat("a grid of ", options.grid.height, " x ", options.grid.width, " has more than ",
                    kMostRows, " places"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewWindow2dAttention(const AttentionSetting& setting,
                                                                JsonFields& fields,
                                                                const WeightScope& scope) {
  RefuseAllButEncoders(setting, "window_2d", "the rows of a window see one another", fields);
  WindowOptions options{.type = ActivationType(setting.precision), .heads = setting.num_heads};
  options.head_dim = HeadDim(setting, fields);
  options.window = fields.RequiredInt("window", 1, kMostWindow);
  // A grid that is cut at all has two windows in either direction.
  options.shift = fields.Int("shift", 0, 0, 2 * options.window - 1) % options.window;
  const bool biased = fields.Bool("relative_bias", true);
  ReadGrid(setting, fields, options);
  const int64_t most = static_cast<int64_t>(kTaskCost) / (2 * 8 * options.window * options.window);
  if (options.head_dim > most)
    fields.Fail(
        Cat("window: ", options.window, " with heads of ", options.head_dim, " numbers; at most ", most));
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadProducts(scope, {"q", "k", "v"}, setting));
  std::vector<float> biases;
  if (biased) {
    const int64_t across = 2 * GridWindows(options.grid, options.window, options.shift).window() - 1;
    ASSIGN_OR_RETURN(biases, scope.Floats("relative_bias", {across * across, options.heads}));
  }
  return std::make_unique<WindowAttention>(options, biases, std::move(products));
}

}  // namespace heed
