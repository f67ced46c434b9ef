#include "engine/models/stack.h"

#include <algorithm>

namespace heed {

void Stack::Measure(int64_t width) {
  widths = {.width = width, .hidden = 0, .reads = width};
  for (const Step& step : steps) {
    products_width = std::max(products_width, step.attention.products_width());
    attended_width = std::max(attended_width, step.attention.attention().out_width());
    if (step.feed_forward)
      widths.hidden = std::max(widths.hidden, step.feed_forward->feed_forward().hidden());
  }
  widths.reads = std::max({width, attended_width, widths.hidden});
}

int64_t Stack::weight_bytes() const {
  int64_t bytes = 0;
  for (const Step& step : steps) {
    bytes += step.attention.weight_bytes();
    if (step.feed_forward) bytes += step.feed_forward->feed_forward().weight_bytes();
  }
  return bytes;
}

double Stack::multiply_adds(int64_t n) const {
  double sum = 0;
  for (const Step& step : steps) {
    sum += step.attention.multiply_adds() * n + step.attention.attention().Cost(n);
    if (step.feed_forward) sum += step.feed_forward->feed_forward().multiply_adds() * n;
  }
  return sum;
}

}  // namespace heed
