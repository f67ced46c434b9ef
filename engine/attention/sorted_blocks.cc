#include "engine/attention/sorted_blocks.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/attention/attention.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/round.h"
#include "engine/ops/gather.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"
#include "engine/ops/scan.h"
#include "engine/ops/sinkhorn.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
// What balancing costs a number, in the time of a product's multiply-adds.
constexpr double kBalanced = 4;
// Sorted blocks that are mixed together, and their tokens, unless pages ask for more.
constexpr int64_t kMixedBlocks = 16, kMixedTokens = 4096;
// What is between two sorted blocks' weights, so that they do not meet in one cache set.
constexpr int64_t kWeightGap = 16;

// Of a row of R and its exponentials, each so many numbers, and of the rows of a triangle.
int64_t ScorePitch(int64_t columns) { return RoundUp(columns, 16); }
int64_t ScoreBytes(int64_t columns) { return 2 * ScorePitch(columns) * SizeOf(DType::kF32); }
int64_t TriangleBytes(int64_t rows) {
  const int64_t whole = rows / 16;
  return 16 * ScoreBytes(16) * whole * (whole + 1) / 2 + rows % 16 * ScoreBytes(rows);
}

// Behind a row of so many columns.
void AddExponentials(float* row, int64_t columns) {
  const int64_t pitch = ScorePitch(columns);
  std::copy_n(row, pitch, row + pitch);
  ExpAtMostOne(row + pitch, columns);
}

}  // namespace

// ---------------------------------------------------------------------------------- what is shared

BlockSorting::BlockSorting(DType type, const SortingOptions& options, const std::vector<float>& sort)
    : options_(options),
      empty_(type, options.head_dim, options.block),
      sort_(sort.size()),
      ones_(kPage, 1.0f),
      ascending_(std::max(kPage, options.head_dim)) {
  std::iota(ascending_.begin(), ascending_.end(), 0);
  const int64_t columns = options.max_blocks, dim = options.head_dim;
  for (int64_t i = 0; i < std::ssize(sort_); ++i) {
    const int64_t head = i / (columns * dim), column = i / dim % columns;
    sort_[(head * dim + i % dim) * columns + column] = static_cast<float>(sort[i] / options.temperature);
  }
}

int64_t BlockSorting::Blocks(int64_t tokens) const { return Quotient(tokens, options_.block); }

int64_t BlockSorting::Sorted(int64_t tokens) const {
  const int64_t blocks = Blocks(tokens);
  if (options_.causal) return std::max<int64_t>(0, blocks - 1);
  return options_.wanted > 0 ? std::min(options_.wanted, blocks) : blocks;
}

// A lone block has no tokens beyond its own.
int64_t BlockSorting::Places(int64_t tokens) const {
  return !options_.causal && tokens < options_.block ? tokens : Sorted(tokens) * Stride();
}

// 16 of them are whole pages.
int64_t BlockSorting::Stride() const {
  return RoundUp(options_.block, options_.block < kPage ? kPage / 16 : kPage);
}

// Those of a page are written one after another.
int64_t BlockSorting::MixedTogether() const {
  return std::max(kPage / std::gcd(Stride(), kPage), std::min(kMixedBlocks, kMixedTokens / Stride()));
}

int64_t BlockSorting::WeightPitch(int64_t tokens) const {
  return RoundUp(Blocks(tokens), empty_.page_blocks()) + kWeightGap;
}

// sum += the rows, one after another, however they are cut.
void BlockSorting::AddRows(const Rows& rows, float* sum) const {
  for (int64_t first = 0; first < rows.rows; first += kPage) {
    const int64_t count = std::min(kPage, rows.rows - first);
    AddWeightedRows(rows.Slice(first, count), {ascending_.data(), static_cast<size_t>(count)}, ones_.data(),
                    sum);
  }
}

// So many columns of a row of R, less its largest number if balancing takes that out anyway: what is near to
// it stays exact.
std::shared_ptr<Buffer> BlockSorting::Scores(int head, const float* psi, int64_t columns) const {
  const int64_t dim = options_.head_dim, all = options_.max_blocks;
  auto scores = std::make_shared<Buffer>(Buffer::Lasting(ScoreBytes(columns)));
  float* row = scores->as<float>();
  std::memset(row, 0, scores->size());
  float* sort = const_cast<float*>(sort_.data()) + head * dim * all;
  AddWeightedRows({DType::kF32, sort, dim, columns, all}, {ascending_.data(), static_cast<size_t>(dim)}, psi,
                  row);
  const float largest = options_.iterations > 0 ? row[ArgMax(row, columns)] : 0;
  for (int64_t i = 0; i < columns; ++i) row[i] -= largest;
  if (options_.iterations > 0) AddExponentials(row, columns);
  return scores;
}

double BlockSorting::ScoreCost(Range sorted, int64_t rows) const {
  const double columns = static_cast<double>(sorted.size()) * static_cast<double>(sorted.end);
  return (static_cast<double>(rows) + columns) * static_cast<double>(options_.head_dim);
}

double BlockSorting::BalanceCost(int64_t blocks) const {
  const double numbers = static_cast<double>(blocks) * static_cast<double>(blocks);
  return (options_.causal ? numbers / 2 : numbers) * options_.iterations * kBalanced;
}

double BlockSorting::MixCost(int64_t sorted, int64_t blocks) const {
  const double tokens = static_cast<double>(sorted * options_.block);
  return tokens * static_cast<double>(blocks) * static_cast<double>(2 * options_.head_dim);
}

// Of a decoder.
double BlockSorting::Until(int64_t tokens) const {
  const int64_t sorted = Sorted(tokens);
  const double s = static_cast<double>(sorted);
  return MixCost(sorted, sorted + 1) / 2 + options_.iterations * s * (s + 1) * (s + 2) / 3;
}

double BlockSorting::Cost(int64_t rows, int64_t tokens) const {
  if (options_.causal) return Until(tokens) - Until(tokens - rows);
  const double blocks = static_cast<double>(Blocks(tokens));
  const double all = MixCost(Sorted(tokens), Blocks(tokens)) + 2 * options_.iterations * blocks * blocks;
  return all * static_cast<double>(rows) / static_cast<double>(tokens);
}

int64_t BlockSorting::StateBytes(int64_t tokens) const {
  const int64_t places = Places(tokens), blocks = Blocks(tokens);
  const auto pages = [&](int64_t n) { return KeyValuePages::Bytes(type(), options_.head_dim, 0, n); };
  if (!options_.causal) return empty_.Bytes(tokens) + pages(places) + blocks * ScoreBytes(blocks);
  const int64_t kept = BlockPattern({.block = Stride(), .causal = true}).MostKept(0, places);
  const int64_t sums = options_.head_dim * static_cast<int64_t>(sizeof(double) + sizeof(float));
  return empty_.Bytes(tokens) + pages(kept) + TriangleBytes(Sorted(tokens)) + sums;
}

int64_t BlockSorting::ScratchBytes() const {
  const auto piece = [](int64_t n, DType type) { return Scratch::Piece(n * SizeOf(type)); };
  const int64_t most = options_.max_blocks, pitch = WeightPitch(most * options_.block);
  const int64_t balance = 2 * piece(most, DType::kI64) + 2 * piece(most, DType::kF32) +
                          piece(pitch, DType::kF32) + piece(BalanceWork(most), DType::kF32);
  const int64_t mixed = RoundRows(static_cast<int>(std::min(MixedTogether(), most))) * empty_.mixed_columns();
  const int64_t mix = piece(mixed, DType::kF32) + 2 * piece(Stride() * options_.head_dim, type());
  return std::max({piece(options_.head_dim, DType::kF32), balance, mix});
}

// ------------------------------------------------------------------------------------ one sequence

SortedBlocks::SortedBlocks(const BlockSorting& sorting, int head)
    : sorting_(&sorting),
      head_(head),
      matrix_(sorting.empty_),
      pages_(sorting.type(), sorting.options().head_dim),
      before_(sorting.options().head_dim),
      open_(sorting.options().head_dim) {}

void SortedBlocks::Grow(int64_t rows) {
  matrix_.Grow(rows);
  pages_.Grow(sorting_->Places(matrix_.tokens()) - pages_.end());
}

// A decoder's row is known when its block begins, an encoder's when it ends.
void SortedBlocks::Score(int64_t first, const Rows& keys, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const SortingOptions& o = sorting_->options();
  const int64_t tokens = first + keys.rows;
  float* psi = scratch.Take<float>(o.head_dim);
  for (int64_t token = first, end; token < tokens; token = end) {
    end = std::min(tokens, RoundDown(token, o.block) + o.block);
    if (o.causal && token % o.block == 0 && token > 0) {
      std::ranges::copy(before_, psi);
      sorting_->AddRows(keys.Slice(token - first, 1), psi);
      scores_.push_back(sorting_->Scores(head_, psi, token / o.block));
    }
    sorting_->AddRows(keys.Slice(token - first, end - token), open_.data());
    if (o.causal && end % o.block > 0) return;
    if (!o.causal) scores_.push_back(sorting_->Scores(head_, open_.data(), sorting_->Blocks(tokens)));
    for (int64_t c = 0; c < o.head_dim; ++c) before_[c] += std::exchange(open_[c], 0.0f);
  }
}

// A decoder's sorted block has the last row of the matrix that ends with it.
void SortedBlocks::Balance(Range sorted, const Rows& weights, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const SortingOptions& o = sorting_->options();
  const int64_t n = o.causal ? sorted.end : std::ssize(scores_);
  const float **scores = scratch.Take<const float*>(n), **exponentials = scratch.Take<const float*>(n);
  for (int64_t i = 0; i < n; ++i) {
    scores[i] = scores_[i]->as<float>();
    exponentials[i] = scores[i] + ScorePitch(o.causal ? i + 1 : n);
  }
  float *f = scratch.Take<float>(n), *g = scratch.Take<float>(n), *row = scratch.Take<float>(weights.cols);
  std::fill_n(row, weights.cols, 0.0f);
  const auto count = static_cast<size_t>(n);
  heed::Balance({{scores, count}, {exponentials, count}, o.causal}, o.iterations, f, g,
                scratch.Take<float>(BalanceWork(n)));
  for (int64_t s = sorted.begin; s < sorted.end; ++s) {
    BalancedRow(scores[s], n, f[s], g, row);
    Convert({DType::kF32, row, 1, weights.cols, weights.cols}, weights.Slice(s - sorted.begin, 1));
  }
}

// Zeros lie between sorted blocks: nobody sees them, but all of a page's numbers are multiplied.
void SortedBlocks::Mix(Range sorted, const Rows& weights, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const SortingOptions& o = sorting_->options();
  const int64_t rounded = RoundRows(static_cast<int>(sorted.size())), columns = matrix_.mixed_columns();
  const Matrix<float> mixed{scratch.Take<float>(rounded * columns), sorted.size(), columns, columns};
  matrix_.Mix(weights.Cols(0, o.causal ? sorted.end : std::ssize(scores_)), mixed);
  const int64_t stride = sorting_->Stride(), width = matrix_.width();
  const auto take = [&] {
    const int64_t bytes = stride * o.head_dim * SizeOf(sorting_->type());
    const Rows rows{sorting_->type(), scratch.Take<char>(bytes), stride, o.head_dim, o.head_dim};
    std::memset(rows.data, 0, bytes);
    return rows;
  };
  const Rows keys = take(), values = take();
  for (int64_t s = sorted.begin; s < sorted.end; ++s) {
    float* of_block = mixed.row(s - sorted.begin);
    Convert({DType::kF32, of_block, o.block, o.head_dim, width}, keys.Slice(0, o.block));
    Convert({DType::kF32, of_block + o.block * width, o.block, o.head_dim, width}, values.Slice(0, o.block));
    const int64_t count = std::min(stride, pages_.end() - s * stride);
    pages_.Write(s * stride, keys.Slice(0, count), values.Slice(0, count));
  }
}

// An encoder has no rows to come.
void SortedBlocks::Forget() {
  if (sorting_->options().causal) return pages_.DropBefore(Begin(matrix_.tokens()));
  *this = SortedBlocks(*sorting_, head_);
}

int64_t SortedBlocks::Begin(int64_t tokens) const {
  return std::max<int64_t>(0, tokens / sorting_->options().block - 1) * sorting_->Stride();
}

void SortedBlocks::Archive(StateArchive& archive, int64_t tokens) {
  matrix_.Archive(archive, tokens);
  pages_.Archive(archive, RoundDown(Begin(tokens), kPage), sorting_->Places(tokens));
  archive.Bytes(before_.data(), std::ssize(before_) * static_cast<int64_t>(sizeof(double)));
  archive.Bytes(open_.data(), std::ssize(open_) * static_cast<int64_t>(sizeof(float)));
  for (int64_t s = 0; s < sorting_->Sorted(tokens) && archive.status().ok(); ++s) {
    const int64_t columns = s + 1;
    if (archive.restoring())
      scores_.push_back(std::make_shared<Buffer>(Buffer::Lasting(ScoreBytes(columns))));
    float* row = scores_[s]->as<float>();
    archive.Bytes(row, ScoreBytes(columns) / 2);
    if (archive.restoring()) AddExponentials(row, columns);
  }
}

}  // namespace heed
