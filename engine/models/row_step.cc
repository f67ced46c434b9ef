#include "engine/models/row_step.h"

#include <algorithm>

#include "engine/ops/rows.h"

namespace heed {

void EmbedStep::Run(RowBlock& block, const RowsBeside& beside) const {
  const int64_t width = embedding_.width(), end = block.x.cols - beside_;
  embedding_.Run(block, {beside.ids, beside.types, beside.places.positions, front_});
  if (end == width) return;
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      float* const x = block.x.row(r);
      for (int64_t column = width; column < end; column += width) std::copy_n(x, width, x + column);
    }
  });
}

void OpenStep::Run(RowBlock& block, const RowsBeside& beside) const {
  sublayer_.Open(block, beside.places, beside.products.Cols(0, sublayer_.products_width()), beside.inputs);
}

void OpenSourceStep::Run(RowBlock& block, const RowsBeside& beside) const {
  sublayer_.OpenSource(block, beside.source_products.Cols(0, sublayer_.source_products_width()),
                       beside.inputs);
}

void CloseStep::Run(RowBlock& block, const RowsBeside& beside) const {
  sublayer_.Close(block, beside.attended.Cols(0, sublayer_.attention().out_width()));
}

void FeedForwardStep::Run(RowBlock& block, const RowsBeside&) const { sublayer_.Run(block); }

void NormStep::Run(RowBlock& block, const RowsBeside&) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> x = block.x.Rows(first, count).Cols(column_, norm_.width());
    norm_.Apply(x, AsRows(x));
  });
}

void AddStep::Run(RowBlock& block, const RowsBeside&) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      float* const x = block.x.row(r);
      for (size_t c = 0; c < row_.size(); ++c) x[c] += row_[c];
    }
  });
}

void ScaleStep::Run(RowBlock& block, const RowsBeside&) const {
  const Matrix<float> x = columns_ > 0 ? block.x.Cols(0, columns_) : block.x;
  ForRows(block, [&](int64_t first, int64_t count) { Scale(factor_, x.Rows(first, count)); });
}

void ProjectStep::Run(RowBlock& block, const RowsBeside& beside) const {
  const Matrix<float> inputs = beside.inputs.As<float>().Cols(0, weights_.in());
  Linear(block, ForProduct(block, inputs, norm_ ? &*norm_ : nullptr), weights_, {.out = AsRows(block.x)});
}

double ProjectStep::multiply_adds() const {
  return static_cast<double>(weights_.in()) * static_cast<double>(weights_.out());
}

void TransformStep::Run(RowBlock& block, const RowsBeside&) const {
  const RowBuffer& buffer =
      weights_.precision() == Precision::kF32 ? block.buffers.result : block.buffers.input;
  const Rows read = buffer.First(block.rows()).Cols(0, weights_.in());
  ForRows(block, [&](int64_t first, int64_t count) {
    Convert(AsRows(block.x.Cols(0, weights_.in()).Rows(first, count)), read.Slice(first, count));
  });
  const Matrix<float> x = block.x.Cols(0, weights_.out());
  Linear(block, read, weights_, {.out = AsRows(x), .activation = activation_});
  if (!norm_) return;
  ForRows(block, [&](int64_t first, int64_t count) {
    norm_->Apply(x.Rows(first, count), AsRows(x.Rows(first, count)));
  });
}

double TransformStep::multiply_adds() const {
  return static_cast<double>(weights_.in()) * static_cast<double>(weights_.out());
}

void TableStep::Run(RowBlock& block, const RowsBeside& beside) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      const int64_t position = beside.places.positions[r];
      if (position < table_.shape[0]) ToFloats(table_, position * block.x.cols, block.x.cols, block.x.row(r));
    }
  });
}

void PositionStep::Run(RowBlock& block, const RowsBeside& beside) const {
  ForRows(block, [&](int64_t first, int64_t count) {
    positions_.Add(beside.places.positions.subspan(first, count), block.x.Rows(first, count));
  });
}

}  // namespace heed
