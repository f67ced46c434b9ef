// Sinkhorn's balancing of a square matrix (Sinkhorn 1964): scores become weights whose rows and columns sum
// to one. It scales rows and columns, two multiply-adds a number, and goes on by logarithms where a scale
// would leave the range of numbers: what no row prefers, be it by e^1000, still becomes a column that sums to
// one.
#ifndef HEED_ENGINE_OPS_SINKHORN_H_
#define HEED_ENGINE_OPS_SINKHORN_H_

#include <cstdint>
#include <span>

namespace heed {

// Finds f and g such that exp(r[a][b] - f[a] - g[b]) is exp(r) after `iterations` of: divide
// each row by its sum, then each column by its own. r: a row each, of numbers of which the largest is 0; of a
// triangle row a has a + 1 numbers, and those after them are -infinity.
struct SinkhornScores {
  std::span<const float* const> rows;
  std::span<const float* const> exponentials;  // of the rows
  bool triangle = false;
};
void Balance(const SinkhornScores& r, int iterations, float* f, float* g, float* work);
// Numbers of `work`.
constexpr int64_t BalanceWork(int64_t rows) { return 3 * rows; }

// weights[b] = exp(r[b] - f - g[b]) for b in [0, n)
void BalancedRow(const float* r, int64_t n, float f, const float* g, float* weights);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_SINKHORN_H_
