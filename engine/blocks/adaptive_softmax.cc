#include "engine/blocks/adaptive_softmax.h"

#include <algorithm>
#include <utility>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

absl::StatusOr<PackedWeights> LoadProjection(const WeightScope& scope, int64_t width, int64_t in,
                                             Precision precision) {
  ASSIGN_OR_RETURN(const Tensor weight, (scope / "projection").Optional("weight", {width, in}));
  if (weight.data == nullptr && width == in) return PackedWeights();
  ASSIGN_OR_RETURN(const Product product, LoadProduct(scope, "projection", width, in));
  return PackedWeights::Pack({{product.weight, product.bias}}, precision);
}

void AddTo(float* numbers, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) numbers[i] += value;
}

}  // namespace

absl::StatusOr<AdaptiveSoftmax> AdaptiveSoftmax::Load(const WeightScope& scope, int64_t in,
                                                      const std::vector<TokenCluster>& clusters,
                                                      Precision precision) {
  AdaptiveSoftmax softmax;
  for (size_t i = 0; i < clusters.size(); ++i) {
    const auto& [tokens, width] = clusters[i];
    const int64_t outputs = i == 0 ? tokens + std::ssize(clusters) - 1 : tokens;
    Cluster cluster{.begin = softmax.tokens_, .tokens = tokens};
    ASSIGN_OR_RETURN(cluster.projection, LoadProjection(scope / Cat(i), width, in, precision));
    ASSIGN_OR_RETURN(const Product product, LoadProduct(scope, Cat(i), outputs, width));
    cluster.weights = PackedWeights::Pack({{product.weight, product.bias}}, precision);
    softmax.clusters_.push_back(std::move(cluster));
    softmax.tokens_ += tokens;
  }
  return softmax;
}

int64_t AdaptiveSoftmax::hidden() const {
  int64_t widest = std::max<int64_t>(std::ssize(clusters_) - 1, 1);
  for (const Cluster& cluster : clusters_) widest = std::max(widest, cluster.projection.out());
  return widest;
}

int64_t AdaptiveSoftmax::bytes() const {
  int64_t sum = 0;
  for (const Cluster& cluster : clusters_) sum += cluster.weights.bytes() + cluster.projection.bytes();
  return sum;
}

double AdaptiveSoftmax::multiply_adds() const {
  const auto of = [](const PackedWeights& weights) {
    return static_cast<double>(weights.in()) * static_cast<double>(weights.out());
  };
  double sum = 0;
  for (const Cluster& cluster : clusters_) sum += of(cluster.weights) + of(cluster.projection);
  return sum;
}

void AdaptiveSoftmax::Multiply(RowBlock& block, const Cluster& cluster, const Rows& in, const Rows& between,
                               const Rows& out) {
  if (cluster.projection.out() == 0) return Linear(block, in, cluster.weights, {.out = out});
  Rows narrow = between.Cols(0, cluster.projection.out());
  narrow.dtype = ActivationType(cluster.weights.precision());
  narrow.stride *= SizeOf(DType::kF32) / SizeOf(narrow.dtype);
  Linear(block, in, cluster.projection, {.out = narrow});
  Linear(block, narrow, cluster.weights, {.out = out});
}

// The numbers of the other clusters stand where the first one's tokens will.
void AdaptiveSoftmax::Run(RowBlock& block, const Rows& in, const Rows& between, const Rows& shares,
                          const Rows& out) const {
  const Cluster& frequent = clusters_.front();
  const int64_t others = std::ssize(clusters_) - 1, scored = frequent.tokens + others;
  Multiply(block, frequent, in, between, out.Cols(0, scored));
  ForRows(block, [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      float* const row = out.As<float>().row(r);
      AddTo(row, scored, static_cast<float>(-LogSumExp(row, scored)));
      std::copy_n(row + frequent.tokens, others, shares.As<float>().row(r));
    }
  });
  for (int64_t i = 1; i <= others; ++i) {
    const Cluster& cluster = clusters_[i];
    Multiply(block, cluster, in, between, out.Cols(cluster.begin, cluster.tokens));
    ForRows(block, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r) {
        float* const row = out.As<float>().row(r) + cluster.begin;
        const double share = shares.As<float>().row(r)[i - 1];
        AddTo(row, cluster.tokens, static_cast<float>(share - LogSumExp(row, cluster.tokens)));
      }
    });
  }
}

}  // namespace heed
