// Rotary positions: a table of cosines and sines, and the turning of pairs by them.
#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/rotary.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/ops/rows.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

// Turns (a[i], b[i]) by the angle i.
template <typename T>
void TurnHalves(T* a, T* b, const float* cosines, const float* sines, int64_t half) {
  const hn::ScalableTag<float> d;
  ForVectors(d, half, [&](int64_t i, auto count) {
    const auto x = Load(d, a + i, count), y = Load(d, b + i, count);
    const auto c = Load(d, cosines + i, count), s = Load(d, sines + i, count);
    Store(d, hn::NegMulAdd(y, s, hn::Mul(x, c)), a + i, count);
    Store(d, hn::MulAdd(x, s, hn::Mul(y, c)), b + i, count);
  });
}

// The same for pairs that lie side by side: as halves of a copy, some pairs at a time.
template <typename T>
void TurnNeighbours(T* x, const float* cosines, const float* sines, int64_t half) {
  constexpr int64_t kPairs = 64;
  T a[kPairs], b[kPairs];
  for (int64_t begin = 0; begin < half; begin += kPairs) {
    const int64_t pairs = std::min(kPairs, half - begin);
    T* first = x + 2 * begin;
    for (int64_t i = 0; i < pairs; ++i) a[i] = first[2 * i], b[i] = first[2 * i + 1];
    TurnHalves(a, b, cosines + begin, sines + begin, pairs);
    for (int64_t i = 0; i < pairs; ++i) first[2 * i] = a[i], first[2 * i + 1] = b[i];
  }
}

template <typename T>
void TurnHeads(const Matrix<T>& heads, bool interleaved, const float* angles, int64_t half) {
  for (int64_t h = 0; h < heads.rows; ++h) {
    T* x = heads.row(h);
    if (interleaved) {
      TurnNeighbours(x, angles, angles + half, half);
    } else {
      TurnHalves(x, x + half, angles, angles + half, half);
    }
  }
}

// heads: one position's, a head a row; angles: half cosines, then half sines.
void Turn(const Rows& heads, bool interleaved, const float* angles, int64_t half) {
  if (heads.dtype == DType::kBf16) {
    TurnHeads(heads.As<Bf16>(), interleaved, angles, half);
  } else {
    TurnHeads(heads.As<float>(), interleaved, angles, half);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(Turn);

// Cosines and sines by position, made a chunk of positions at a time and kept; chunks never move.
class RotaryAngles {
 public:
  static constexpr int64_t kChunk = 256;

  RotaryAngles(std::vector<double> frequencies, double factor)
      : frequencies_(std::move(frequencies)), factor_(factor) {}

  // The angles of positions [index * kChunk, ...): of each cosines, then sines, times the factor.
  const float* Chunk(int64_t index) {
    {
      std::shared_lock lock(mutex_);
      const auto found = chunks_.find(index);
      if (found != chunks_.end()) return found->second.data();
    }
    std::vector<float> made = Make(index);
    std::lock_guard lock(mutex_);
    return chunks_.try_emplace(index, std::move(made)).first->second.data();
  }

 private:
  std::vector<float> Make(int64_t index) const {
    const int64_t half = std::ssize(frequencies_);
    std::vector<float> chunk(kChunk * 2 * half);
    for (int64_t p = 0; p < kChunk; ++p) {
      for (int64_t t = 0; t < half; ++t) {
        const double angle = static_cast<double>(index * kChunk + p) * frequencies_[t];
        chunk[p * 2 * half + t] = static_cast<float>(factor_ * std::cos(angle));
        chunk[p * 2 * half + half + t] = static_cast<float>(factor_ * std::sin(angle));
      }
    }
    return chunk;
  }

  const std::vector<double> frequencies_;
  const double factor_;
  std::shared_mutex mutex_;
  std::map<int64_t, std::vector<float>> chunks_;  // guarded by mutex_
};

namespace {

// All layers, and all models of the same frequencies, read the same table.
std::shared_ptr<RotaryAngles> SharedAngles(const std::vector<double>& frequencies, double factor) {
  static std::mutex mutex;
  static auto* tables = new std::map<std::pair<std::vector<double>, double>, std::weak_ptr<RotaryAngles>>;
  std::lock_guard lock(mutex);
  std::weak_ptr<RotaryAngles>& known = (*tables)[{frequencies, factor}];
  std::shared_ptr<RotaryAngles> table = known.lock();
  if (!table) known = table = std::make_shared<RotaryAngles>(frequencies, factor);
  return table;
}

}  // namespace

std::vector<double> RotaryFrequencies(int64_t dims, double theta) {
  CHECK(dims > 0 && dims % 2 == 0 && theta > 0);
  std::vector<double> frequencies;
  for (int64_t t = 0; t < dims / 2; ++t)
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(t) / static_cast<double>(dims)));
  return frequencies;
}

Rotary::Rotary(const std::vector<double>& frequencies, bool interleaved, double factor)
    : dims_(2 * static_cast<int>(frequencies.size())),
      interleaved_(interleaved),
      angles_(SharedAngles(frequencies, factor)) {}

void Rotary::Apply(const Rows& x, int heads, std::span<const int64_t> positions) const {
  CHECK_EQ(static_cast<int64_t>(positions.size()), x.rows);
  const int64_t head_dim = x.cols / heads;
  CHECK(x.cols % heads == 0 && dims_ <= head_dim);
  int64_t chunk = -1;
  const float* angles = nullptr;
  for (int64_t r = 0; r < x.rows; ++r) {
    if (positions[r] / RotaryAngles::kChunk != chunk) {
      chunk = positions[r] / RotaryAngles::kChunk;
      angles = angles_->Chunk(chunk);
    }
    const Rows row_of_heads{x.dtype, x.at(r), heads, head_dim, head_dim};
    HWY_DYNAMIC_DISPATCH(Turn)
    (row_of_heads, interleaved_, angles + positions[r] % RotaryAngles::kChunk * dims_, dims_ / 2);
  }
}

}  // namespace heed
#endif  // HWY_ONCE
