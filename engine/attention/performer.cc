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
// Projections and exponents are as exact as f32 whatever the precision; a feature is rounded once it is made.
// In bf16 a weight is two numbers, the second what rounding took from the first: both products together cost
// what one in f32 does, or in AMX tiles an eighth. Of the relu, the sign of a projection decides whether a
// feature counts at all, and another precision's rounding of q or k may decide otherwise.
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/scan_attention.h"
#include "engine/base/memory.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"
#include "engine/ops/scan.h"

namespace heed {
namespace {

constexpr int64_t kMostFeatures = 1 << 14;

// Const and thread-safe.
class RandomFeatures {
 public:
  struct Options {
    int64_t head_dim = 0, count = 0;
    bool softmax = false;
    float eps = 0;
  };
  RandomFeatures(DType type, const Options& options, std::vector<float> weights);
  void Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const;
  int64_t ScratchBytes() const;
  int64_t bytes() const { return parts_ * part_bytes_; }

 private:
  void Pack(const std::vector<float>& weights, int64_t part);
  Rows Project(const Rows& x, Scratch& scratch) const;

  DType type_;
  Options options_;
  int64_t in_, pitch_;  // numbers of a row, pairs whole; distance between rows of features, no power of two
  int64_t parts_, part_bytes_;
  Buffer packed_;  // B of each part's product
};

RandomFeatures::RandomFeatures(DType type, const Options& options, std::vector<float> weights)
    : type_(type),
      options_(options),
      in_(RoundUp(options.head_dim, 2)),
      pitch_(RoundUp(options.count, 16) + 16),
      parts_(type == DType::kBf16 ? 2 : 1),
      part_bytes_(Scratch::Piece(in_ * pitch_ * SizeOf(type))),
      packed_(Buffer::Lasting(bytes())) {
  const double share = std::pow(static_cast<double>(options.head_dim), -0.25);
  for (float& x : weights) x = static_cast<float>(x * share);
  Pack(weights, 0);
  if (parts_ == 1) return;
  for (float& x : weights) x -= ToFloat(ToBf16(x));
  Pack(weights, 1);
}

void RandomFeatures::Pack(const std::vector<float>& weights, int64_t part) {
  std::vector<char> rounded(weights.size() * SizeOf(type_));
  const int64_t rows = options_.count, cols = options_.head_dim;
  const Rows to{type_, rounded.data(), rows, cols, cols};
  Convert({DType::kF32, const_cast<float*>(weights.data()), rows, cols, cols}, to);
  char* packed = packed_.as<char>() + part * part_bytes_;
  std::memset(packed, 0, part_bytes_);
  PackColumns(to, 0, pitch_, packed);
}

// The micro-kernel reads whole pairs of numbers, of up to seven rows that are not there.
Rows RandomFeatures::Project(const Rows& x, Scratch& scratch) const {
  const int64_t rows = RoundRows(static_cast<int>(x.rows)), columns = RoundUp(options_.count, 16);
  const Rows projected{DType::kF32, scratch.Take<float>(rows * pitch_), rows, columns, pitch_};
  const Rows whole{type_, scratch.Take<char>(rows * in_ * SizeOf(type_)), rows, in_, in_};
  if (in_ > x.cols) std::memset(whole.data, 0, rows * in_ * SizeOf(type_));
  Convert(x, whole.Slice(0, x.rows).Cols(0, x.cols));
  for (int64_t part = 0; part < parts_; ++part) {
    MicroKernel::Multiply(whole, packed_.as<char>() + part * part_bytes_, pitch_, projected.As<float>(),
                          /*add=*/part > 0);
  }
  return projected.Slice(0, x.rows).Cols(0, options_.count);
}

void RandomFeatures::Map(const Rows& x, const Rows& features, float* exponents, Scratch& scratch) const {
  const Matrix<float> projected = Project(x, scratch).As<float>();
  if (!options_.softmax) return ReluFeatures(projected, options_.eps, features);
  float* halves = scratch.Take<float>(x.rows);
  SquaredLengths(x, static_cast<float>(0.5 / std::sqrt(static_cast<double>(options_.head_dim))), halves);
  SoftmaxFeatures(projected, halves, options_.eps, features, exponents);
}

int64_t RandomFeatures::ScratchBytes() const {
  const int64_t number = SizeOf(DType::kF32);
  return Scratch::Piece(kGrid * pitch_ * number) + Scratch::Piece(kGrid * in_ * SizeOf(type_)) +
         Scratch::Piece(kGrid * number);
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
  const DType type = ActivationType(setting.precision);
  const RandomFeatures::Options random{options.head_dim, options.features, softmax, static_cast<float>(eps)};
  const auto map = std::make_shared<RandomFeatures>(type, random, std::move(features));
  options.scaled = softmax;
  options.data_dependent = !softmax;
  options.map_scratch = map->ScratchBytes();
  options.map_row_cost = static_cast<double>(options.features * options.head_dim);
  options.feature_map = [map](const Rows& x, const Rows& to, float* exponents, Scratch& scratch) {
    map->Map(x, to, exponents, scratch);
  };
  return NewScanAttention(setting, {type, std::move(options)}, std::move(products), map->bytes());
}

}  // namespace heed
