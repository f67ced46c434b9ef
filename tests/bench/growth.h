// y = c n^exponent, fitted from 4,096 on.
#ifndef HEED_TESTS_BENCH_GROWTH_H_
#define HEED_TESTS_BENCH_GROWTH_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace heed {

class Growth {
 public:
  void Add(int64_t n, double y) {
    if (n < 4096) return;
    const double log_n = std::log(static_cast<double>(n)), log_y = std::log(y);
    ++count_, n_ += log_n, y_ += log_y, nn_ += log_n * log_n, ny_ += log_n * log_y;
  }
  std::string Exponent() const {
    if (count_ < 2) return "-";
    return Cat(std::round(100 * (count_ * ny_ - n_ * y_) / (count_ * nn_ - n_ * n_)) / 100);
  }

 private:
  double count_ = 0, n_ = 0, y_ = 0, nn_ = 0, ny_ = 0;
};

}  // namespace heed

#endif  // HEED_TESTS_BENCH_GROWTH_H_
