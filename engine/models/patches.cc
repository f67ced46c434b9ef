#include "engine/models/patches.h"

#include <algorithm>

#include "absl/log/check.h"

namespace heed {

std::vector<float> Patches(std::span<const float> pixels, int64_t channels, int64_t height, int64_t width,
                           int64_t patch) {
  CHECK_EQ(channels * height * width, std::ssize(pixels));
  std::vector<float> rows(pixels.size());
  float* to = rows.data();
  for (int64_t top = 0; top < height; top += patch) {
    for (int64_t left = 0; left < width; left += patch) {
      for (int64_t line = 0; line < channels * patch; ++line) {
        const int64_t channel = line / patch, y = top + line % patch;
        to = std::copy_n(&pixels[(channel * height + y) * width + left], patch, to);
      }
    }
  }
  return rows;
}

}  // namespace heed
