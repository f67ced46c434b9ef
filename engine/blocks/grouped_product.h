// A product of rows that an attention's other products gave, or that it gave itself (Product::of,
// Attention::result): of all their columns or, in groups, of each group's by its own small matrix.
#ifndef HEED_ENGINE_BLOCKS_GROUPED_PRODUCT_H_
#define HEED_ENGINE_BLOCKS_GROUPED_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/blocks/row_block.h"

namespace heed {

// Const and thread-safe after Pack.
class GroupedProduct {
 public:
  // Groups are packed in the activation type: their matrices may be parts of the identity, which int8 is not.
  static GroupedProduct Pack(const Product& product, Precision precision);

  // y = W x of the block's rows, both of the activation type; in.cols is in(), out.cols is out(). All members
  // of the block's team call it; the last thing is a barrier.
  void Run(RowBlock& block, const Rows& in, const Rows& out) const;

  int64_t in() const { return std::ssize(groups_) * groups_.front().in(); }
  int64_t out() const { return std::ssize(groups_) * groups_.front().out(); }
  int64_t bytes() const;
  double multiply_adds() const;  // a row

 private:
  std::vector<PackedWeights> groups_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_GROUPED_PRODUCT_H_
