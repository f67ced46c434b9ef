#include "engine/blocks/grouped_product.h"

#include "absl/log/check.h"

namespace heed {
namespace {

// `count` rows of a matrix, from `first` on.
Tensor RowsOf(const Tensor& matrix, int64_t first, int64_t count) {
  Tensor rows{matrix.dtype, matrix.shape, nullptr, matrix.memory};
  rows.shape[0] = count;
  int64_t row = SizeOf(matrix.dtype);
  for (int i = 1; i < matrix.rank(); ++i) row *= matrix.dim(i);
  rows.data = static_cast<const char*>(matrix.data) + first * row;
  return rows;
}

}  // namespace

GroupedProduct GroupedProduct::Pack(const Product& product, Precision precision) {
  CHECK(product.weight.dim(0) % product.groups == 0);
  if (product.groups > 1) precision = PrecisionOfChoices(precision);
  GroupedProduct packed;
  const int64_t rows = product.weight.dim(0) / product.groups;
  for (int64_t g = 0; g < product.groups; ++g) {
    PackedWeights::Part part{RowsOf(product.weight, g * rows, rows), {}};
    if (product.bias.data != nullptr) part.bias = RowsOf(product.bias, g * rows, rows);
    packed.groups_.push_back(PackedWeights::Pack({part}, precision));
  }
  return packed;
}

void GroupedProduct::Run(RowBlock& block, const Rows& in, const Rows& out) const {
  if (groups_.size() == 1) return Linear(block, in, groups_.front(), {.out = out});
  const int64_t reads = groups_.front().in(), writes = groups_.front().out();
  for (int64_t g = 0; g < std::ssize(groups_); ++g) {
    LinearInTurn(block, g, {in.Cols(g * reads, reads)}, groups_[g], {.out = out.Cols(g * writes, writes)});
  }
  block.team.Barrier();
}

int64_t GroupedProduct::bytes() const {
  int64_t sum = 0;
  for (const PackedWeights& group : groups_) sum += group.bytes();
  return sum;
}

double GroupedProduct::multiply_adds() const {
  return static_cast<double>(in()) * static_cast<double>(groups_.front().out());
}

}  // namespace heed
