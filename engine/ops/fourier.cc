#include "engine/ops/fourier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

namespace heed {
namespace {

bool IsPowerOfTwo(int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); }

int64_t PowerOfTwo(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

// In place, of `size` rows of kColumns numbers; cos and sin as FourierTransform has them.
template <int64_t kColumns, typename T>
void TransformByHalves(int64_t size, const T* cos, const T* sin, T* re, T* im) {
  for (int64_t i = 0, reversed = 0; i < size; ++i) {
    if (i < reversed) {
      std::swap_ranges(re + i * kColumns, re + (i + 1) * kColumns, re + reversed * kColumns);
      std::swap_ranges(im + i * kColumns, im + (i + 1) * kColumns, im + reversed * kColumns);
    }
    int64_t bit = size / 2;
    for (; bit > 0 && (reversed & bit) != 0; bit /= 2) reversed -= bit;
    reversed += bit;
  }
  for (int64_t half = 1; half < size; half *= 2) {
    for (int64_t first = 0; first < size; first += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const T c = cos[k * (size / (2 * half))], s = sin[k * (size / (2 * half))];
        T *re_a = re + (first + k) * kColumns, *im_a = im + (first + k) * kColumns;
        T *re_b = re_a + half * kColumns, *im_b = im_a + half * kColumns;
        for (int64_t l = 0; l < kColumns; ++l) {
          const T turned_re = c * re_b[l] + s * im_b[l], turned_im = c * im_b[l] - s * re_b[l];
          re_b[l] = re_a[l] - turned_re;
          im_b[l] = im_a[l] - turned_im;
          re_a[l] += turned_re;
          im_a[l] += turned_im;
        }
      }
    }
  }
}

// Each row times a number: (re + i im) (c + i s).
void TurnRow(float c, float s, float* re, float* im) {
  for (int64_t l = 0; l < FourierTransform::kColumns; ++l) {
    const float turned = c * re[l] - s * im[l];
    im[l] = c * im[l] + s * re[l];
    re[l] = turned;
  }
}

std::vector<float> Floats(const std::vector<double>& numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

FourierTransform::FourierTransform(int64_t length) : length_(length), size_(length) {
  if (!IsPowerOfTwo(length)) size_ = PowerOfTwo(2 * length - 1);
  std::vector<double> cos, sin;
  for (int64_t i = 0; i < std::max<int64_t>(size_ / 2, 1); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size_);
    cos.push_back(std::cos(angle));
    sin.push_back(std::sin(angle));
  }
  cos_ = Floats(cos);
  sin_ = Floats(sin);
  if (size_ == length_) return;
  std::vector<double> re(size_), im(size_);
  for (int64_t i = 0; i < length; ++i) {
    const double angle =
        std::numbers::pi * static_cast<double>(i * i % (2 * length)) / static_cast<double>(length);
    chirp_cos_.push_back(static_cast<float>(std::cos(angle)));
    chirp_sin_.push_back(static_cast<float>(std::sin(angle)));
    for (const int64_t at : {i, (size_ - i) % size_}) {
      re[at] = std::cos(angle) / static_cast<double>(size_);
      im[at] = std::sin(angle) / static_cast<double>(size_);
    }
  }
  TransformByHalves<1>(size_, cos.data(), sin.data(), re.data(), im.data());
  kernel_re_ = Floats(re);
  kernel_im_ = Floats(im);
}

int64_t FourierTransform::Room(int64_t length) { return PowerOfTwo(2 * length - 1); }

int64_t FourierTransform::Bytes(int64_t length) {
  return (3 * Room(length) + 2 * length) * static_cast<int64_t>(sizeof(float));
}

// A pair of rows takes ten operations a column.
double FourierTransform::Cost(int64_t length) {
  const double size = static_cast<double>(IsPowerOfTwo(length) ? length : Room(length));
  const double transforms = IsPowerOfTwo(length) ? 1 : 2;
  return transforms * 2.5 * kColumns * size * (std::log2(size) + 2);
}

void FourierTransform::Halve(float* re, float* im) const {
  TransformByHalves<kColumns>(size_, cos_.data(), sin_.data(), re, im);
}

// The transform is, but for a chirp of each row before and after it, a convolution with the chirp; and that
// is a product of transforms. The inverse one is the transform with the parts exchanged.
void FourierTransform::Run(float* re, float* im) const {
  if (size_ == length_) return Halve(re, im);
  const auto turn = [&](int64_t row, float c, float s) {
    TurnRow(c, s, re + row * kColumns, im + row * kColumns);
  };
  for (int64_t i = 0; i < length_; ++i) turn(i, chirp_cos_[i], -chirp_sin_[i]);
  std::fill(re + length_ * kColumns, re + size_ * kColumns, 0.0f);
  std::fill(im + length_ * kColumns, im + size_ * kColumns, 0.0f);
  Halve(re, im);
  for (int64_t i = 0; i < size_; ++i) turn(i, kernel_re_[i], kernel_im_[i]);
  Halve(im, re);
  for (int64_t i = 0; i < length_; ++i) turn(i, chirp_cos_[i], -chirp_sin_[i]);
}

}  // namespace heed
