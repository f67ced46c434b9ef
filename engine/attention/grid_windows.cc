#include "engine/attention/grid_windows.h"

#include <algorithm>

#include "engine/base/round.h"

namespace heed {

GridWindow WindowAt(const AlikeWindows& alike, int64_t i) {
  const Spans &lines = alike.lines, &columns = alike.columns;
  return {lines.begin + i / columns.count * lines.length, columns.begin + i % columns.count * columns.length,
          lines.length, columns.length};
}

GridWindows::GridWindows(ImageSize grid, int64_t window, int64_t shift)
    : grid_(grid), window_(window), shift_(shift) {
  const int64_t shorter = std::min(grid.height, grid.width);
  if (shorter > window) return;
  window_ = shorter;
  shift_ = 0;
}

int64_t GridWindows::WholeEnd(int64_t size) const {
  return RoundUp(size, window_) - (shift_ > 0 ? window_ - shift_ : 0);
}

std::vector<Spans> GridWindows::CutSide(int64_t size, int64_t used) const {
  const int64_t end = WholeEnd(size), whole = std::min(used, end) - shift_;
  std::vector<Spans> cut;
  if (shift_ > 0) cut.push_back({0, shift_, 1});
  if (whole > 0) cut.push_back({shift_, window_, Quotient(whole, window_)});
  if (used > end) cut.push_back({end, window_ - shift_, 1});
  return cut;
}

std::vector<AlikeWindows> GridWindows::Cut(int64_t rows) const {
  std::vector<AlikeWindows> cut;
  for (const Spans& lines : CutSide(grid_.height, Quotient(rows, grid_.width))) {
    for (const Spans& columns : CutSide(grid_.width, std::min(rows, grid_.width)))
      cut.push_back({lines, columns});
  }
  return cut;
}

double GridWindows::LengthAt(int64_t size, int64_t place) const {
  return static_cast<double>(place < shift_ ? shift_ : place < WholeEnd(size) ? window_ : window_ - shift_);
}

double GridWindows::SumOfLengths(int64_t size, int64_t used) const {
  const int64_t end = WholeEnd(size), first = std::min(used, shift_);
  const int64_t whole = std::clamp<int64_t>(used - shift_, 0, end - shift_),
                last = std::max<int64_t>(used - end, 0);
  return static_cast<double>(first * shift_ + whole * window_ + last * (window_ - shift_));
}

// Whole lines, and a part of one.
double GridWindows::Pairs(int64_t rows) const {
  const int64_t lines = rows / grid_.width, rest = rows % grid_.width;
  const double whole = SumOfLengths(grid_.height, lines) * SumOfLengths(grid_.width, grid_.width);
  return rest == 0 ? whole : whole + LengthAt(grid_.height, lines) * SumOfLengths(grid_.width, rest);
}

}  // namespace heed
