// Whole numbers rounded to multiples. Neither number is negative, and the unit is not 0.
#ifndef HEED_ENGINE_BASE_ROUND_H_
#define HEED_ENGINE_BASE_ROUND_H_

#include <cstdint>

namespace heed {

constexpr int64_t RoundDown(int64_t n, int64_t unit) { return n / unit * unit; }
constexpr int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
// How many units hold n.
constexpr int64_t Quotient(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

}  // namespace heed

#endif  // HEED_ENGINE_BASE_ROUND_H_
