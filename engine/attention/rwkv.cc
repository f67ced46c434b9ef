// "rwkv": the time mixing of RWKV 4 (Peng et al. 2023): a mean of all values so far, weighted by keys that
// fade, number by number, each at its own rate; no heads, and no softmax:
//   k, v, r are products of m x_t + (1 - m) x_(t - 1), each with shares m of its own
//   wkv_t = (a_(t-1) + exp(bonus + k) v) / (b_(t-1) + exp(bonus + k)),  out = sigmoid(r) wkv
//   a_t = exp(-exp(decay)) a_(t-1) + exp(k) v,  b_t = exp(-exp(decay)) b_(t-1) + exp(k)
// a and b are held as shares of the exponential of the largest exponent so far.
// Options: inner_size (hidden_size). Tensors: k, v, r [inner_size, hidden_size]; mix_k, mix_v, mix_r
// [hidden_size]; decay, bonus [inner_size]. State: six times inner_size numbers, whatever the length.
#include <algorithm>
#include <cmath>
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

constexpr int64_t kColumns = 128;  // that a task takes through all rows
constexpr int64_t kMostInner = 1 << 17;
constexpr double kExponentials = 20;  // what those of a number cost, in multiply-adds
constexpr float kNone = -1e30f;       // below every exponent

class RwkvAttention : public RecurrentAttention {
 public:
  RwkvAttention(std::vector<Product> products, std::vector<float> decays, std::vector<float> bonus)
      : decays_(std::move(decays)), bonus_(std::move(bonus)) {
    products_ = std::move(products);
    out_width_ = std::ssize(bonus_);
    constant_bytes_ = 2 * out_width_ * static_cast<int64_t>(sizeof(float));
    sizes_.state = kWkvState * out_width_;
    sizes_.row_cost = (kExponentials + 6 * kMoved) * static_cast<double>(out_width_);
  }

  std::vector<AttentionStage> Steps(int64_t rows) const override {
    const double row = (kExponentials + 6 * kMoved) * static_cast<double>(std::min(out_width_, kColumns));
    return {{Quotient(out_width_, kColumns), static_cast<double>(rows) * row}};
  }

  void Do(const RecurrentRows& rows, int, int64_t task, Scratch&) const override {
    const int64_t begin = task * kColumns, count = std::min(kColumns, out_width_ - begin);
    const auto product = [&](int p) { return rows.Product(p).Cols(begin, count); };
    const WkvRows all{.k = product(0),
                      .k_before = product(1),
                      .v = product(2),
                      .v_before = product(3),
                      .r = product(4),
                      .r_before = product(5),
                      .decays = decays_.data() + begin,
                      .bonus = bonus_.data() + begin};
    const Matrix<float> state{rows.state + begin, kWkvState, count, out_width_};
    if (rows.position == 0) std::fill_n(state.row(kWkvState - 1), count, kNone);
    WkvScan(all, state, rows.out().Cols(begin, count));
    MicroKernel::CountCall(rows.count() * count * static_cast<int64_t>(kExponentials));
  }

 private:
  std::vector<float> decays_, bonus_;  // decays: what is added to an exponent a row
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRwkvAttention(const AttentionSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  const int64_t inner = fields.Int("inner_size", setting.width, 1, kMostInner);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  std::vector<Product> products;
  for (const char* name : {"k", "v", "r"})
    RETURN_IF_ERROR(AddShiftedProducts(scope, name, inner, setting.width, products));
  ASSIGN_OR_RETURN(std::vector<float> decays, scope.Floats("decay", {inner}));
  for (float& decay : decays) decay = -std::exp(decay);
  ASSIGN_OR_RETURN(std::vector<float> bonus, scope.Floats("bonus", {inner}));
  return std::make_unique<RwkvAttention>(std::move(products), std::move(decays), std::move(bonus));
}

}  // namespace heed
