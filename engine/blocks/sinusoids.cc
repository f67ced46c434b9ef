#include "engine/blocks/sinusoids.h"

#include <cmath>

namespace heed {
namespace {

constexpr int64_t kNear = 256, kFar = 256;

}  // namespace

Sinusoids::Sinusoids(int64_t width) : width_(width) {
  for (int64_t i = 0; i < width; i += 2)
    frequencies_.push_back(
        std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(width)));
  turns_.reserve((kNear + kFar) * frequencies_.size());
  for (int64_t row = 0; row < kNear + kFar; ++row) {
    const int64_t position = row < kNear ? row : (row - kNear) * kNear;
    for (double frequency : frequencies_)
      turns_.push_back(std::polar(1.0, static_cast<double>(position) * frequency));
  }
}

void Sinusoids::Add(int64_t position, float* x) const {
  const int64_t far = position / kNear;
  const Turn* left = Row(position % kNear);
  const Turn* multiple = far < kFar ? Row(kNear + far) : nullptr;
  for (int64_t i = 0; i < std::ssize(frequencies_); ++i) {
    const Turn whole = multiple != nullptr
                           ? multiple[i]
                           : std::polar(1.0, static_cast<double>(far * kNear) * frequencies_[i]);
    const double sine = whole.real() * left[i].imag() + whole.imag() * left[i].real();
    const double cosine = whole.real() * left[i].real() - whole.imag() * left[i].imag();
    x[2 * i] += static_cast<float>(sine);
    if (2 * i + 1 < width_) x[2 * i + 1] += static_cast<float>(cosine);
  }
}

}  // namespace heed
