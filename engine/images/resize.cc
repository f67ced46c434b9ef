#include "engine/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace heed {
namespace {

constexpr int kBits = 22;  // of a weight: 8 bits times a weight, and sums of them, fit into 32

// How much a pixel at a distance counts; none beyond the support.
double Support(Resample resample) { return resample == Resample::kBilinear ? 1 : 2; }

double Weight(Resample resample, double distance) {
  const double x = std::abs(distance);
  if (x >= Support(resample)) return 0;
  if (resample == Resample::kBilinear) return 1 - x;
  constexpr double a = -0.5;  // Keys' cubic
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : (((x - 5) * x + 8) * x - 4) * a;
}

// What a pixel is made of: those from `begin` on.
struct Taps {
  int64_t begin = 0;
  std::vector<int32_t> weights;  // in units of 2^-kBits
};

Taps TapsOf(int64_t at, int64_t from, int64_t to, Resample resample) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(ratio, 1.0);
  const double center = (static_cast<double>(at) + 0.5) * ratio, reach = Support(resample) * stretch;
  const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - reach + 0.5), 0),
                end = std::min<int64_t>(static_cast<int64_t>(center + reach + 0.5), from);
  std::vector<double> exact;
  double sum = 0;
  for (int64_t i = begin; i < end; ++i)
    sum += exact.emplace_back(Weight(resample, (static_cast<double>(i) - center + 0.5) * (1 / stretch)));
  Taps taps{.begin = begin};
  for (const double weight : exact)
    taps.weights.push_back(static_cast<int32_t>(std::lround(weight / sum * (1 << kBits))));
  return taps;
}

std::vector<Taps> AllTaps(int64_t from, int64_t to, Resample resample) {
  std::vector<Taps> all;
  for (int64_t at = 0; at < to; ++at) all.push_back(TapsOf(at, from, to, resample));
  return all;
}

// The sum of bytes that lie `step` apart.
uint8_t Sum(const Taps& taps, const uint8_t* values, int64_t step) {
  int32_t sum = 1 << (kBits - 1);
  const uint8_t* value = values + taps.begin * step;
  for (const int32_t weight : taps.weights) {
    sum += weight * *value;
    value += step;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

ByteImage WithWidth(const ByteImage& image, int64_t width, Resample resample) {
  if (width == image.width) return image;
  ByteImage out{.height = image.height, .width = width, .channels = image.channels};
  out.values.reserve(out.height * width * out.channels);
  const std::vector<Taps> taps = AllTaps(image.width, width, resample);
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* line = image.values.data() + y * image.width * image.channels;
    for (const Taps& pixel : taps) {
      for (int64_t c = 0; c < image.channels; ++c) out.values.push_back(Sum(pixel, line + c, image.channels));
    }
  }
  return out;
}

ByteImage WithHeight(const ByteImage& image, int64_t height, Resample resample) {
  if (height == image.height) return image;
  ByteImage out{.height = height, .width = image.width, .channels = image.channels};
  const int64_t bytes = image.width * image.channels;  // of a line
  out.values.reserve(height * bytes);
  for (const Taps& line : AllTaps(image.height, height, resample)) {
    for (int64_t i = 0; i < bytes; ++i) out.values.push_back(Sum(line, image.values.data() + i, bytes));
  }
  return out;
}

}  // namespace

ByteImage Cropped(const ByteImage& image, int64_t height, int64_t width) {
  const int64_t top = (image.height - height) >> 1, left = (image.width - width) >> 1;  // below 0: outside
  const int64_t first = std::max<int64_t>(left, 0), end = std::min(left + width, image.width);
  ByteImage out{.height = height, .width = width, .channels = image.channels};
  out.values.resize(height * width * image.channels);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + height, image.height); ++y) {
    const auto line = image.values.begin() + y * image.width * image.channels;
    std::copy(line + first * image.channels, line + end * image.channels,
              out.values.begin() + ((y - top) * width + first - left) * image.channels);
  }
  return out;
}

ByteImage Resized(const ByteImage& image, int64_t height, int64_t width, Resample resample) {
  return WithHeight(WithWidth(image, width, resample), height, resample);
}

}  // namespace heed
