// A grid of rows in raster order, cut into shifted windows (Swin Transformer, Liu et al. 2021): which rows
// meet. Swin fills both sides up to multiples of the window M, rolls the grid by the shift s, cuts it every M
// places and masks what has passed an edge. On either side that is the same as cuts at s, s + M, s + 2 M, ...
// of the grid as it stands: spans of s, M, ..., M, M - s places, the last of them partly or wholly filled. A
// window is a span of lines times a span of columns; its rows meet one another, and what fills it, and none
// besides.
#ifndef HEED_ENGINE_ATTENTION_GRID_WINDOWS_H_
#define HEED_ENGINE_ATTENTION_GRID_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "engine/attention/attention.h"

namespace heed {

// Spans of one length, one after another.
struct Spans {
  int64_t begin = 0, length = 1, count = 0;
};

// Windows of one shape, in raster order.
struct AlikeWindows {
  Spans lines, columns;

  int64_t count() const { return lines.count * columns.count; }
  int64_t cells() const { return lines.length * columns.length; }  // of one, filled or not
};

// One of them: its lines and columns are the grid's from these on.
struct GridWindow {
  int64_t top = 0, left = 0, lines = 1, columns = 1;

  int64_t cells() const { return lines * columns; }
};
GridWindow WindowAt(const AlikeWindows& alike, int64_t i);

class GridWindows {
 public:
  // shift < window. A grid that is no wider, or no higher, than a window has windows of its shorter side,
  // which are not shifted.
  GridWindows(ImageSize grid, int64_t window, int64_t shift);

  int64_t window() const { return window_; }
  int64_t columns() const { return grid_.width; }
  // All windows in which any of the first `rows` rows lie.
  std::vector<AlikeWindows> Cut(int64_t rows) const;
  // The sum over the first `rows` rows of the cells of their windows.
  double Pairs(int64_t rows) const;

 private:
  // Of a side of so many places.
  std::vector<Spans> CutSide(int64_t size, int64_t used) const;
  // The sum over its first `used` places of the lengths of their spans.
  double SumOfLengths(int64_t size, int64_t used) const;
  double LengthAt(int64_t size, int64_t place) const;
  // Where the spans of whole windows end.
  int64_t WholeEnd(int64_t size) const;

  ImageSize grid_;
  int64_t window_, shift_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_GRID_WINDOWS_H_
