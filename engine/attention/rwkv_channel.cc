// "rwkv_channel": the channel mixing of RWKV 4 (Peng et al. 2023), a feed-forward that reads the row before,
// too, so that it stands where an attention does, in a layer whose ffn is "none":
//   k, r are products of m x_t + (1 - m) x_(t - 1), each with shares m of its own
//   out = relu(k)^2, and what o makes of it is multiplied by sigmoid(r)
// Options: inner_size. Tensors: k [inner_size, hidden_size], r [hidden_size, hidden_size]; mix_k, mix_r
// [hidden_size]; o reads inner_size numbers. State: inner_size + hidden_size numbers, whatever the length.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/recurrence.h"
#include "engine/attention/shifted_products.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/recurrence.h"

namespace heed {
namespace {

constexpr int64_t kColumns = 256;  // that a task takes through all rows
constexpr int64_t kMostInner = 1 << 19;

class RwkvChannelAttention : public RecurrentAttention {
 public:
  RwkvChannelAttention(std::vector<Product> products, int64_t inner, int64_t width)
      : inner_(inner), width_(width) {
    products_ = std::move(products);
    out_width_ = inner + width;
    gated_ = width;
    sizes_.state = out_width_;
    sizes_.row_cost = 2 * kMoved * static_cast<double>(out_width_);
  }

  std::vector<AttentionStage> Steps(int64_t rows) const override {
    const double row = 2 * kMoved * static_cast<double>(std::min(out_width_, kColumns));
    return {{Quotient(inner_, kColumns) + Quotient(width_, kColumns), static_cast<double>(rows) * row}};
  }

  void Do(const RecurrentRows& rows, int, int64_t task, Scratch&) const override {
    const int64_t hidden = Quotient(inner_, kColumns);
    if (task < hidden) return Shift(rows, 0, 0, inner_, task * kColumns, Activation::kRelu2);
    Shift(rows, 2, inner_, width_, (task - hidden) * kColumns, Activation::kNone);
  }

 private:
  // A product and that of the row before, of so many columns, those from `begin` on; results and state lie
  // from `column` on.
  static void Shift(const RecurrentRows& rows, int product, int64_t column, int64_t columns, int64_t begin,
                    Activation activation) {
    const int64_t count = std::min(kColumns, columns - begin);
    AddRowBefore(rows.Product(product).Cols(begin, count), rows.Product(product + 1).Cols(begin, count),
                 rows.state + column + begin, activation, rows.out().Cols(column + begin, count));
    MicroKernel::CountCall(rows.count() * count);
  }

  int64_t inner_, width_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRwkvChannelAttention(const AttentionSetting& setting,
                                                                   JsonFields& fields,
                                                                   const WeightScope& scope) {
  const int64_t inner = fields.RequiredInt("inner_size", 1, kMostInner);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  std::vector<Product> products;
  RETURN_IF_ERROR(AddShiftedProducts(scope, "k", inner, setting.width, products));
  RETURN_IF_ERROR(AddShiftedProducts(scope, "r", setting.width, setting.width, products));
  return std::make_unique<RwkvChannelAttention>(std::move(products), inner, setting.width);
}

}  // namespace heed
