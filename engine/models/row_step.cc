#include "engine/models/row_step.h"

#include <algorithm>

namespace heed {

void EmbedStep::Run(RowBlock& block, const RowsBeside& beside) const {
  const int64_t width = embedding_.width();
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> x = block.x.Rows(first, count);
    embedding_.Apply(beside.ids.subspan(first, count), beside.places.positions.subspan(first, count),
                     x.Cols(0, width));
    for (int64_t column = width; column < x.cols; column += width) {
      for (int64_t r = 0; r < count; ++r) std::copy_n(x.row(r), width, x.row(r) + column);
    }
  });
}

void OpenStep::Run(RowBlock& block, const RowsBeside& beside) const {
  sublayer_.Open(block, beside.places, beside.products.Cols(0, sublayer_.products_width()));
}

void OpenSourceStep::Run(RowBlock& block, const RowsBeside& beside) const {
  sublayer_.OpenSource(block, beside.source_products.Cols(0, sublayer_.source_products_width()));
}

void CloseStep::Run(RowBlock& block, const RowsBeside& beside) const {
  sublayer_.Close(block, beside.attended.Cols(0, sublayer_.attention().out_width()));
}

void FeedForwardStep::Run(RowBlock& block, const RowsBeside&) const { sublayer_.Run(block); }

void NormStep::Run(RowBlock& block, const RowsBeside&) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> x = block.x.Rows(first, count);
    norm_.Apply(x, {DType::kF32, x.data, x.rows, x.cols, x.stride});
  });
}

}  // namespace heed
