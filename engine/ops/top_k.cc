#include "engine/ops/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/log/check.h"

namespace heed {
namespace {

bool Better(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

}  // namespace

// The best so far are a heap, the worst of them on top. Numbers come in the order of their indices, so an
// equal one is never better.
void TopK(const float* x, int64_t n, int64_t k, Ranked* best) {
  DCHECK(k >= 1 && k <= n);
  for (int64_t i = 0; i < k; ++i) {
    const float value = std::isnan(x[i]) ? -std::numeric_limits<float>::infinity() : x[i];
    best[i] = {value, static_cast<int32_t>(i)};
  }
  std::make_heap(best, best + k, Better);
  for (int64_t i = k; i < n; ++i) {
    if (!(x[i] > best->value)) continue;
    std::pop_heap(best, best + k, Better);
    best[k - 1] = {x[i], static_cast<int32_t>(i)};
    std::push_heap(best, best + k, Better);
  }
  std::sort_heap(best, best + k, Better);
}

}  // namespace heed
