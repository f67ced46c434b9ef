// Swin's windows as its authors have them: the grid is filled up, rolled by the shift and cut; what passed an
// edge in the roll does not meet what did not.
#include <algorithm>
#include <cmath>

#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

struct Grid {
  int64_t height = 0, width = 0, window = 0, shift = 0;

  static int64_t Filled(int64_t side, int64_t window) { return (side + window - 1) / window * window; }
  // A line or column after the roll.
  int64_t Rolled(int64_t place, int64_t side) const {
    const int64_t filled = Filled(side, window);
    return (place - shift + filled) % filled;
  }
  bool Meet(int64_t a, int64_t b, int64_t side) const {
    const int64_t edge = Filled(side, window) - shift, i = Rolled(a, side), j = Rolled(b, side);
    return i / window == j / window && (i >= edge) == (j >= edge);
  }
};

Grid GridOf(const Passage& passage) {
  const Json& o = passage.layer().options();
  Grid grid{.window = o["window"], .shift = o.value("shift", int64_t{0})};
  grid.width = passage.columns() > 0 ? passage.columns() : o["width"].get<int64_t>();
  grid.height = passage.columns() > 0 ? passage.n() / grid.width : o["height"].get<int64_t>();
  if (std::min(grid.height, grid.width) > grid.window) return grid;
  grid.window = std::min(grid.height, grid.width);
  grid.shift = 0;
  return grid;
}

// The product's numbers of a row, or of one of zeros.
std::vector<double> KeyOf(const Passage& passage, int product, int64_t row, int head, int64_t dim) {
  if (row >= 0) return HeadOf(passage.product(product), row, head, dim);
  const auto& tensors = passage.layer().tensors();
  const auto bias = tensors.find(passage.layer().attention().products()[product].name + ".bias");
  if (bias == tensors.end()) return std::vector<double>(dim);
  const float* numbers = static_cast<const float*>(bias->second.data) + head * dim;
  return {numbers, numbers + dim};
}

}  // namespace

DefinedHead DefinedWindow2d(const Passage& passage, int head, bool) {
  return [&passage, head, grid = GridOf(passage)](int64_t i) {
    const Layer& layer = passage.layer();
    const int64_t heads = layer.example().num_heads, dim = layer.attention().out_width() / heads,
                  m = grid.window;
    const int64_t line = i / grid.width, column = i % grid.width;
    const bool biased = layer.options().value("relative_bias", true);
    DefinedSoftmax softmax(dim);
    for (int64_t y = 0; y < Grid::Filled(grid.height, m); ++y) {
      for (int64_t x = 0; x < Grid::Filled(grid.width, m); ++x) {
        if (!grid.Meet(line, y, grid.height) || !grid.Meet(column, x, grid.width)) continue;
        const int64_t row =
            y < grid.height && x < grid.width && y * grid.width + x < passage.n() ? y * grid.width + x : -1;
        Sum score = Dot(HeadOf(passage.product(0), i, head, dim), KeyOf(passage, 1, row, head, dim)) *
                    (1 / std::sqrt(static_cast<double>(dim)));
        if (biased) {
          const int64_t down = grid.Rolled(line, grid.height) - grid.Rolled(y, grid.height),
                        right = grid.Rolled(column, grid.width) - grid.Rolled(x, grid.width);
          score.Add(
              layer.tensor("relative_bias")[((down + m - 1) * (2 * m - 1) + right + m - 1) * heads + head]);
        }
        const std::vector<double> value = KeyOf(passage, 2, row, head, dim);
        softmax.Add(score, [&](int64_t t) { return value[t]; });
      }
    }
    return softmax.Row();
  };
}

}  // namespace heed
