// Heads of several kinds in one layer: each kind is an attention by itself, with columns of the layer's
// products and of its results. Their stages are done side by side.
#ifndef HEED_ENGINE_ATTENTION_SIDE_BY_SIDE_H_
#define HEED_ENGINE_ATTENTION_SIDE_BY_SIDE_H_

#include <memory>
#include <vector>

#include "engine/attention/attention.h"

namespace heed {

// Of self-attention.
struct HeadsOfAKind {
  struct Columns {
    int product = 0;  // of the layer
    int64_t first = 0, count = 0;
  };
  std::unique_ptr<Attention> attention;  // its own products() are nobody's
  std::vector<Columns> products;         // what it reads as its products
};

class SideBySideAttention : public Attention {
 public:
  // Results lie in the kinds' order.
  SideBySideAttention(std::vector<HeadsOfAKind> kinds, std::vector<Product> products);
  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  int64_t PassBytes() const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override;

  const std::vector<HeadsOfAKind>& kinds() const { return kinds_; }

 private:
  std::vector<HeadsOfAKind> kinds_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SIDE_BY_SIDE_H_
