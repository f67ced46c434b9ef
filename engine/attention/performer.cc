// "performer": FAVOR+ (Choromanski et al. 2021). Random features W make a product of the softmax, or of a
// relu, so that the past fits into a matrix and a vector a head (linear_scan.h). With x' = x /
// head_dim^(1/4):
//   softmax   phi(x) = exp(W x' - |x'|^2 / 2) + eps
//   relu      phi(x) = max(W x', 0) + eps
//   out_i = phi(q_i) S / (phi(q_i) . z),  S = sum of phi(k_j)' v_j,  z = sum of phi(k_j), causal over j <= i
// (The paper's 1 / sqrt(num_features) cancels.)
// Options: kernel "softmax" | "relu"; num_features; eps (0 for softmax, 1e-3 for relu).
// Tensors: q, k, v; features [num_features, head_dim], the same for all heads.
// State: num_features (head_dim + 1) numbers a head, whatever the length. Decoding is exact.
//
// Projections and exponents are f32 whatever the precision; a feature is rounded once it is made. Of the
// relu, the sign of a projection decides whether a feature counts at all, and another precision's rounding of
// q or k may decide otherwise.
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/scan_attention.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"
#include "engine/ops/scan.h"

namespace heed {
namespace {

constexpr int64_t kMostFeatures = 1 << 14;

// Const and thread-safe.
class RandomFeatures {
 public:
  RandomFeatures(std::vector<float> features, int64_t count, int64_t head_dim, bool softmax, float eps);
  void Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const;
  int64_t ScratchBytes() const;
  int64_t bytes() const { return weights_.bytes(); }

 private:
  int64_t count_, head_dim_;
  bool softmax_;
  float eps_;
  PackedWeights weights_;  // over head_dim^(1/4)
};

RandomFeatures::RandomFeatures(std::vector<float> features, int64_t count, int64_t head_dim, bool softmax,
                               float eps)
    : count_(count), head_dim_(head_dim), softmax_(softmax), eps_(eps) {
  const double share = std::pow(static_cast<double>(head_dim), -0.25);
  for (float& x : features) x = static_cast<float>(x * share);
  weights_ =
      PackedWeights::Pack({{Tensor{DType::kF32, {count, head_dim}, features.data()}, {}}}, Precision::kF32);
}

void RandomFeatures::Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const {
  const Rows wide{DType::kF32, scratch.Take<float>(x.rows * head_dim_), x.rows, head_dim_, head_dim_};
  const Rows projected{DType::kF32, scratch.Take<float>(x.rows * count_), x.rows, count_, count_};
  Convert(x, wide);
  Team alone;
  Gemm(alone, {wide}, weights_, {.out = projected}, scratch);
  if (!softmax_) return ReluFeatures(projected.As<float>(), eps_, features);
  float* halves = scratch.Take<float>(x.rows);
  const float share = static_cast<float>(0.5 / std::sqrt(static_cast<double>(head_dim_)));
  for (int64_t r = 0; r < x.rows; ++r) {
    DotRows(wide.Slice(r, 1), wide.As<float>().row(r), halves + r);
    halves[r] *= share;
  }
  SoftmaxFeatures(projected.As<float>(), halves, eps_, features, exponents);
}

int64_t RandomFeatures::ScratchBytes() const {
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  return floats(kGrid * head_dim_) + floats(kGrid * count_) + floats(kGrid) + GemmScratchBytes();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewPerformerAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  LinearScan::Options options;
  options.head_dim = HeadDim(setting, fields);
  if (!fields.Has("kernel")) fields.Fail("kernel is missing");
  const bool softmax = fields.Choice("kernel", {"softmax", "relu"}) == "softmax";
  options.features = fields.RequiredInt("num_features", 1, kMostFeatures);
  const double eps = fields.Number("eps", softmax ? 0 : 1e-3, 0, 1);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadScanProducts(setting, scope));
  ASSIGN_OR_RETURN(std::vector<float> features,
                   scope.Floats("features", {options.features, options.head_dim}));
  const auto map = std::make_shared<RandomFeatures>(std::move(features), options.features, options.head_dim,
                                                    softmax, static_cast<float>(eps));
  options.scaled = softmax;
  options.data_dependent = !softmax;
  options.map_scratch = map->ScratchBytes();
  options.map_row_cost = static_cast<double>(options.features * options.head_dim);
  options.feature_map = [map](const Rows& x, const Rows& to, float* exponents, Scratch& scratch) {
    map->Map(x, to, exponents, scratch);
  };
  return NewScanAttention(setting, {ActivationType(setting.precision), std::move(options)},
                          std::move(products), map->bytes());
}

}  // namespace heed
