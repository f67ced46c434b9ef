#include "engine/models/row_move.h"

#include <algorithm>

namespace heed {

void TakeNumbers::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  for (int64_t r = 0; r < to.rows; ++r) {
    const int64_t row = first + r - front_;
    if (row < 0)
      std::fill_n(to.row(r), to.cols, 0.0f);
    else
      std::copy_n(&from.numbers[row * to.cols], to.cols, to.row(r));
  }
}

void TakeRows::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  const int64_t offset = behind_ ? std::ssize(from.ids) : 0;
  for (int64_t r = 0; r < to.rows; ++r) {
    const int64_t row = first + r - offset;
    if (row >= 0 && row < from.rows.rows) std::copy_n(from.rows.row(row), to.cols, to.row(r));
  }
}

void TakeNeighbours::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  const int64_t width = from.rows.cols;
  for (int64_t r = 0; r < to.rows; ++r) {
    for (int64_t tap = 0; tap < kernel_; ++tap) {
      const int64_t row = first + r + tap - kernel_ / 2;
      float* const columns = to.row(r) + tap * width;
      if (row < 0 || row >= from.rows.rows) {
        std::fill_n(columns, width, 0.0f);
      } else {
        std::copy_n(from.rows.row(row), width, columns);
      }
    }
  }
}

void AddToRows::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  for (int64_t r = 0; r < to.rows; ++r) {
    for (int64_t c = 0; c < to.cols; ++c) to.row(r)[c] += from.rows.row(first + r)[c];
  }
}

}  // namespace heed
