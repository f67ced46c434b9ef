#include "engine/attention/t5_buckets.h"

#include <algorithm>
#include <cstdlib>

#include "absl/log/check.h"

namespace heed {
namespace {

// A whole number of any size, made by multiplying.
class Whole {
 public:
  // times n^power
  Whole Times(int64_t n, int64_t power) && {
    for (int64_t i = 0; i < power; ++i) Multiply(n);
    return std::move(*this);
  }
  bool operator>=(const Whole& other) const {
    if (digits_.size() != other.digits_.size()) return digits_.size() > other.digits_.size();
    return !std::lexicographical_compare(digits_.rbegin(), digits_.rend(), other.digits_.rbegin(),
                                         other.digits_.rend());
  }

 private:
  void Multiply(uint64_t n) {
    uint64_t carry = 0;
    for (uint32_t& digit : digits_) {
      carry += digit * n;
      digit = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) digits_.push_back(static_cast<uint32_t>(carry));
    while (digits_.size() > 1 && digits_.back() == 0) digits_.pop_back();
  }
  std::vector<uint32_t> digits_ = {1};  // base 2^32, lowest first
};

}  // namespace

T5Buckets::T5Buckets(int buckets, int64_t max_distance, bool bidirectional)
    : bidirectional_(bidirectional), side_(bidirectional ? buckets / 2 : buckets) {
  const int64_t e = side_ / 2;
  CHECK(side_ > 0 && max_distance > e && max_distance < int64_t{1} << 32);
  for (int64_t t = 0; t < side_ - e; ++t) {
    int64_t low = e, high = max_distance;  // the start is in (low - 1, high]
    while (low < high) {
      const int64_t x = (low + high) / 2;
      const bool reached =
          Whole().Times(x, side_ - e).Times(e, t) >= Whole().Times(max_distance, t).Times(e, side_ - e);
      (reached ? high : low) = reached ? x : x + 1;
    }
    starts_.push_back(low);
  }
}

int64_t T5Buckets::Bucket(int64_t distance) const {
  const int64_t x = bidirectional_ ? std::abs(distance) : std::max<int64_t>(distance, 0);
  const int64_t first = bidirectional_ && distance < 0 ? side_ : 0;
  if (x < side_ / 2) return first + x;
  const int64_t bucket = std::upper_bound(starts_.begin(), starts_.end(), x) - starts_.begin() - 1;
  return first + side_ / 2 + bucket;
}

}  // namespace heed
