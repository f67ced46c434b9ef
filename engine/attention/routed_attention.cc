#include "engine/attention/routed_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/attention/cluster_members.h"
#include "engine/attention/routed_run.h"
#include "engine/attention/token_pages.h"
#include "engine/base/round.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr float kEpsilon = 1e-6f;
// Multiply-adds of a task that attends in a cluster.
constexpr double kClusterCost = kTaskCost / 64;

}  // namespace

RoutedAttention::RoutedAttention(const AttentionSetting& setting, const RoutedOptions& options,
                                 std::vector<Product> products, const std::vector<float>& centroids)
    : options_(options),
      core_(ActivationType(setting.precision), options_.head_dim,
            {.scale = options_.scale, .causal = options_.causal}),
      ones_(options_.head_dim, 1.0f) {
  products_ = std::move(products);
  out_width_ = options_.heads * options_.head_dim;
  data_dependent_ = true;
  decode_ = !options_.causal  ? DecodeClass::kNone
            : options_.strict ? DecodeClass::kExact
                              : DecodeClass::kApproximate;
  const int64_t clusters = options_.clusters, dim = options_.head_dim;
  for (int head = 0; head < options_.heads; ++head) {
    const Tensor of_head{DType::kF32, {clusters, dim}, centroids.data() + head * clusters * dim};
    centroids_.push_back(PackedWeights::Pack({{of_head, {}}}, Precision::kF32));
    constant_bytes_ += centroids_.back().bytes();
  }
}

std::unique_ptr<AttentionRun> RoutedAttention::Start() const { return NewRoutedRun(*this); }

void RoutedAttention::Norm(const Rows& rows, Matrix<float> normed, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Rows wide{DType::kF32, scratch.Take<float>(rows.rows * rows.cols), rows.rows, rows.cols, rows.cols};
  Convert(rows, wide);
  LayerNorm(wide.As<float>(), ones_.data(), nullptr, kEpsilon,
            {DType::kF32, normed.data, normed.rows, normed.cols, normed.stride});
}

void RoutedAttention::Score(int head, Matrix<float> normed, Matrix<float> scores, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const auto rows = [](Matrix<float> m) { return Rows{DType::kF32, m.data, m.rows, m.cols, m.stride}; };
  Team alone;
  Gemm(alone, {rows(normed)}, centroids_[head], {.out = rows(scores)}, scratch);
  for (int64_t i = 0; i < scores.rows * scores.cols; ++i) {
    float& score = scores.data[i];
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  }
}

int64_t RoutedAttention::ClusterRows() const {
  const double row = options_.pair_cost() * static_cast<double>(options_.window);
  return std::clamp<int64_t>(static_cast<int64_t>(kClusterCost / row), kGrid / 2, 4 * kGrid);
}

// Rows that follow others hand nothing on.
int64_t RoutedAttention::WorkBytes(int64_t rows) const {
  const int64_t dim = options_.head_dim, vector = dim * SizeOf(core_.type()), number = SizeOf(DType::kF32);
  const int64_t scores = options_.sets() * options_.clusters * number, sums = (dim + 1) * number + vector;
  if (options_.strict) return 0;
  return Scratch::Piece(rows * std::max(scores, sums)) +
         (options_.shared ? 0 : Scratch::Piece(rows * vector));
}

int RoutedAttention::HeadsAtOnce(int64_t rows) const {
  if (rows <= kFewRows) return options_.heads;
  const int64_t kept = options_.heads * 2 * options_.head_dim * SizeOf(core_.type()) * kGrid;
  const int64_t worked = std::max<int64_t>(1, WorkBytes(kGrid));
  return static_cast<int>(std::clamp<int64_t>(kept / worked, 1, Quotient(options_.heads, 2)));
}

int64_t RoutedAttention::StateBytes(int64_t tokens) const {
  const RoutedOptions& o = options_;
  const int64_t members =
      HasMembers(tokens) ? o.sets() * ClusterMembers::Bytes(o.clusters, o.window, tokens) : 0;
  const int64_t few = std::min(tokens, kFewRows);
  const int64_t worked = std::max(HeadsAtOnce(few) * WorkBytes(few), HeadsAtOnce(tokens) * WorkBytes(tokens));
  return sizeof(int64_t) + worked +
         o.heads * (TokenPages::Bytes(core_.type(), o.head_dim, 0, tokens) + members);
}

// A prompt's; of strict_causal, where tokens come in no order, a query of the t-th row is member of each
// cluster with window / t.
double RoutedAttention::Cost(int64_t rows, int64_t tokens) const {
  const RoutedOptions& o = options_;
  const double window = static_cast<double>(o.window), clusters = static_cast<double>(o.clusters);
  const auto square = [&](double n) { return o.causal ? n * (n + 1) / 2 : n * n; };
  const auto until = [&](int64_t tokens) {
    const double n = static_cast<double>(tokens);
    const double pairs = n <= window ? square(n)
                         : o.strict  ? square(window) + clusters * window * window * std::log(n / window)
                                     : clusters * square(window);
    return static_cast<double>(o.heads) * (n * o.choosing_cost() + pairs * o.pair_cost());
  };
  if (o.causal) return until(tokens) - until(tokens - rows);
  return until(tokens) * static_cast<double>(rows) / static_cast<double>(tokens);
}

int64_t RoutedAttention::ScratchBytes() const {
  const RoutedOptions& o = options_;
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const int64_t page = floats(kGrid * o.head_dim);
  const int64_t taken = page + o.sets() * floats(kGrid * o.clusters);
  const int64_t taking = 2 * page + GemmScratchBytes();
  const int64_t attending = core_.ScratchBytes(std::max(ClusterRows(), kGrid)) + 3 * floats(o.head_dim);
  return std::max(taken + std::max(taking, attending), ClusterMembers::ScratchBytes(o.window));
}

}  // namespace heed
