// y = c n^exponent, fitted from a length on.
#ifndef HEED_TESTS_BENCH_GROWTH_H_
#define HEED_TESTS_BENCH_GROWTH_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace heed {

class Growth {
 public:
  explicit Growth(int64_t from = 4096) : from_(from) {}
  void Add(int64_t n, double y) {
    if (n < from_) return;
    const double log_n = std::log(static_cast<double>(n)), log_y = std::log(y);
    ++count_, n_ += log_n, y_ += log_y, nn_ += log_n * log_n, ny_ += log_n * log_y;
  }
  std::string Exponent() const {
    if (count_ < 2) return "-";
    return Cat(std::round(100 * (count_ * ny_ - n_ * y_) / (count_ * nn_ - n_ * n_)) / 100);
  }

 private:
  int64_t from_;
  double count_ = 0, n_ = 0, y_ = 0, nn_ = 0, ny_ = 0;
};

}  // namespace heed

#endif  // HEED_TESTS_BENCH_GROWTH_H_
