#include "engine/attention/bucket_hash.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "engine/attention/attention.h"

namespace heed {
namespace {

// The largest of [p; -p]; of equal ones the first.
int64_t Corner(const float* p, int64_t directions) {
  int64_t best = 0;
  float largest = p[0];
  for (int64_t i = 1; i < 2 * directions; ++i) {
    const float x = i < directions ? p[i] : -p[i - directions];
    if (x > largest) {
      largest = x;
      best = i;
    }
  }
  return best;
}

// [in, out] to the [out, in] of a product.
std::vector<float> Turned(const float* from, int64_t in, int64_t out) {
  std::vector<float> turned(in * out);
  for (int64_t i = 0; i < in * out; ++i) turned[i % out * in + i / out] = from[i];
  return turned;
}

}  // namespace

int64_t BucketHash::Options::buckets() const {
  return std::accumulate(factors.begin(), factors.end(), int64_t{1}, std::multiplies<>());
}

int64_t BucketHash::Options::directions() const {
  return std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2;
}

BucketHash::BucketHash(const Options& options, const std::vector<float>& rotations) : options_(options) {
  const int64_t dim = options.head_dim, outputs = options.outputs();
  for (int head = 0; head < options.heads; ++head) {
    const std::vector<float> turned = Turned(rotations.data() + head * dim * outputs, dim, outputs);
    const Tensor of_head{DType::kF32, {outputs, dim}, turned.data()};
    rotations_.push_back(PackedWeights::Pack({{of_head, {}}}, Precision::kF32));
  }
}

void BucketHash::Hash(int head, Matrix<float> s, int32_t* buckets, int64_t pitch, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t outputs = options_.outputs(), directions = options_.directions();
  const Rows rows{DType::kF32, s.data, s.rows, s.cols, s.stride};
  const Rows turned{DType::kF32, scratch.Take<float>(s.rows * outputs), s.rows, outputs, outputs};
  Team alone;
  Gemm(alone, {rows}, rotations_[head], {.out = turned}, scratch);
  for (int64_t i = 0; i < s.rows * options_.rounds; ++i) {
    const int64_t row = i / options_.rounds, round = i % options_.rounds;
    const float* p = turned.As<float>().row(row) + round * directions;
    int64_t bucket = 0, product = 1;
    for (int64_t factor : options_.factors) {
      bucket += product * Corner(p, factor / 2);
      product *= factor;
      p += factor / 2;
    }
    buckets[round * pitch + row] = static_cast<int32_t>(bucket);
  }
}

int64_t BucketHash::bytes() const {
  int64_t sum = 0;
  for (const PackedWeights& of_head : rotations_) sum += of_head.bytes();
  return sum;
}

int64_t BucketHash::ScratchBytes() const {
  return Scratch::Piece(kGrid * options_.outputs() * SizeOf(DType::kF32)) + GemmScratchBytes();
}

void SortByBucket(std::span<const int32_t> buckets, int64_t limit, std::span<int32_t> order) {
  if (std::ssize(buckets) < limit) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int32_t row) { return std::pair(buckets[row], row); });
    return;
  }
  std::vector<int32_t> place(limit + 1);
  for (int32_t bucket : buckets) ++place[bucket + 1];
  std::partial_sum(place.begin(), place.end(), place.begin());
  for (size_t i = 0; i < buckets.size(); ++i) order[place[buckets[i]]++] = static_cast<int32_t>(i);
}

}  // namespace heed
